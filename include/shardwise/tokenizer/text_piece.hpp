// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Part of a text on its way to the model.
struct TextPiece {
    std::u32string text;
    /// How many code points at its front come from the first one of the whole text: 0 for pieces further on, more than 1
    /// where a normalizer made several of one. Metaspace's `first` looks at this.
    std::size_t from_first = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
