// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_graph.hpp>
#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/graph_counts.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/work.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// True where what an operation puts into a stream depends on a step's table alone, for steps of as many sequences with one token each.
/// That of experts does where ExecutedOp<ExpertsOp> says so, too.
[[nodiscard]] constexpr bool repeats_itself(Operation const& op) {
    // The host names the states of a step's sequences.
    if (kept_heads(op).state > 0) return false;
    return op.kind != OpKind::attention || keeps_rows(op.attention());
}

}  // namespace detail

/// What puts a step into the stream of a back end that takes no streams down: always by its calls.
template <ComputeBackend Backend>
class StepGraphs {
public:
    [[nodiscard]] static char const* obstacle(Model const&) { return nullptr; }
    [[nodiscard]] GraphCounts const& counts() const { return counts_; }
    void refuse(char const*) const {}
    void note(char const*) const {}
    [[nodiscard]] static std::int64_t bucket(std::int64_t sequences, std::int64_t) { return sequences; }

    template <class C, class Walk>
    [[nodiscard]] Result<> run(std::int64_t, void const*, C&, typename Backend::Stream&, Walk const& walk) {
        return walk();
    }

private:
    GraphCounts counts_;
};

/// Steps of one token of each sequence as graphs of a device, one for each bucket of 1, 2, 4, 8, ... sequences, where rows beyond the
/// step's are inert: the second step of a bucket is taken down, those after it are one call of the vendor's. The first one runs by its
/// calls, since code is loaded when it is first used, which must not happen within a capture.
template <class Api>
class StepGraphs<DeviceBackend<Api>> {
public:
    /// Why no step of a model can be taken down; null where all that it computes repeats itself.
    [[nodiscard]] static char const* obstacle(Model const& model) {
        for (auto const& block : model.program.blocks()) {
            // Sources are encoded in steps of their own.
            if (block.is_encoder) continue;
            auto const& operations = model.program.body(block).operations();
            if (!std::all_of(operations.begin(), operations.end(), detail::repeats_itself))
                return "the model keeps states or sees whole texts, of which the host tells each step";
        }
        return nullptr;
    }
    [[nodiscard]] GraphCounts const& counts() const { return counts_; }
    /// As how many sequences a step of some is put into the stream, of `most`.
    [[nodiscard]] std::int64_t bucket(std::int64_t sequences, std::int64_t most) const {
        if (is_refused_) return sequences;
        return std::min(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sequences))), most);
    }
    /// No step is taken down from now on.
    void refuse(char const* reason) {
        if (std::exchange(is_refused_, true)) return;
        counts_.reason = reason;
    }
    /// A step of one token of each sequence ran by its calls, and why.
    void note(char const* reason) {
        if (counts_.reason.empty()) counts_.reason = reason;
    }

    /// Puts a step of so many rows into the stream: walk() does it call by call. `out` is where the step leaves its result. The ranks of
    /// `comm` do so alike: where one of them cannot take a step down, none does.
    template <Communicator C, class Walk>
    [[nodiscard]] Result<> run(std::int64_t rows, void const* out, C& comm, DeviceStream<Api>& stream,
                               Walk const& walk) {
        if (is_refused_) return walk();
        auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](Kept const& kept) { return kept.rows == rows && kept.out == out; });
        if (found == kept_.end()) {
            kept_.push_back({rows, out, {}});
            return walk();
        }
        if (found->graph.empty()) {
            auto graph = DeviceGraph<Api>::capture(stream, walk);
            if (!graph && stream.failure()) return graph.error();
            auto const all = detail::holds_on_all(comm, static_cast<bool>(graph));
            if (!all) return all.error();
            if (!*all) {
                // The vendor does not take this down: nothing has run.
                is_refused_ = true;
                counts_.reason = graph ? "another rank's steps cannot be taken down" : graph.error().message();
                return walk();
            }
            found->graph.push_back(std::move(*graph));
            ++counts_.captured;
        }
        auto const launch = [&]() -> Result<> {
            found->graph.front().launch(stream);
            ++counts_.replayed;
            return stream.failure() ? Result<>(*stream.failure()) : Result<>{};
        };
        return detail::put_together(comm, launch);
    }

private:
    struct Kept {
        std::int64_t rows;
        void const* out;
        /// None before the second step of its kind.
        std::vector<DeviceGraph<Api>> graph;
    };

    std::vector<Kept> kept_;
    bool is_refused_ = false;
    GraphCounts counts_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
