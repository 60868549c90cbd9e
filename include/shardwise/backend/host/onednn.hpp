// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/gemm_extents.hpp>
#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <oneapi/dnnl/dnnl.h>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = op(a) * op(b) as Host::gemm, by oneDNN on its own threads (OpenMP's). The order of its sums is its own and changes with
/// the extents: not for `Deterministic`. Link shardwise::onednn.
///
/// Shapes  a [m, k], b [k, n], out [m, n]; a [k, m] or b [n, k] where transposed
/// Memory  `out` overlaps neither factor; both stay alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; unsupported for factors that are to be rounded; through the stream, backend_failure with oneDNN's status
[[nodiscard]] inline Result<> onednn_gemm(TensorView<float const, 2, Host> a, TensorView<float const, 2, Host> b,
                                          TensorView<float, 2, Host> out, GemmOptions options, HostStream& stream) {
    if (auto const known = refuse_rounding("onednn_gemm", options); !known) return known;
    auto const extents = gemm_extents("onednn_gemm", a, b, out, options);
    if (!extents) return extents.error();
    stream.submit([=, product = *extents]() -> Result<> {
        auto const [m, n, k] = product;
        if (m == 0 || n == 0) return {};
        // It takes no product without an inner extent, and reads what it is to add to even then.
        for (std::int64_t row = 0; row < m && !options.accumulates; ++row) {
            for (std::int64_t column = 0; column < n; ++column) out.row(row)[column] = 0.0F;
        }
        if (k == 0) return {};
        auto const status =
            dnnl_sgemm(options.is_a_transposed ? 'T' : 'N', options.is_b_transposed ? 'T' : 'N', m, n, k, 1.0F,
                       a.data(), row_distance(a), b.data(), row_distance(b), 1.0F, out.data(), row_distance(out));
        if (status == dnnl_success) return {};
        return Error{ErrorCode::backend_failure}.in("dnnl_sgemm").because("failed").got(status);
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
