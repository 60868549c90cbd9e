#pragma once

#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <oneapi/dnnl/dnnl.h>

namespace shardwise::inline v0_2_0 {

/// out = op(a) * op(b) as Host::gemm, by oneDNN on its own threads (OpenMP's). The order of its sums is its own and changes with
/// the extents: not for `Deterministic`. Link shardwise::onednn.
///
/// Shapes  a [m, k], b [k, n], out [m, n]; a [k, m] or b [n, k] where transposed
/// Memory  `out` overlaps neither factor; both stay alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; through the stream, backend_failure with oneDNN's status
[[nodiscard]] inline Result<> onednn_gemm(TensorView<float const, 2, Host> a, TensorView<float const, 2, Host> b,
                                          TensorView<float, 2, Host> out, GemmOptions options, HostStream& stream) {
    auto const m = a.extent(options.is_a_transposed ? 1 : 0);
    auto const k = a.extent(options.is_a_transposed ? 0 : 1);
    auto const b_k = b.extent(options.is_b_transposed ? 1 : 0);
    auto const n = b.extent(options.is_b_transposed ? 0 : 1);
    Error differs{ErrorCode::shape_mismatch};
    differs.in("onednn_gemm");
    if (b_k != k) return differs.because("the factors have different inner extents").got(b_k).expected(k);
    if (out.extent(0) != m)
        return differs.because("the output has another number of rows").got(out.extent(0)).expected(m);
    if (out.extent(1) != n)
        return differs.because("the output has another number of columns").got(out.extent(1)).expected(n);
    stream.submit([=]() -> Result<> {
        if (m == 0 || n == 0) return {};
        // It takes no product without an inner extent, and reads what it is to add to even then.
        for (std::int64_t row = 0; row < m && !options.accumulates; ++row) {
            for (std::int64_t column = 0; column < n; ++column) out.row(row)[column] = 0.0F;
        }
        if (k == 0) return {};
        auto const status =
            dnnl_sgemm(options.is_a_transposed ? 'T' : 'N', options.is_b_transposed ? 'T' : 'N', m, n, k, 1.0F,
                       a.data(), a.stride(0), b.data(), b.stride(0), 1.0F, out.data(), out.stride(0));
        if (status == dnnl_success) return {};
        return Error{ErrorCode::backend_failure}.in("dnnl_sgemm").because("failed").got(status);
    });
    return {};
}

}  // namespace shardwise::inline v0_2_0
