// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of a table that is held as the file has it; of tokens' rows this rank's share, which ranks then add up.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<EmbeddingOp, Backend, Policy> {
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const& from,
                                                                     Operation const& op, BlockBody const&,
                                                                     BlockCut const&) {
        auto const stored = from.find(op.parameters[0]);
        if (!stored) return stored.error();
        HeldTable<Backend> table;
        auto const& place = from.place();
        bool const is_dealt = stored->tensor->shard.kind != ShardKind::replicated;
        table.rows = is_dealt ? split_units(op.in_features, place.ranks, place.rank) : UnitRange{0, op.in_features};
        UnitRange const rows[] = {table.rows};
        auto slice =
            from.parameters().matrix(*stored, {.outputs = op.in_features, .inputs = op.out_features, .rows = rows});
        if (!slice) return slice.error();
        slice->read_once();
        auto const& source = slice->source();
        auto const size = source.data.size();
        auto held = Buffer<std::byte, Backend>::allocate(from.context(),
                                                         static_cast<std::int64_t>(size + source.scales.size()));
        if (!held) return held.error();
        prefer_huge_pages(held->data(), held->size());
        read_in_order(from.context().pool(), source.data, source.is_mapped, static_cast<std::int64_t>(size), 1,
                              std::int64_t{4} << 20, [&](std::int64_t begin, std::int64_t end) {
                                  std::memcpy(held->data() + begin, source.data.data() + begin,
                                              static_cast<std::size_t>(end - begin));
                              });
        if (!source.scales.empty()) std::memcpy(held->data() + size, source.scales.data(), source.scales.size());
        table.data = std::move(*held);
        table.source = source;
        table.source.is_mapped = false;
        table.source.data = {table.data.data(), size};
        table.source.scales = {table.data.data() + size, source.scales.size()};
        return HeldOperation<Backend, Policy>{std::move(table)};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const& block, Operation const& op,
                                        ParameterFormat held) {
        auto const& place = block.place;
        auto const rows =
            held.is_replicated ? op.in_features : split_units(op.in_features, place.ranks, place.rank).size();
        auto const scales = scale_bytes(held.format, op.out_features, held.group);
        to.weights += rows * (data_bytes(held.format, op.out_features) + scales);
        return {};
    }

    [[nodiscard]] static std::int64_t scratch(CountedBlock const&, Operation const&, std::size_t) { return 0; }

    template <Communicator C>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C>& walk, Operation const& op, std::size_t number) {
        auto const& table = std::get<HeldTable<Backend>>(walk.held(number));
        auto const out = walk.view(op.output);
        auto const numbers = op.index == TableIndex::position ? walk.step.positions : walk.step.ids;
        bool const is_type = op.index == TableIndex::token_type;
        auto const look_up = [out, numbers, is_type, &table, first = op.first_row](std::int64_t begin,
                                                                                   std::int64_t end) {
            for (auto row = begin; row < end; ++row) {
                auto const id = (is_type ? 0 : numbers.data()[row]) + first;
                auto* const to = out.row(row);
                if (id < table.rows.begin || id >= table.rows.end) {
                    std::memset(to, 0, static_cast<std::size_t>(out.extent(1)) * sizeof(float));
                    continue;
                }
                decode_source(table.source, id - table.rows.begin, 0, out.extent(1), to);
                // Also makes +0 of -0, as the sum over ranks does.
                for (std::int64_t i = 0; i < out.extent(1); ++i) to[i] += 0.0F;
            }
        };
        Backend::launch(out.extent(0), look_up, walk.stream);
        bool const is_dealt = table.rows.size() != op.in_features;
        if (is_dealt) {
            submit_all_reduce(walk.comm, TensorView<float, 1, Backend>{out.data(), {out.elements()}}, ReduceOp::sum,
                              walk.stream);
        }
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
