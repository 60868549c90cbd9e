// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/check_xielu.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a layer's xIELU multiplies with.
struct XieluNumbers {
    float alpha_p = 0.0F;
    float alpha_n = 0.0F;
    float beta = 0.0F;
    float eps = 0.0F;

    /// Of what checkpoints store: both alphas are learned before a softplus, the second less beta.
    [[nodiscard]] static XieluNumbers of_stored(float alpha_p, float alpha_n, float beta, float eps) {
        auto const softplus = [](float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); };
        return {softplus(alpha_p), beta + softplus(alpha_n), beta, eps};
    }
};

SHARDWISE_UNFUSED_BEGIN

/// alpha_p x^2 + beta x above 0, alpha_n (exp(min(x, eps)) - 1 - x) + beta x else.
///
/// Source  Huang and Schlag, Deriving Activation Functions Using Integration, 2024; transformers 4.57 activations.py,
///         XIELUActivation
[[nodiscard]] inline float xielu(float x, XieluNumbers const& numbers) {
    if (x > 0.0F) return numbers.alpha_p * x * x + numbers.beta * x;
    // A NaN is kept: eps is not less.
    auto const bounded = numbers.eps < x ? numbers.eps : x;
    return (std::expm1(bounded) - x) * numbers.alpha_n + numbers.beta * x;
}

SHARDWISE_UNFUSED_END

namespace detail {

/// xielu for what is known to fit.
[[nodiscard]] inline Result<> xielu_bound(TensorView<float const, 2, Host> in, TensorView<float const, 1, Host> numbers,
                                          TensorView<float, 2, Host> out, HostStream& stream) {
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto const* const stored = numbers.data();
        XieluNumbers const own{stored[0], stored[1], stored[2], stored[3]};
        for (auto i = begin; i < end; ++i) out.row(row)[i] = xielu(in.row(row)[i], own);
    };
    launch_pieces({in.extent(0), in.extent(1)}, apply, stream);
    return {};
}

}  // namespace detail

/// out = xielu(in), element by element, by the four numbers of a layer (as XieluNumbers has them, in its order).
///
/// Shapes  numbers [4]; in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> xielu(TensorView<float const, 2, Host> in, TensorView<float const, 1, Host> numbers,
                                    TensorView<float, 2, Host> out, HostStream& stream) {
    if (auto const checked = detail::check_xielu(in, numbers, out); !checked) return checked;
    return detail::xielu_bound(in, numbers, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
