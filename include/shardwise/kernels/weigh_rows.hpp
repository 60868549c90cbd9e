// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_weighed.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// weigh_rows for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> weigh_rows_bound(TensorView<T const, 2, Host> in, TensorView<std::int32_t const, 1, Host> places,
                                        TensorView<float const, 2, Host> weights, TensorView<T, 2, Host> out,
                                        HostStream& stream) {
    auto const weigh = [=](std::int64_t begin, std::int64_t end) {
        auto const chosen = weights.extent(1);
        for (auto pair = begin; pair < end; ++pair) {
            auto const* const from = in.row(pair / chosen);
            auto* const to = out.row(places.data()[pair]);
            auto const weight = weights.row(pair / chosen)[pair % chosen];
            for (std::int64_t i = 0; i < in.extent(1); ++i) to[i] = T(static_cast<float>(from[i]) * weight);
        }
    };
    Host::launch(places.elements(), weigh, stream, row_grain(in.extent(1)));
    return {};
}

}  // namespace detail

/// out = for each of a token's experts its row times the expert's weight: what experts read whose inputs are weighed (llama4).
/// `places` says by pair of a token and its expert where its row is, as `order_experts` does.
///
/// Shapes  in [tokens, width]; weights [tokens, experts_per_token]; places [tokens * experts_per_token], each row's number once;
///         out [tokens * experts_per_token, width]; `in` and `out` do not overlap
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  transformers 4.57 models/llama4/modeling_llama4.py (Llama4TextMoe)
template <ActivationElement T>
[[nodiscard]] Result<> weigh_rows(TensorView<T const, 2, Host> in, TensorView<std::int32_t const, 1, Host> places,
                                  TensorView<float const, 2, Host> weights, TensorView<T, 2, Host> out,
                                  HostStream& stream) {
    if (auto const checked = detail::check_weighed(in, places, weights, out); !checked) return checked;
    return detail::weigh_rows_bound<T>(in, places, weights, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
