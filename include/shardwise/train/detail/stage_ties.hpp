// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Parameters that two stages of a pipeline read under tied names: each sums the gradient of its own name over leaves and ranks, and once
/// a step the two stages give each other these sums and add them, so that both change the parameter in the same way.
class StageTies {
public:
    /// What `create` allocates for a rank; `held` gives the elements that it has of the sum of a parameter's gradient.
    template <class Held>
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout, Held const& held) {
        return Bytes{elements(layout, held) * static_cast<std::int64_t>(sizeof(float))};
    }
    /// What a rank takes from another in one exchange: a message for each parameter of its own.
    template <class Held>
    [[nodiscard]] static CollectiveTraffic traffic(TrainingLayout const& layout, Held const& held) {
        CollectiveTraffic out;
        for (auto const& tie : layout.parts().ties()) {
            auto const parameter = find(layout, tie);
            auto const taken = parameter ? held(*parameter) : 0;
            out += {1, taken > 0 ? 1 : 0, taken * static_cast<std::int64_t>(sizeof(float))};
        }
        return out;
    }

    /// `layout` outlives this.
    ///
    /// Errors  out_of_memory
    template <class Held>
    [[nodiscard]] static Result<StageTies> create(HostContext& context, TrainingLayout const& layout,
                                                  Held const& held) {
        auto memory = Buffer<float, Host>::allocate(context, elements(layout, held));
        if (!memory) return memory.error();
        return StageTies(layout, std::move(*memory));
    }

    /// Adds the other stage's sum to each. All stages call it.
    ///
    /// Order   on `stream`; this object, the gradients and `stages` outlive what is in it
    template <Communicator C>
    void exchange(TrainingGradients const& gradients, C& stages, HostStream& stream) {
        for (auto const& tie : layout_->parts().ties()) {
            auto const parameter = find(*layout_, tie);
            TensorView<float, 1, Host> own{memory_.data(), {0}};
            if (parameter) own = gradients.held(*parameter);
            auto const count = own.elements();
            auto const peer = layout_->place().pipeline.stage == tie.first_stage ? tie.other_stage : tie.first_stage;
            auto const of = [count, peer](std::int32_t stage) { return stage == peer ? count : 0; };
            TensorView<float, 1, Host> const got{memory_.data(), {count}};
            submit_all_to_all(stages, TensorView<float const, 1, Host>{own.data(), {count}}, of, got, of, stream);
            detail::add<Host>(own, got.data(), stream);
        }
    }

    /// Compares what the two stages have of each parameter. All stages call it.
    ///
    /// Errors  collective_mismatch; as a collective
    template <Communicator C>
    [[nodiscard]] static Result<> agree(TrainingWeights const& weights, C& stages) {
        auto const& layout = weights.layout();
        for (auto const& tie : layout.parts().ties()) {
            auto hash = fnv1a_start;
            auto const parameter = find(layout, tie);
            if (parameter) {
                auto const values = weights.values(*parameter);
                for (std::int64_t i = 0; i < values.elements(); ++i)
                    hash = fnv1a_step(hash, std::bit_cast<std::uint32_t>(values.data()[i]));
                auto const halves = weights.halves(*parameter);
                for (std::int64_t i = 0; i < halves.elements(); ++i)
                    hash = fnv1a_step(hash, std::bit_cast<std::uint16_t>(halves.data()[i]));
            }
            auto first = std::bit_cast<std::int64_t>(hash);
            auto const root = static_cast<std::int32_t>(tie.first_stage);
            if (auto const sent = broadcast(stages, TensorView<std::int64_t, 1, Host>{&first, {1}}, root); !sent)
                return sent;
            Result<> same;
            if (parameter && first != std::bit_cast<std::int64_t>(hash))
                same = Error{ErrorCode::collective_mismatch}
                           .in("stage " + std::to_string(tie.other_stage))
                           .at(tie.first)
                           .because("differs from what stage " + std::to_string(tie.first_stage) + " has")
                           .fix("give both stages the same weights");
            if (auto const agreed = agree_on(stages, same); !agreed) return agreed;
        }
        return {};
    }

private:
    StageTies(TrainingLayout const& layout, Buffer<float, Host> memory)
        : layout_(&layout), memory_(std::move(memory)) {}

    /// Where this rank has it.
    [[nodiscard]] static Optional<std::size_t> find(TrainingLayout const& layout, StageTie const& tie) {
        for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
            if (layout.parameters()[i].name == tie.first) return i;
        }
        return {};
    }
    template <class Held>
    [[nodiscard]] static std::int64_t elements(TrainingLayout const& layout, Held const& held) {
        std::int64_t most = 0;
        for (auto const& tie : layout.parts().ties()) {
            if (auto const parameter = find(layout, tie)) most = std::max(most, held(*parameter));
        }
        return most;
    }

    TrainingLayout const* layout_;
    Buffer<float, Host> memory_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
