// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/backend/host/weight.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/rank_home.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// This rank's rows of a table, in the file's format; rows are decoded as they are looked up. A device holds them as a weight.
template <ComputeBackend Backend>
struct HeldTable {
    std::optional<typename Backend::Weight> weight;
    UnitRange rows;

    /// Errors  as hold_weight
    [[nodiscard]] static Result<HeldTable> hold(RankHome<Backend> const& rank, WeightSource const& source,
                                                UnitRange rows) {
        auto weight = Backend::hold_weight(rank.context, source);
        if (!weight) return weight.error();
        HeldTable table;
        table.weight.emplace(std::move(*weight));
        table.rows = rows;
        return Result<HeldTable>(std::move(table));
    }
};

/// The host's memory holds the file's bytes.
template <>
struct HeldTable<Host> {
    Buffer<std::byte, Host> data;
    WeightSource source;
    UnitRange rows;

    /// Errors  out_of_memory
    [[nodiscard]] static Result<HeldTable> hold(RankHome<Host> const& rank, WeightSource const& source,
                                                UnitRange rows) {
        auto const size = source.data.size();
        auto held =
            Buffer<std::byte, Host>::allocate(rank.context, static_cast<std::int64_t>(size + source.scales.size()));
        if (!held) return held.error();
        detail::prefer_huge_pages(held->data(), held->size());
        detail::read_in_order(rank.host.pool(), source.data, source.is_mapped, static_cast<std::int64_t>(size), 1,
                              std::int64_t{4} << 20, [&](std::int64_t begin, std::int64_t end) {
                                  std::memcpy(held->data() + begin, source.data.data() + begin,
                                              static_cast<std::size_t>(end - begin));
                              });
        if (!source.scales.empty()) std::memcpy(held->data() + size, source.scales.data(), source.scales.size());
        HeldTable table;
        table.data = std::move(*held);
        table.source = source;
        table.source.is_mapped = false;
        table.source.data = {table.data.data(), size};
        table.source.scales = {table.data.data() + size, source.scales.size()};
        table.rows = rows;
        return Result<HeldTable>(std::move(table));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
