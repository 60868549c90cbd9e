// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/detail/stage_ties.hpp>
#include <shardwise/train/detail/training_groups.hpp>
#include <shardwise/train/train_options.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A number of all that changes the result of a training, but for weights and the contents of files: the same on all ranks.
[[nodiscard]] inline std::int64_t hash_of_training(std::string_view optimizer, TrainingLayout const& layout,
                                                   Batches const& batches, TrainOptions const& options) {
    auto const& batch = batches.options();
    auto const& schedule = options.schedule;
    auto hash = fnv1a(optimizer);
    for (auto const number : {layout.whole_elements(),
                              std::int64_t{options.tp},
                              std::int64_t{options.pp},
                              options.pp > 1 ? static_cast<std::int64_t>(options.pipeline) : 0,
                              options.pp > 1 ? options.micro_batch : 0,
                              batch.context,
                              batch.batch,
                              batches.samples(),
                              options.steps,
                              options.max_skipped,
                              options.check_every,
                              schedule.warm_up,
                              schedule.total,
                              schedule.decay,
                              std::int64_t{batch.shuffles},
                              std::int64_t{options.is_fast},
                              static_cast<std::int64_t>(options.zero),
                              static_cast<std::int64_t>(options.precision),
                              static_cast<std::int64_t>(schedule.kind),
                              std::bit_cast<std::int64_t>(batch.seed),
                              std::bit_cast<std::int64_t>(options.dropout_seed)})
        hash = fnv1a_step(hash, static_cast<std::uint64_t>(number));
    for (auto const number : {options.clip.value_or(0.0), schedule.learning_rate, schedule.floor, options.dropout})
        hash = fnv1a_step(hash, std::bit_cast<std::uint64_t>(number));
    return std::bit_cast<std::int64_t>(hash);
}

/// Compares a number with rank 0's; `what` says what differs where it does.
///
/// Errors  collective_mismatch on all ranks with the first rank that differs; as a collective
template <Communicator C>
[[nodiscard]] Result<> agree_on_number(C& comm, std::int64_t own, std::string_view what) {
    auto first = own;
    if (auto const sent = broadcast(comm, TensorView<std::int64_t, 1, Host>{&first, {1}}, 0); !sent) return sent;
    Result<> same;
    if (first != own)
        same = Error{ErrorCode::collective_mismatch}
                   .in("rank " + std::to_string(comm.rank()))
                   .because(what)
                   .fix("give all ranks the same");
    return agree_on(comm, same);
}
template <Communicator C>
[[nodiscard]] Result<> agree_on_training(C& comm, std::int64_t own) {
    return agree_on_number(comm, own, "trains with other options, batches or sizes than rank 0");
}

/// Checks where a run is, on all ranks, and compares.
///
/// Errors  invalid_argument for steps that are not in order or not before the next one; as agree_on_number
template <Communicator C>
[[nodiscard]] Result<> agree_on_position(C& comm, TrainerPosition const& position) {
    Result<> known;
    Error bad{ErrorCode::invalid_argument};
    bad.in("training");
    if (position.step < 0) known = Error{bad}.at("step").because("is negative").got(position.step);
    std::int64_t last = -1;
    auto hash = fnv1a_step(fnv1a("position"), static_cast<std::uint64_t>(position.step));
    hash = fnv1a_step(hash, std::bit_cast<std::uint64_t>(position.loss_scale));
    hash = fnv1a_step(hash, static_cast<std::uint64_t>(position.good_steps));
    for (auto const step : position.skipped) {
        if (known && (step <= last || step >= position.step))
            known = Error{bad}
                        .at("skipped")
                        .because("has a step that is not between the one before and the next")
                        .got(step)
                        .between(last + 1, position.step - 1);
        last = step;
        hash = fnv1a_step(hash, static_cast<std::uint64_t>(step));
    }
    if (auto const agreed = agree_on(comm, known); !agreed || comm.size() == 1) return agreed;
    return agree_on_number(comm, std::bit_cast<std::int64_t>(hash), "goes on from other steps than rank 0");
}

/// Compares the weights of ranks that have them alike: data-parallel ranks all, or none where each has its share; tensor-parallel ones
/// those that they do not share.
///
/// Errors  as compare_replicas
template <class Comm>
[[nodiscard]] Result<> agree_on_weights(TrainingGroups<Comm>& groups, TrainingWeights const& weights) {
    auto const compare = [&](auto& comm, bool takes_shared) -> Result<> {
        if (comm.size() == 1) return {};
        List<NamedValues> values;
        auto const& parameters = weights.layout().parameters();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            if (takes_shared || parameters[i].cut.is_whole())
                values.push_back({parameters[i].name, weights.values(i), weights.halves(i)});
        }
        return compare_replicas(comm, Span<NamedValues const>(values));
    };
    // What was read of files (offload) is given back.
    struct GivesBack {
        TrainingWeights const& weights;
        ~GivesBack() { weights.drop(); }
    } const gives_back{weights};
    if (groups.pipeline() != nullptr) {
        if (auto const agreed = StageTies::agree(weights, *groups.pipeline()); !agreed) return agreed;
    }
    if (weights.shares().is_shared()) {
        return groups.tensor() == nullptr ? Result<>{} : compare(*groups.tensor(), false);
    }
    if (auto const agreed = compare(groups.data(), true); !agreed || groups.tensor() == nullptr) return agreed;
    return groups.pipeline() == nullptr ? compare(groups.world(), false) : compare(*groups.tensor(), false);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
