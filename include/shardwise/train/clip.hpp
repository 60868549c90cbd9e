// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/train/gradient_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What gradients are multiplied with so that their norm is at most `most`: 1 where it is already, else most / (norm + 1e-6).
/// Computed once in double, of equal numbers on every rank. Scaled gradients (loss_scaler.hpp) have a scaled norm.
///
/// Source  torch.nn.utils.clip_grad_norm_
/// Errors  invalid_argument for a bound that is no positive number, or a norm that is no number: that step is to be skipped
[[nodiscard]] inline Result<double> clip_coefficient(double norm, double most) {
    if (!(most > 0.0 && most < 1e30)) {
        return Error{ErrorCode::invalid_argument}
            .in("clip")
            .because("the largest norm is no positive number")
            .fix("give a number above 0, or do not clip");
    }
    if (!(norm >= 0.0 && norm < HUGE_VAL)) {
        return Error{ErrorCode::invalid_argument}
            .in("clip")
            .because("the norm is no number: a gradient is infinite or undefined")
            .fix("skip the step");
    }
    return std::min(1.0, most / (norm + 1e-6));
}

/// The norm of all gradients of all ranks, summed in double in one pass: other ranks may give other last bits, all of one group have the same.
/// Each element of the model stands in one rank's list alone, once. Infinite where a gradient is no number.
///
/// Order   waits for the stream; `after` is called in it after each gradient is read
/// Errors  as a view without memory and a collective
template <Communicator C>
[[nodiscard]] Result<double> fast_norm(C& comm, Span<TensorView<float const, 1, Host> const> gradients,
                                       HostStream& stream, Deadline deadline, std::function<void()> const& after = {}) {
    // Of blocks of their own size, so that threads change no bit.
    constexpr std::int64_t block = 16'384;
    if (!stream.isa()) return end_group(comm, stream.isa().error());
    auto const kernel = detail::choose_kernel<double (*)(float const*, std::int64_t)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(square_sum<float>));
    std::int64_t blocks = 0;
    for (auto const& gradient : gradients) blocks += ceil_divide(gradient.elements(), block);
    List<double> sums(static_cast<std::size_t>(blocks));
    Result<> added;
    auto* to = sums.data();
    for (auto const& gradient : gradients) {
        if (added) added = check_views("gradient norm", gradient);
        if (!added) break;
        auto const sum = [=, values = gradient.data(), count = gradient.elements()](auto begin, auto end) {
            for (auto i = begin; i < end; ++i) to[i] = kernel(values + i * block, std::min(block, count - i * block));
        };
        auto const own = ceil_divide(gradient.elements(), block);
        Host::launch(own, sum, stream, 1);
        to += own;
        if (!after) continue;
        stream.submit([&after] {
            after();
            return Result<>{};
        });
    }
    // What is in the stream refers to this frame, also after an error.
    if (auto const done = stream.synchronize(deadline); added) added = done;
    if (!added) return end_group(comm, added.error());
    double own = 0.0;
    for (auto const sum : sums) own += sum;
    List<double> all(static_cast<std::size_t>(comm.size()));
    List<std::int64_t> const counts(all.size(), 1);
    if (auto const done = all_gather(comm, TensorView<double const, 1, Host>{&own, {1}},
                                     TensorView<double, 1, Host>{all.data(), {comm.size()}}, counts);
        !done)
        return done.error();
    double squares = 0.0;
    for (auto const sum : all) squares += sum;
    return squares < HUGE_VAL ? std::sqrt(squares) : HUGE_VAL;
}

/// The same norm by integers, in two passes: the same bits on any ranks. With `is_fast` it is fast_norm.
///
/// Order   waits for the stream; `after` is called in it after each gradient is read
/// Errors  as GradientNorm and a collective
template <Communicator C>
[[nodiscard]] Result<double> global_norm(C& comm, Span<TensorView<float const, 1, Host> const> gradients,
                                         HostStream& stream, Deadline deadline, std::function<void()> const& after = {},
                                         bool is_fast = false) {
    if (is_fast) return fast_norm(comm, gradients, stream, deadline, after);
    auto const done_with = [&] {
        if (!after) return;
        stream.submit([&after] {
            after();
            return Result<>{};
        });
    };
    GradientMax largest;
    Result<> added;
    for (auto const& gradient : gradients) {
        if (added) added = largest.add(gradient, stream);
        done_with();
    }
    // What is in the stream refers to this frame, also after an error.
    if (auto const done = stream.synchronize(deadline); added) added = done;
    if (!added) return end_group(comm, added.error());
    if (auto const done = largest.max_over_ranks(comm); !done) return done.error();
    GradientNorm norm(largest);
    for (auto const& gradient : gradients) {
        if (added) added = norm.add(gradient, stream);
        done_with();
    }
    if (auto const done = stream.synchronize(deadline); added) added = done;
    if (!added) return end_group(comm, added.error());
    if (auto const done = norm.sum_over_ranks(comm); !done) return done.error();
    return norm.norm();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
