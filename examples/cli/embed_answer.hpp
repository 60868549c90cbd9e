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
    /// Or scores, where the options ask for them.
    std::vector<Embedding> embeddings;
    /// What scores are called.
    std::vector<std::string> labels;
    /// True for scores of each token.
    bool is_per_token = false;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string embed_json(EmbedAnswer const& answer);
/// A vector on a line, its numbers with spaces between; of scores each after its label.
[[nodiscard]] std::string embed_lines(EmbedAnswer const& answer);

}  // namespace shardwise::cli
