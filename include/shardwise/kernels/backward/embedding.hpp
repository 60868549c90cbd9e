// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adds each token's row to the row of its id, in the order of the tokens. The table may be a shard of the vocabulary that begins at
/// `first_row`: ids outside of it add nothing, as they gave zeros.
///
/// Shapes  ids [tokens], out_gradient [tokens, width], table_gradient [rows, width], which holds zeros first unless `is_added`
/// Order   on `stream`; threads take columns: a row's sum has one order, whatever their number
/// Errors  shape_mismatch; what the stream says of its instruction set
[[nodiscard]] inline Result<> embedding_backward(TensorView<std::int32_t const, 1, Host> ids,
                                                 TensorView<float const, 2, Host> out_gradient,
                                                 TensorView<float, 2, Host> table_gradient, bool is_added,
                                                 HostStream& stream, std::int64_t first_row = 0) {
    constexpr std::string_view name = "embedding_backward";
    if (auto const known = check_views(name, ids, out_gradient, table_gradient); !known) return known;
    auto const width = table_gradient.extent(1);
    if (auto const checked = detail::check_shape(name, "out_gradient", out_gradient, ids.elements(), width); !checked)
        return checked;
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(float const*, float const*, float*, std::int64_t);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(add_rows));
    auto const add_up = [=](std::int64_t begin, std::int64_t end) {
        auto const rows = table_gradient.extent(0);
        for (std::int64_t row = 0; row < rows && !is_added; ++row)
            std::fill(table_gradient.row(row) + begin, table_gradient.row(row) + end, 0.0F);
        for (std::int64_t token = 0; token < ids.elements(); ++token) {
            auto const row = ids.data()[token] - first_row;
            if (row < 0 || row >= rows) continue;
            auto* const to = table_gradient.row(row) + begin;
            kernel(out_gradient.row(token) + begin, to, to, end - begin);
        }
    };
    Host::launch(width, add_up, stream, detail::row_grain(std::max(ids.elements(), table_gradient.extent(0))));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
