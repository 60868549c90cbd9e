// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out [m, n] = op(a) [m, k] * op(b) [k, n].
struct GemmExtents {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
};

/// Elements from one row of a factor or result to the next as vendors' products take them, which is no less than a row. A view of
/// one row or none may say anything there: so do tensors that come by DLPack.
template <class View>
[[nodiscard]] constexpr std::int64_t row_distance(View const& view) {
    if (view.extent(0) > 1) return view.stride(0);
    return view.extent(1) > 1 ? view.extent(1) : 1;
}

/// The extents of a product of two matrices; `call` is named where they do not fit together.
///
/// Shapes  a [m, k], b [k, n], out [m, n]; a [k, m] or b [n, k] where transposed
/// Errors  shape_mismatch
template <class A, class B, class Out>
[[nodiscard]] Result<GemmExtents> gemm_extents(std::string_view call, A const& a, B const& b, Out const& out,
                                               GemmOptions const& options) {
    GemmExtents const extents{.m = a.extent(options.is_a_transposed ? 1 : 0),
                              .n = b.extent(options.is_b_transposed ? 0 : 1),
                              .k = a.extent(options.is_a_transposed ? 0 : 1)};
    auto const inner = b.extent(options.is_b_transposed ? 1 : 0);
    Error differs{ErrorCode::shape_mismatch};
    differs.in(call);
    if (inner != extents.k) return differs.because("the factors' inner extents differ").got(inner).expected(extents.k);
    if (out.extent(0) != extents.m) {
        return differs.because("the result has another number of rows than the first factor")
            .got(out.extent(0))
            .expected(extents.m);
    }
    if (out.extent(1) != extents.n) {
        return differs.because("the result has another number of columns than the second factor")
            .got(out.extent(1))
            .expected(extents.n);
    }
    return extents;
}

/// Products that cannot round their factors refuse to; `call` is named.
///
/// Errors  unsupported
[[nodiscard]] inline Result<> refuse_rounding(std::string_view call, GemmOptions const& options) {
    if (!options.rounds_to_bf16) return {};
    return Error{ErrorCode::unsupported}
        .in(call)
        .at("rounds_to_bf16")
        .because("is of Host::gemm alone")
        .fix("give it factors of bf16");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
