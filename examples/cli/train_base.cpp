// SPDX-License-Identifier: Apache-2.0
#include "train_base.hpp"

#include <shardwise/core/files/file_chunks.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/train/checkpoint/tensor_sum.hpp>

#include "text.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

/// The checksum of a file's bytes and their number: a SHA-256 of weights would take minutes.
[[nodiscard]] Result<std::string> sum_of_file(ModelSource const& source, std::string const& name) {
    auto const file = source.open(name);
    if (!file) return file.error();
    constexpr std::size_t word = sizeof(std::uint64_t);
    std::uint64_t sum = 0;
    auto const read = for_each_chunk(*file, [&](std::uint64_t offset, std::string_view chunk) {
        auto const* const bytes = reinterpret_cast<std::byte const*>(chunk.data());
        // The last bytes of a file may be no word.
        auto const whole = chunk.size() / word * word;
        sum += tensor_sum(static_cast<std::int64_t>(offset / word), word, {bytes, whole});
        sum += tensor_sum(static_cast<std::int64_t>(offset + whole), 1, {bytes + whole, chunk.size() - whole});
    });
    if (!read) return read.error();
    return std::to_string(sum) + " " + std::to_string(file->size()) + "\n";
}

/// The files that hold a model's weights, in the order of its shards or parts.
[[nodiscard]] Result<std::vector<std::string>> weight_files(OpenCheckpoint& files) {
    std::vector<std::string> names;
    if (files.source().kind == SourceKind::gguf) {
        auto const named = files.named_gguf();
        return named ? detail::gguf_parts(files.source(), (*named)->header) : named.error();
    }
    auto const checkpoint = files.safetensors();
    if (!checkpoint) return checkpoint.error();
    for (auto const& file : (*checkpoint)->files) names.push_back(file.name);
    return names;
}

}  // namespace

Result<std::string> hash_of_model(OpenCheckpoint& files) {
    auto const& source = files.source();
    auto const names = weight_files(files);
    if (!names) return names.error();
    Sha256 hash;
    if (source.kind != SourceKind::gguf && !source.config.empty()) {
        auto const config = sum_of_file(source, source.config);
        if (!config) return config.error();
        hash.add(*config);
    }
    for (auto const& name : *names) {
        auto const sum = sum_of_file(source, name);
        if (!sum) return sum.error();
        hash.add(*sum);
    }
    return hash.hex();
}

std::optional<std::string> unused_dropout(OpenCheckpoint& files) {
    constexpr std::array<std::string_view, 11> keys{"dropout",
                                                    "dropout_rate",
                                                    "hidden_dropout",
                                                    "hidden_dropout_prob",
                                                    "embd_pdrop",
                                                    "resid_pdrop",
                                                    "attention_dropout",
                                                    "attn_pdrop",
                                                    "activation_dropout",
                                                    "layerdrop",
                                                    "attention_probs_dropout_prob"};
    auto const config = files.config();
    if (!config || *config == nullptr || !(*config)->document.root().is_object()) return std::nullopt;
    std::string found;
    for (auto const key : keys) {
        auto const value = (*config)->document.root().find(key);
        auto const part = value ? value->real() : std::nullopt;
        if (!part || !(*part > 0.0)) continue;
        found += (found.empty() ? "" : ", ") + std::string(key) + " " + decimals(*part, 2);
    }
    if (found.empty()) return std::nullopt;
    return "config.json has " + found +
           ", by which other trainers drop elements: here --dropout says how many of embedding and residual are "
           "dropped, and scores of attention never are";
}

}  // namespace shardwise::cli
