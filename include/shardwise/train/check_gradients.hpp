// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/find_bad.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/quant/half_types.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Numbers of a parameter under its name: a gradient, or weights.
struct NamedValues {
    std::string_view name;
    TensorView<float const, 1, Host> values;
    /// Weights that are held in bf16, in place of `values`.
    TensorView<Bfloat16 const, 1, Host> halves{};
};

/// A gradient that is infinite or undefined, or is another one where it is computed again, of the lowest rank that has one.
struct BadGradient {
    std::int32_t rank = 0;
    /// Its place in that rank's list, and the element within.
    std::int32_t parameter = 0;
    std::int64_t element = 0;
    /// In which ranks exchange it; -1: none is told.
    std::int64_t bucket = -1;

    /// What happened, for reports of a skipped step. `name` is the parameter's; `what` is told of a gradient that is a number.
    [[nodiscard]] Error error(std::string_view name, std::int64_t step, std::string_view what = {}) const {
        auto const in_bucket = bucket < 0 ? std::string() : ", bucket " + std::to_string(bucket);
        Error out{what.empty() ? ErrorCode::invalid_argument : ErrorCode::backend_failure};
        out.in("rank " + std::to_string(rank) + in_bucket + ", step " + std::to_string(step)).at(name);
        if (!what.empty()) return out.because(what).fix("look for a broken machine if it is always this rank");
        return out.because("the gradient of element " + std::to_string(element) + " is infinite or undefined")
            .fix("lower the learning rate or the loss scale, or look for a broken machine if it is always this rank");
    }
};

/// The bad gradient of the lowest rank that has one, of which each tells its own: the parameter's place in its list and the element, or -1;
/// and the bucket, where there are any. All ranks get the same answer.
///
/// Errors  as a collective
template <Communicator C>
[[nodiscard]] Result<Optional<BadGradient>> first_bad_gradient(C& comm, std::int64_t parameter, std::int64_t element,
                                                               std::int64_t bucket = -1) {
    std::array<std::int64_t, 3> place{parameter, element, bucket};
    std::int32_t rank = parameter >= 0 ? comm.rank() : comm.size();
    if (auto const done = all_reduce(comm, TensorView<std::int32_t, 1, Host>{&rank, {1}}, ReduceOp::min); !done)
        return done.error();
    if (rank == comm.size()) return Optional<BadGradient>{};
    if (auto const sent = broadcast(comm, TensorView<std::int64_t, 1, Host>{place.data(), {3}}, rank); !sent)
        return sent.error();
    return Optional<BadGradient>{BadGradient{rank, static_cast<std::int32_t>(place[0]), place[1], place[2]}};
}

/// Finds out which rank brought an infinite or undefined gradient; nothing where none did. All ranks call it with their own gradients as
/// they were before any sum, when the norm of all was no number (GradientNorm::is_finite), and get the same answer.
///
/// Errors  invalid_argument for a view without memory; as a collective
template <Communicator C>
[[nodiscard]] Result<Optional<BadGradient>> find_bad_gradient(C& comm, Span<NamedValues const> gradients) {
    Result<> known;
    for (auto const& one : gradients) {
        if (known) known = check_views(one.name, one.values);
    }
    if (auto const agreed = agree_on(comm, known); !agreed) return agreed.error();
    std::array<std::int64_t, 2> place{-1, 0};
    for (std::size_t i = 0; i < gradients.size() && place[0] < 0; ++i) {
        auto const found = detail::find_bad(gradients[i].values.data(), gradients[i].values.elements());
        if (found >= 0) place = {static_cast<std::int64_t>(i), found};
    }
    return first_bad_gradient(comm, place[0], place[1]);
}

/// Steps that were skipped because of a gradient, on all ranks alike, and when there were too many in a row.
class SkippedSteps {
public:
    /// `max_in_row` in a row end a run; of 0 the first one does.
    explicit SkippedSteps(std::int64_t max_in_row = 10) : max_in_row_(max_in_row) {}
    /// Those of a run that goes on with step `next`.
    SkippedSteps(std::int64_t max_in_row, List<std::int64_t> steps, std::int64_t next)
        : max_in_row_(max_in_row), steps_(std::move(steps)) {
        for (auto i = steps_.size(); i-- > 0 && steps_[i] == next - 1 - in_row_;) ++in_row_;
    }

    /// Counts a step that was skipped.
    ///
    /// Errors  `why`, with the number of steps, where it is the last of as many in a row as end a run
    [[nodiscard]] Result<> skip(std::int64_t step, Error const& why) {
        steps_.push_back(step);
        if (++in_row_ < max_in_row_) return {};
        auto const reason = std::string(why.reason()) + "; " +
                            (in_row_ == 1 ? std::string("a step was skipped")
                                          : std::to_string(in_row_) + " steps in a row were skipped");
        return Error{why}.because(reason);
    }
    /// Counts a step that was taken.
    void take() { in_row_ = 0; }

    [[nodiscard]] List<std::int64_t> const& steps() const { return steps_; }
    [[nodiscard]] std::int64_t in_row() const { return in_row_; }

private:
    std::int64_t max_in_row_;
    std::int64_t in_row_ = 0;
    List<std::int64_t> steps_;
};

/// What made a step's loss or norm no number where every rank's gradients are numbers.
[[nodiscard]] inline Error no_number(std::int64_t step, bool is_loss) {
    return Error{ErrorCode::invalid_argument}
        .in("step " + std::to_string(step))
        .at(is_loss ? "loss" : "gradient")
        .because(is_loss ? "is no number" : "is beyond the numbers of float where ranks add up")
        .fix("use a lower learning rate, or look at the data of this step");
}

/// What a step is skipped for whose whole batch has no target.
[[nodiscard]] inline Error no_counted_token(std::int64_t step) {
    return Error{ErrorCode::invalid_argument}
        .in("step " + std::to_string(step))
        .at("batch")
        .because("has no token whose loss counts");
}

/// Compares what must be equal on all ranks in every bit: replicated weights, averaged gradients. A difference in one bit is always
/// seen: a step of the hash maps different states to different ones.
///
/// Memory  8 bytes for each parameter and rank
/// Errors  collective_mismatch on all ranks, with the first parameter that differs and the ranks that differ from most others;
///         shape_mismatch for another number of parameters than rank 0's; as a collective
template <Communicator C>
[[nodiscard]] Result<> compare_replicas(C& comm, Span<NamedValues const> parameters) {
    auto count = static_cast<std::int64_t>(parameters.size());
    auto const own_count = count;
    Result<> known;
    if (auto const sent = broadcast(comm, TensorView<std::int64_t, 1, Host>{&count, {1}}, 0); !sent) return sent;
    if (count != own_count)
        known = Error{ErrorCode::shape_mismatch}
                    .in("replicas")
                    .because("are of another number of parameters than rank 0's")
                    .got(own_count)
                    .expected(count);
    for (auto const& one : parameters) {
        if (known) known = check_views(one.name, one.values, one.halves);
    }
    if (auto const agreed = agree_on(comm, known); !agreed) return agreed;

    List<std::int64_t> own;
    for (auto const& one : parameters) {
        auto hash = detail::fnv1a_step(detail::fnv1a_start, static_cast<std::uint64_t>(one.values.elements()));
        for (std::int64_t i = 0; i < one.values.elements(); ++i)
            hash = detail::fnv1a_step(hash, std::bit_cast<std::uint32_t>(one.values.data()[i]));
        for (std::int64_t i = 0; i < one.halves.elements(); ++i)
            hash = detail::fnv1a_step(hash, one.halves.data()[i].bits);
        own.push_back(std::bit_cast<std::int64_t>(hash));
    }
    auto const ranks = static_cast<std::size_t>(comm.size());
    List<std::int64_t> all(own.size() * ranks);
    List<std::int64_t> const counts(ranks, count);
    auto const gathered = all_gather(comm, TensorView<std::int64_t const, 1, Host>{own.data(), {count}},
                                     TensorView<std::int64_t, 1, Host>{all.data(), {count * comm.size()}},
                                     std::span<std::int64_t const>{counts.data(), counts.size()});
    if (!gathered) return gathered;
    for (std::size_t i = 0; i < own.size(); ++i) {
        auto const of = [&](std::size_t rank) { return all[rank * own.size() + i]; };
        // What most ranks have; of as many the lowest rank's.
        std::size_t best = 0;
        std::size_t most = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            std::size_t same = 0;
            for (std::size_t other = 0; other < ranks; ++other) same += of(other) == of(rank) ? 1U : 0U;
            if (same > most) {
                most = same;
                best = rank;
            }
        }
        if (most == ranks) continue;
        std::string differing;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            if (of(rank) != of(best)) differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
        }
        bool const is_clear = 2 * most > ranks;
        return Error{ErrorCode::collective_mismatch}
            .in((differing.find(',') == std::string::npos ? "rank " : "ranks ") + differing)
            .at(parameters[i].name)
            .because(is_clear ? "differs from what most ranks have"
                              : "differs from rank " + std::to_string(best) + ", and no side is the larger one")
            .fix("go on from the last checkpoint, without the machine if it is always this one");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
