// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_program.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a decoder's block makes of an encoder's states alone.
struct SourceOperations {
    /// The encoder's states; no_value where the block reads none.
    ValueId states = no_value;
    /// By operation: it is computed once for a sequence, when its source is encoded.
    std::vector<bool> is_of_source;
};

/// Finds them: what an attention to the encoder keeps is made of nothing else.
[[nodiscard]] inline SourceOperations source_operations(BlockBody const& body) {
    auto const& operations = body.operations();
    SourceOperations out;
    out.is_of_source.resize(operations.size(), false);
    bool const reads_source = std::any_of(operations.begin(), operations.end(), [](Operation const& op) {
        return op.kind == OpKind::attention && op.attention().is_cross;
    });
    if (!reads_source) return out;
    std::vector<bool> is_source_value(body.values().size(), false);
    for (std::size_t id = 0; id < body.values().size(); ++id) {
        if (!body.values()[id].is_external) continue;
        out.states = static_cast<ValueId>(id);
        is_source_value[id] = true;
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
        auto const& op = operations[i];
        bool const is_of_source = std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) {
            return in == no_value || is_source_value[static_cast<std::size_t>(in)];
        });
        out.is_of_source[i] = is_of_source;
        is_source_value[static_cast<std::size_t>(op.output)] = is_of_source;
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
