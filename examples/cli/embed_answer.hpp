// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/embed.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What `embed` has to say.
struct EmbedAnswer {
    std::string model;
    EmbedOptions options;
    /// By text.
    std::vector<std::vector<std::int32_t>> ids;
    std::vector<Embedding> embeddings;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string embed_json(EmbedAnswer const& answer);
/// A vector on a line, its numbers with spaces between.
[[nodiscard]] std::string embed_lines(EmbedAnswer const& answer);

}  // namespace shardwise::cli
