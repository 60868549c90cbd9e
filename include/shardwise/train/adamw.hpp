// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/detail/optimizer_kernels.hpp>
#include <shardwise/train/optimizer.hpp>

#include <cmath>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adam with decoupled weight decay. An element's step, each operation rounded to float by itself:
///
///     g = g * gradient_factor
///     m = m + (1 - beta1) * (g - m)
///     v = beta2 * v + (1 - beta2) * (g * g)
///     w = w * (1 - lr * weight_decay) - lr / (1 - beta1^t) * (m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + epsilon))
///
/// What does not depend on the element is computed in double and rounded to float once.
///
/// Memory  8 bytes for each element
/// Source  Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019; epsilon is added outside of the root, as torch.optim.AdamW does
struct AdamW {
    static constexpr std::string_view name = "adamw";
    static constexpr std::int64_t share_multiple = 1;
    static constexpr bool needs_whole_matrix = false;

    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;

    /// Errors  invalid_argument
    [[nodiscard]] Result<> check() const {
        auto const bad = [](std::string_view field, std::string_view reason) {
            return Error{ErrorCode::invalid_argument}.in(name).at(field).because(reason);
        };
        if (!(beta1 >= 0.0 && beta1 < 1.0)) return bad("beta1", "is not from 0 to below 1");
        if (!(beta2 >= 0.0 && beta2 < 1.0)) return bad("beta2", "is not from 0 to below 1");
        // A float's smallest normal number: below it the quotient of a gradient that is zero could be 0 / 0.
        if (!(epsilon >= 1.1754943508222875e-38 && epsilon < 1e30)) return bad("epsilon", "is not a positive number");
        if (!(weight_decay >= 0.0 && weight_decay < 1e30)) return bad("weight_decay", "is no number from 0 on");
        return {};
    }

    [[nodiscard]] StateArrays state(std::int64_t, UnitRange range) const {
        StateArrays arrays;
        arrays.add({"exp_avg", Dtype::f32, range.size()});
        arrays.add({"exp_avg_sq", Dtype::f32, range.size()});
        return arrays;
    }

    /// Order   on `stream`, on the threads of its context
    /// Errors  shape_mismatch, invalid_argument; what the stream says of its instruction set
    [[nodiscard]] Result<> update(OptimizerStep const& step, ParameterRange const& range, HostStream& stream) const {
        if (auto const checked = check(); !checked) return checked;
        auto const known = detail::check_update(name, step, range, state(range.elements, range.range), share_multiple);
        if (!known) return known;
        if (!stream.isa()) return stream.isa().error();
        auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(optimizers::adamw));
        auto* const weights = range.weights.data();
        auto const* const gradients = range.gradients.data();
        auto* const first = reinterpret_cast<float*>(range.state[0]);
        auto* const second = reinterpret_cast<float*>(range.state[1]);
        auto const update = [=, task = task(step, range.decays)](std::int64_t begin, std::int64_t end) {
            kernel(weights + begin, gradients + begin, first + begin, second + begin, end - begin, task);
        };
        Host::launch(range.range.size(), update, stream, detail::optimizer_grain);
        return {};
    }

    /// What a step multiplies with.
    [[nodiscard]] detail::AdamwTask task(OptimizerStep const& step, bool decays) const {
        using detail::rounded;
        auto const decay = decays ? weight_decay : 0.0;
        return {
            .gradient_factor = static_cast<float>(step.gradient_factor),
            .kept = static_cast<float>(1.0 - rounded(step.learning_rate * decay)),
            .first_share = static_cast<float>(1.0 - beta1),
            .beta2 = static_cast<float>(beta2),
            .second_share = static_cast<float>(1.0 - beta2),
            .root_factor = static_cast<float>(1.0 / std::sqrt(1.0 - rounded(detail::whole_power(beta2, step.number)))),
            .epsilon = static_cast<float>(epsilon),
            .step_size =
                static_cast<float>(step.learning_rate / (1.0 - rounded(detail::whole_power(beta1, step.number))))};
    }

private:
    using Kernel = void (*)(float*, float const*, float*, float*, std::int64_t, detail::AdamwTask const&);
};
static_assert(OptimizerRule<AdamW>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
