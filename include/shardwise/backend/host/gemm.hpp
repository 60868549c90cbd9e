// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/gemm_extents.hpp>
#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/product/cut.hpp>
#include <shardwise/backend/host/product/dense_gemm.hpp>
#include <shardwise/backend/host/product/dense_portable.hpp>
#include <shardwise/backend/host/product/product_kernel.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class T>
[[nodiscard]] GemmFactor gemm_factor(TensorView<T const, 2, Host> view, bool is_transposed, bool is_rounded,
                                     GemmKernels const& kernels) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>,
                  "host products take factors of float, Bfloat16 or Float16");
    auto const size = static_cast<std::int64_t>(sizeof(T));
    auto const widen = std::is_same_v<T, float>      ? &portable::widen_f32
                       : std::is_same_v<T, Bfloat16> ? kernels.widen_bf16
                                                     : kernels.widen_f16;
    return {
        reinterpret_cast<std::byte const*>(view.data()), view.stride(0) * size, size, is_transposed, widen, is_rounded};
}

/// How a product of two plain matrices is cut, whose parts each pack what they read of both: in few parts of many rows and panels, as
/// long as all threads have one.
[[nodiscard]] constexpr ProductCut cut_gemm(std::int64_t rows, std::int64_t panels, std::int64_t inputs,
                                            std::int64_t threads) {
    auto const fine = cut_product(rows, panels, inputs, threads);
    auto const parts = std::min(fine.panel_parts * fine.row_parts, 2 * threads);
    if (parts <= 1) return {};
    ProductCut out;
    out.panel_parts = std::clamp<std::int64_t>(ceil_divide(panels, gemm_panels), 1, parts);
    out.row_parts = std::clamp<std::int64_t>(ceil_divide(rows, 64), 1, ceil_divide(parts, out.panel_parts));
    return out.panel_parts * out.row_parts < threads ? fine : out;
}

}  // namespace detail

template <class T>
Result<> Host::gemm(TensorView<T const, 2, Host> a, TensorView<T const, 2, Host> b, TensorView<float, 2, Host> out,
                    GemmOptions options, Stream& stream) {
    if (auto const known = check_views("gemm", a, b, out); !known) return known;
    auto const extents = gemm_extents("gemm", a, b, out, options);
    if (!extents) return extents.error();
    auto const m = extents->m;
    auto const n = extents->n;
    auto const k = extents->k;
    if (!stream.isa()) return stream.isa().error();
    if (m == 0 || n == 0) return {};
    auto const kernels = detail::gemm_kernels(*stream.isa());
    bool const rounds = options.rounds_to_bf16;
    detail::GemmTask const task{.a = detail::gemm_factor(a, options.is_a_transposed, rounds, kernels),
                                .b = detail::gemm_factor(b, options.is_b_transposed, rounds, kernels),
                                .m = m,
                                .n = n,
                                .k = k,
                                .out = out.data(),
                                .out_stride = out.stride(0),
                                .accumulates = options.accumulates};
    auto const panels = ceil_divide(n, detail::panel_outputs);
    auto const pairs = ceil_divide(panels, detail::tile_panels);
    bool const has_unit = std::is_same_v<T, float> && rounds && kernels.multiply_rounded != nullptr;
    auto const cut = detail::cut_gemm(m, panels, k, stream.threads());
    stream.submit_ranges(cut.panel_parts * cut.row_parts, 1, [=](std::int64_t first, std::int64_t last) {
        for (auto index = first; index < last; ++index) {
            auto const panel_part = index / cut.row_parts;
            auto const row_part = index % cut.row_parts;
            auto const first_row = m * row_part / cut.row_parts;
            auto const last_row = m * (row_part + 1) / cut.row_parts;
            auto const first_panel = pairs * panel_part / cut.panel_parts * detail::tile_panels;
            auto const last_panel = std::min(pairs * (panel_part + 1) / cut.panel_parts * detail::tile_panels, panels);
            if (has_unit)
                kernels.multiply_rounded(task, first_row, last_row, first_panel, last_panel);
            else
                detail::run_gemm(task, *kernels.tiles, first_row, last_row, first_panel, last_panel);
        }
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
