// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A kernel that maps rows to rows of the same width, with parameters of that width.
template <class T, class Backend>
[[nodiscard]] Result<> check_rows(std::string_view kernel, TensorView<T const, 2, Backend> const& in,
                                  std::int64_t parameters, TensorView<T, 2, Backend> const& out) {
    if (auto const known = check_views(kernel, in, out); !known) return known;
    Error error{ErrorCode::shape_mismatch};
    error.in(kernel);
    if (in.extent(0) != out.extent(0)) {
        return error.because("the output has another number of rows than the input")
            .got(out.extent(0))
            .expected(in.extent(0));
    }
    if (in.extent(1) != out.extent(1)) {
        return error.because("the output is not as wide as the input").got(out.extent(1)).expected(in.extent(1));
    }
    if (parameters != in.extent(1)) {
        return error.because("the parameters are not as wide as a row").got(parameters).expected(in.extent(1));
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
