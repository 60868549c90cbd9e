#pragma once

#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardwise::inline v0_2_0 {

template <class T>
Result<> Host::gemm(TensorView<T const, 2, Host> a, TensorView<T const, 2, Host> b, TensorView<float, 2, Host> out,
                    GemmOptions options, Stream& stream) {
    auto const m = a.extent(options.is_a_transposed ? 1 : 0);
    auto const k = a.extent(options.is_a_transposed ? 0 : 1);
    auto const inner = b.extent(options.is_b_transposed ? 1 : 0);
    auto const n = b.extent(options.is_b_transposed ? 0 : 1);
    auto const fail = [](std::string_view reason, std::int64_t got, std::int64_t expected) {
        return Error{ErrorCode::shape_mismatch}.in("gemm").because(reason).got(got).expected(expected);
    };
    if (inner != k) return fail("the factors' inner extents differ", inner, k);
    if (out.extent(0) != m)
        return fail("the result has another number of rows than the first factor", out.extent(0), m);
    if (out.extent(1) != n) {
        return fail("the result has another number of columns than the second factor", out.extent(1), n);
    }
    if (!stream.isa()) return stream.isa().error();
    auto const a_row = options.is_a_transposed ? 1 : a.stride(0);
    auto const a_column = options.is_a_transposed ? a.stride(0) : 1;
    auto const b_row = options.is_b_transposed ? 1 : b.stride(0);
    auto const b_column = options.is_b_transposed ? b.stride(0) : 1;
    stream.submit_ranges(m, 1, [=](std::int64_t first, std::int64_t last) {
        for (auto row = first; row < last; ++row) {
            auto* const to = out.row(row);
            if (!options.accumulates) std::fill_n(to, n, 0.0F);
            for (std::int64_t inner_index = 0; inner_index < k; ++inner_index) {
                auto const factor = static_cast<float>(a.data()[row * a_row + inner_index * a_column]);
                for (std::int64_t column = 0; column < n; ++column) {
                    to[column] += factor * static_cast<float>(b.data()[inner_index * b_row + column * b_column]);
                }
            }
        }
    });
    return {};
}

}  // namespace shardwise::inline v0_2_0
