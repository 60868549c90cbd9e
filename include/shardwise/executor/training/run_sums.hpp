// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/model/value_grains.hpp>
#include <shardwise/op/product_sums.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/policy.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How `run` under Deterministic sums the products whose inputs its ranks share, whose weights are in float: by operation of a body; without
/// steps where it takes all inputs at once. A validation pass sums as it does, so that both have the same bits.
///
/// Errors  unsupported for a body that cannot be executed
[[nodiscard]] inline Result<std::vector<ProductSums>> run_sums(BlockBody const& body) {
    TensorPlace const one{1, 0};
    auto const grain = [](Operation const&) -> Result<WeightGrain> { return weight_grain(WeightFormat::f32); };
    auto const cut = BlockCutter<Deterministic>(body, one, grain).cut();
    if (!cut) return cut.error();
    std::vector<ProductSums> out;
    for (auto const& op : body.operations()) {
        out.emplace_back();
        if (op.kind != OpKind::linear || !is_shared_sum(body, op)) continue;
        auto const& pieces = *cut->pieces[static_cast<std::size_t>(op.inputs[0])];
        out.back() = product_sums(TreePlan(pieces.count, one.ranks, one.rank), pieces, one, 0);
    }
    return out;
}

/// The most floats of a summand of multiply_by_pieces that has several rows.
inline constexpr std::int64_t max_summand = std::int64_t{1} << 18U;
/// Rows that multiply_by_pieces takes together.
[[nodiscard]] constexpr std::int64_t rows_by_pieces(std::int64_t outputs) {
    return outputs < max_summand ? max_summand / outputs : 1;
}
/// Floats that multiply_by_pieces needs for so many outputs, or for fewer.
[[nodiscard]] inline std::int64_t pieces_workspace(ProductSums const& sums, std::int64_t rows, std::int64_t outputs) {
    if (sums.steps.empty()) return 0;
    return sums.scratch * std::min(rows * outputs, std::max(outputs, max_summand));
}

/// out = in * op(weight) by the steps of `sums`, which has one result.
///
/// Shapes  in [rows, inputs], out [rows, outputs], weight [inputs, outputs] or, with options.is_b_transposed, [outputs, inputs];
///         scratch [pieces_workspace(sums, rows, outputs)] or more
/// Order   on `stream`
/// Errors  as Host::gemm
[[nodiscard]] inline Result<> multiply_by_pieces(TensorView<float const, 2, Host> in,
                                                 TensorView<float const, 2, Host> weight, GemmOptions options,
                                                 ProductSums const& sums, TensorView<float, 2, Host> out,
                                                 TensorView<float, 1, Host> scratch, HostStream& stream) {
    using Matrix = TensorView<float, 2, Host>;
    auto const outputs = out.extent(1);
    auto const at_once = rows_by_pieces(outputs);
    SHARDWISE_ASSERT(scratch.elements() >= sums.scratch * std::min(at_once, out.extent(0)) * outputs);
    for (std::int64_t first = 0; first < out.extent(0); first += at_once) {
        auto const rows = std::min(at_once, out.extent(0) - first);
        auto const slot = [&](std::int64_t number) {
            if (number == 0) return out.rows(first, rows);
            return Matrix(scratch.data() + (number - 1) * rows * outputs, {rows, outputs});
        };
        for (auto const& step : sums.steps) {
            auto const to = slot(step.to);
            if (step.is_product()) {
                auto const of = step.inputs;
                auto const part =
                    options.is_b_transposed ? weight.columns(of.begin, of.size()) : weight.rows(of.begin, of.size());
                auto const done =
                    Host::gemm<float>(in.rows(first, rows).columns(of.begin, of.size()), part, to, options, stream);
                if (!done) return done;
                continue;
            }
            TensorView<float const, 2, Host> const from = slot(step.from);
            if (auto const added = add_bound<float>(to, from, to, stream); !added) return added;
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
