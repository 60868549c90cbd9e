// SPDX-License-Identifier: Apache-2.0
#include "train_base.hpp"

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/train/checkpoint/tensor_sum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::cli {

namespace {

/// The checksum of a file's bytes and their number: a SHA-256 of weights would take minutes.
[[nodiscard]] Result<std::string> sum_of_file(ModelSource const& source, std::string const& name) {
    auto const file = source.open(name);
    if (!file) return file.error();
    std::vector<char> chunk(std::size_t{1} << 20U);
    std::uint64_t sum = 0;
    for (std::uint64_t done = 0; done < file->size();) {
        auto const some = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), file->size() - done));
        if (auto const read = file->read_all(done, chunk.data(), some); !read) return read.error();
        // Words, and what is left of the last one.
        auto const words = some / sizeof(std::uint64_t);
        auto const* const bytes = reinterpret_cast<std::byte const*>(chunk.data());
        auto const rest = words * sizeof(std::uint64_t);
        auto const first = static_cast<std::int64_t>(done / sizeof(std::uint64_t));
        sum += tensor_sum(first, sizeof(std::uint64_t), {bytes, rest});
        sum += tensor_sum(static_cast<std::int64_t>(done + rest), 1, {bytes + rest, some - rest});
        done += some;
    }
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

}  // namespace shardwise::cli
