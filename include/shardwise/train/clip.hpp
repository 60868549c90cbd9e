// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/train/gradient_norm.hpp>

#include <algorithm>
#include <cmath>

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

/// The norm of all gradients of all ranks. Each element of the model stands in one rank's list alone, once.
///
/// Order   waits for the stream; `after` is called in it after each gradient is read
/// Errors  as GradientNorm and a collective
template <Communicator C>
[[nodiscard]] Result<double> global_norm(C& comm, Span<TensorView<float const, 1, Host> const> gradients,
                                         HostStream& stream, Deadline deadline,
                                         std::function<void()> const& after = {}) {
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
