// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// out = for each token the sum over its experts, in the order in which they were chosen, of weight * row. Rows of computed pairs
/// lie one after another at `rows`; `place(pair)` says which is that of a pair of a token and its expert. It is the only place
/// where experts are summed, so that bits do not depend on who computed them.
///
/// Shapes  weights [tokens, experts_per_token], out [tokens, width]
/// Order   on `stream`: `rows` and what `place` reads stay alive until it is done
template <ComputeBackend Backend, class Place>
void combine_rows(float const* rows, Place place, TensorView<float const, 2, Backend> weights,
                  TensorView<float, 2, Backend> out, typename Backend::Stream& stream) {
    auto const sum = [rows, place, weights, out](std::int64_t begin, std::int64_t end) {
        auto const width = out.extent(1);
        auto const chosen = weights.extent(1);
        for (auto token = begin; token < end; ++token) {
            auto* const to = out.row(token);
            std::fill_n(to, width, 0.0F);
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const weight = weights.row(token)[i];
                auto const* const row = rows + place(token * chosen + i) * width;
                for (std::int64_t c = 0; c < width; ++c) to[c] += weight * row[c];
            }
        }
    };
    Backend::launch(out.extent(0), sum, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
