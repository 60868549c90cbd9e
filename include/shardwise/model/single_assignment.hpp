// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/block_program.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The same operations where each makes a value of its own: what one writes in place (rope, norms of heads, scale) becomes a value
/// beside its input, which those after it read. Values of the body keep their numbers, new ones follow them.
[[nodiscard]] constexpr BlockBody single_assignment(BlockBody const& body) {
    if (body.values().empty()) return body;
    BlockBody made(body.values()[0]);
    for (std::size_t i = 1; i < body.values().size(); ++i) (void)made.value(body.values()[i]);
    List<ValueId> now;
    List<std::int64_t> is_written;
    for (std::size_t i = 0; i < body.values().size(); ++i) {
        now.push_back(static_cast<ValueId>(i));
        is_written.push_back(i == 0 || body.values()[i].is_external ? 1 : 0);
    }
    for (auto op : body.operations()) {
        for (auto& id : op.inputs) {
            if (id != no_value) id = now[static_cast<std::size_t>(id)];
        }
        auto const out = static_cast<std::size_t>(op.output);
        if (is_written[out] != 0) now[out] = made.value(body.values()[out]);
        is_written[out] = 1;
        op.output = now[out];
        made.append(op);
    }
    return made;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
