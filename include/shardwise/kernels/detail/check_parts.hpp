// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/residual_norm_call.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What ranks contribute to a sum of the shape of `rows`.
template <class T, class Backend>
[[nodiscard]] Result<> check_parts(std::string_view kernel, std::span<T const* const> parts,
                                   TensorView<T const, 2, Backend> const& rows) {
    if (parts.empty()) {
        return Error{ErrorCode::invalid_argument}.in(kernel).at("parts").because("there is nothing to add");
    }
    for (auto const* const part : parts) {
        TensorView<T const, 2, Backend> const view(part, rows.extents());
        if (auto const known = check_views(kernel, view); !known) return known;
    }
    auto const count = static_cast<std::int64_t>(parts.size());
    if (count <= max_residual_parts) return {};
    return Error{ErrorCode::capacity_exceeded}
        .in(kernel)
        .at("parts")
        .because("are of more ranks than one pass adds")
        .got(count)
        .at_most(max_residual_parts)
        .fix("reduce among fewer ranks first");
}

/// One addend of a residual.
template <class T, class Weight, class Backend>
[[nodiscard]] Result<> check_addend(std::string_view kernel, TensorView<T const, 2, Backend> const& in,
                                    TensorView<T, 2, Backend> const& residual,
                                    TensorView<Weight const, 1, Backend> const& weight,
                                    TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views(kernel, in, residual, weight, out); !known) return known;
    if (auto const checked = check_rows(kernel, in, weight.elements(), residual); !checked) return checked;
    if (in.is_dense()) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(kernel)
        .because("the rows of the addend lie apart")
        .got(in.stride(0))
        .expected(in.extent(1));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
