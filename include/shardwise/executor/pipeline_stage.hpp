// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The consecutive blocks of a model that one stage of a pipeline computes, counted in the order in which they run:
/// what stands before the first layer belongs to the first stage, what stands after the last layer to the last.
struct StageBlocks {
    std::int64_t begin = 0;
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
    /// By block of the model, where the weights lie; those beyond the list are resident.
    std::vector<LayerHome> homes{};

    [[nodiscard]] bool has(std::int64_t block) const { return block >= begin && block < end; }
    [[nodiscard]] LayerHome home(std::int64_t block) const {
        auto const i = static_cast<std::size_t>(block);
        return i < homes.size() ? homes[i] : LayerHome::resident;
    }
};

/// Where a stage takes the hidden state from and where it hands it to: ranks of `world`, -1 at the ends of the model.
template <Communicator C>
struct StageLinks {
    C* world = nullptr;
    std::int32_t from = -1;
    std::int32_t to = -1;
};

/// The links of one step of a stage's blocks: sources travel through all stages, what a decoder computes from its embedding on.
template <Communicator C, class Blocks>
[[nodiscard]] StageLinks<C> step_links(StageLinks<C> links, Blocks const& blocks, bool is_encoding) {
    if (is_encoding || blocks.empty()) return links;
    if (blocks.front().is_encoder) links.from = -1;
    if (blocks.back().is_encoder) links.to = -1;
    return links;
}

/// Takes a hidden state of so many elements from the stage before.
///
/// Order  on `stream`; the communicator outlives what is in it
template <ComputeBackend Backend, Communicator C, ActivationElement T>
void submit_receive(StageLinks<C> const& links, T* hidden, std::int64_t elements, typename Backend::Stream& stream) {
    TensorView<T, 1, Backend> const in(hidden, {elements});
    if constexpr (HasHostMemory<Backend>) {
        stream.submit([world = links.world, in, from = links.from] { return receive(*world, in, from); });
    } else {
        submit_receive_from(*links.world, in, links.from, stream);
    }
}

/// Hands a hidden state on to the next stage.
///
/// Order  on `stream`; the communicator outlives what is in it
template <ComputeBackend Backend, Communicator C, ActivationElement T>
void submit_send(StageLinks<C> const& links, T const* hidden, std::int64_t elements, typename Backend::Stream& stream) {
    TensorView<T const, 1, Backend> const out(hidden, {elements});
    if constexpr (HasHostMemory<Backend>) {
        stream.submit([world = links.world, out, to = links.to] { return send(*world, out, to); });
    } else {
        submit_send_to(*links.world, out, links.to, stream);
    }
}

/// Each stage's first layer and, last, the number of layers, where weights are even: what the estimator assumes.
///
/// Errors  invalid_argument for degrees that are not legal, with those that are
[[nodiscard]] inline Result<std::vector<std::int64_t>> even_stages(Model const& model, std::int64_t tp,
                                                                   std::int64_t pp) {
    EstimateRequest request;
    request.context = 1;
    request.parallel.tp = tp;
    request.parallel.pp = pp;
    auto const estimate = estimate_memory(model, request);
    if (!estimate) return estimate.error();
    std::vector<std::int64_t> begins;
    for (auto const& device : estimate->devices) {
        if (device.place.tp == 0) begins.push_back(device.first_layer);
    }
    begins.push_back(estimate->devices.back().first_layer + estimate->devices.back().layer_count);
    return begins;
}

/// The blocks of each stage, from the stages' first layers and the number of layers, and where each layer's weights
/// lie: resident beyond the list. The first stage may have no layers, only what stands before them, and the last only
/// what stands after them.
[[nodiscard]] inline std::vector<StageBlocks> blocks_of_stages(BlockProgram const& program,
                                                               std::vector<std::int64_t> const& begins,
                                                               std::vector<LayerHome> const& layer_homes = {}) {
    std::vector<StageBlocks> stages(begins.size() - 1);
    std::vector<LayerHome> homes;
    std::int64_t layer = 0;
    std::int64_t number = 0;
    std::size_t stage = 0;
    for (auto const& block : program.blocks()) {
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            bool const is_placed = block.is_numbered && layer < static_cast<std::int64_t>(layer_homes.size());
            homes.push_back(is_placed ? layer_homes[static_cast<std::size_t>(layer)] : LayerHome::resident);
            bool const is_behind = layer >= begins.back();
            while ((block.is_numbered || is_behind) && stage + 1 < stages.size() && layer >= begins[stage + 1]) {
                stages[stage].end = number;
                stages[++stage].begin = number;
            }
            if (block.is_numbered) ++layer;
        }
    }
    stages.back().end = number;
    for (auto& each : stages) each.homes = homes;
    return stages;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
