// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_program.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The module of one of a block's instances, of which a run of layers has `count`: "model.layers.3", "lm_head".
[[nodiscard]] inline std::string block_path(Block const& block, std::int64_t instance) {
    std::string path(block.module);
    if (block.is_numbered) path += "." + std::to_string(block.first + instance);
    return path;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
