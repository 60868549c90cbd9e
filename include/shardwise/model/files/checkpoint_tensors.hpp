// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/files/checkpoint_index.hpp>
#include <shardwise/model/files/file_tensor.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/model/files/safetensors_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The tensors of a whole safetensors checkpoint: one file, several, or those that an index names.
struct SafetensorsCheckpoint {
    /// A file whose header was read.
    struct File {
        std::string name;
        FileStamp stamp;
    };

    std::vector<SafetensorsHeader> shards;
    std::vector<File> files;  // by shard
    /// Set where there is an index without its shards: its names are everything that is known.
    std::optional<CheckpointIndex> index;

    [[nodiscard]] std::size_t size() const {
        if (shards.empty()) return index ? index->tensors.size() : 0;
        return ends_.back();
    }
    /// The i-th tensor; its name lives as long as this.
    [[nodiscard]] FileTensor operator[](std::size_t i) const {
        if (shards.empty()) return {index->tensors[i], {}, 0, {}};
        auto const shard = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
        auto const tensor = shards[shard][i - (shard == 0 ? 0 : ends_[shard - 1])];
        return {tensor.name, tensor.shape, tensor.bytes.count(), tensor.dtype};
    }
    void add_shard(SafetensorsHeader shard, std::string_view name, FileStamp const& stamp) {
        files.push_back({std::string(name), stamp});
        ends_.push_back((ends_.empty() ? 0 : ends_.back()) + shard.size());
        shards.push_back(std::move(shard));
    }
    /// About what all of it takes in memory.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const {
        std::size_t sum = index ? index->tensors.memory() : 0;
        for (auto const& shard : shards) sum += shard.memory();
        return sum;
    }

private:
    std::vector<std::size_t> ends_;  // by shard: how many tensors it and those before it have
};

namespace detail {

[[nodiscard]] inline Error twice_in_shards(std::string_view path, std::string_view tensor) {
    return Error{ErrorCode::malformed_file}.in(path).at(tensor).because("the tensor is in two shards");
}

/// Refuses files that together hold more than a checkpoint may.
[[nodiscard]] inline Result<> check_tensor_list(std::string_view path, std::size_t tensors, std::size_t memory) {
    if (tensors <= max_file_tensors && memory <= max_tensor_list) return {};
    return Error{ErrorCode::capacity_exceeded}
        .in(path)
        .because("the files have more tensors or longer names than any model")
        .got(static_cast<std::int64_t>(tensors));
}

/// Opens and reads the shards of an index that are there: all or none.
[[nodiscard]] inline Result<> read_shards(ModelSource const& source, std::string_view path, SafetensorsCheckpoint& out,
                                          std::vector<std::string>& warnings, Observer const& observer) {
    auto const& index = *out.index;
    std::optional<Error> absent;
    std::vector<std::uint32_t> shard_numbers;
    for (std::uint32_t i = 0; i < index.shards.size(); ++i) {
        observer("reading shards", i, static_cast<std::int64_t>(index.shards.size()));
        auto const file = source.open_named(index.shards[i]);
        if (!file) {
            if (file.error().code() != ErrorCode::file_not_found) return file.error();
            if (!absent) absent = file.error();
            continue;
        }
        auto header = read_safetensors(*file);
        if (!header) return header.error();
        if (!header->note().empty()) warnings.push_back(escaped(file->path()) + ": " + header->note());
        out.add_shard(*std::move(header), index.shards[i], file->stamp());
        shard_numbers.push_back(i);
        auto const checked = check_tensor_list(path, out.size(), out.memory() - index.tensors.memory());
        if (!checked) return checked;
    }
    if (out.shards.empty()) return {};
    if (absent) return absent->fix("download the whole checkpoint, or leave all shards out");
    std::int64_t total = 0;
    std::vector<bool> is_seen(index.tensors.size());
    TensorNames unlisted;
    for (std::size_t s = 0; s < out.shards.size(); ++s) {
        auto const& shard = out.shards[s];
        total += shard.data_size().count();
        for (std::size_t i = 0; i < shard.size(); ++i) {
            auto const name = shard.names()[i];
            auto const listed = index.tensors.find(name);
            bool const is_elsewhere = listed && index.shard_of[*listed] != shard_numbers[s];
            bool const is_twice = listed ? is_seen[*listed] : !unlisted.add(name);
            if (is_twice || is_elsewhere) return twice_in_shards(path, name);
            if (listed) is_seen[*listed] = true;
        }
    }
    for (std::size_t i = 0; i < index.tensors.size(); ++i) {
        if (is_seen[i]) continue;
        return Error{ErrorCode::malformed_file}
            .in(path)
            .at(index.tensors[i])
            .because("its shard " + std::string(index.shards[index.shard_of[i]]) + " lacks the tensor")
            .fix("download the shard again");
    }
    if (index.total_size && *index.total_size != total) {
        warnings.push_back(escaped(path) + ": metadata.total_size says " + std::to_string(*index.total_size) +
                           " bytes, but the shards hold " + std::to_string(total) + "; the shards count");
    }
    return {};
}

}  // namespace detail

/// Reads all headers of a safetensors checkpoint. Shards that an index names may all be absent; then only names are
/// known.
///
/// Errors  as read_safetensors and parse_checkpoint_index; malformed_file for a tensor in two shards or in none of
///         them; file_not_found where only some shards are there
[[nodiscard]] inline Result<SafetensorsCheckpoint> read_safetensors_checkpoint(ModelSource const& source,
                                                                               std::vector<std::string>& warnings,
                                                                               Observer const& observer = {}) {
    SafetensorsCheckpoint out;
    if (!source.index.empty()) {
        auto const file = source.open(source.index);
        if (!file) return file.error();
        auto index = read_checkpoint_index(*file);
        if (!index) return index.error();
        if (!index->note.empty()) warnings.push_back(escaped(file->path()) + ": " + index->note);
        out.index = *std::move(index);
        if (auto const done = detail::read_shards(source, file->path(), out, warnings, observer); !done)
            return done.error();
        // The shards have the names themselves.
        if (!out.shards.empty()) out.index.reset();
        return Result<SafetensorsCheckpoint>(std::move(out));
    }
    TensorNames seen;
    for (auto const& weights : source.weights) {
        observer("reading files", static_cast<std::int64_t>(out.shards.size()),
                 static_cast<std::int64_t>(source.weights.size()));
        auto const file = source.open(weights);
        if (!file) return file.error();
        auto header = read_safetensors(*file);
        if (!header) return header.error();
        if (!header->note().empty()) warnings.push_back(escaped(file->path()) + ": " + header->note());
        for (std::size_t i = 0; i < header->size() && source.weights.size() > 1; ++i) {
            if (!seen.add(header->names()[i])) return detail::twice_in_shards(file->path(), header->names()[i]);
        }
        out.add_shard(*std::move(header), weights, file->stamp());
        if (auto const checked = detail::check_tensor_list(file->path(), out.size(), out.memory()); !checked)
            return checked.error();
    }
    return out;
}

/// The tensors of a whole GGUF checkpoint with the metadata of its first part.
struct GgufCheckpoint {
    explicit GgufCheckpoint(GgufHeader first) : header(std::move(first)), first_size(header.tensors.size()) {}

    /// The first part; its `tensors` are those of all parts.
    GgufHeader header;
    /// How many of them are its own: they come first.
    std::size_t first_size;
    /// The other parts, which hold the names of their tensors.
    std::vector<GgufHeader> others;

    [[nodiscard]] std::size_t size() const { return header.tensors.size(); }
    /// The tensors of the first part.
    [[nodiscard]] std::span<GgufTensor const> first_tensors() const { return {header.tensors.data(), first_size}; }
    /// About what all of it takes in memory.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const {
        constexpr std::size_t name_size = 32;
        std::size_t sum = header.metadata.memory();
        for (auto const& tensor : header.tensors) sum += sizeof(GgufTensor) + tensor.name.size();
        for (auto const& part : others) sum += part.metadata.memory() + part.tensors.size() * sizeof(GgufTensor);
        return sum + (others.empty() ? 0 : size() * name_size);
    }
    /// The i-th tensor; its name lives as long as this.
    [[nodiscard]] FileTensor operator[](std::size_t i) const {
        auto const& tensor = header.tensors[i];
        auto const block = traits(tensor.type).is_multiplied ? std::int32_t{traits(tensor.type).block_elements} : 1;
        return {tensor.name, tensor.shape, tensor.bytes.count(), dense_dtype(tensor.type), block};
    }
    /// The dtype of a GGUF type that is no block format: safetensors give it the same name.
    [[nodiscard]] static std::optional<Dtype> dense_dtype(GgmlType type) {
        if (traits(type).is_quantized) return std::nullopt;
        for (auto const& row : dtype_table) {
            if (row.is_in_safetensors && row.safetensors_name == name_of(type)) return row.dtype;
        }
        return std::nullopt;
    }
};

namespace detail {

/// The files of a split GGUF: "name-00001-of-00003.gguf" stands for all three.
[[nodiscard]] inline Result<std::vector<std::string>> gguf_parts(std::string const& file, std::int64_t count) {
    constexpr std::int64_t most = 9999;
    auto const refuse = [&file, count](std::string_view reason) {
        return Error{ErrorCode::malformed_file}.in(file).at("split.count").because(reason).got(count);
    };
    if (count > most) return refuse("more parts than any model has");
    std::string_view stem;
    if (!is_split_part(file, stem))
        return refuse("is one of several parts, but not named like one").fix("restore the name x-00001-of-0000N.gguf");
    auto const digits = [](std::int64_t number) {
        auto const text = std::to_string(number);
        return std::string(5 - text.size(), '0') + text;
    };
    std::vector<std::string> parts;
    for (std::int64_t i = 1; i <= count; ++i) {
        parts.push_back(std::string(stem) + "-" + digits(i) + "-of-" + digits(count) + ".gguf");
    }
    return parts;
}

/// Reads the header of one GGUF file of a source.
[[nodiscard]] inline Result<GgufHeader> read_gguf_part(ModelSource const& source, std::string const& name) {
    auto file = source.open(name);
    if (!file) return file.error();
    return read_gguf(*std::move(file));
}

/// The names of all parts by the header of the file that was named; that file alone, where it is whole.
[[nodiscard]] inline Result<std::vector<std::string>> gguf_parts(ModelSource const& source, GgufHeader const& named) {
    auto const& name = source.weights.front();
    auto const count = named.metadata.integer("split.count").value_or(1);
    if (auto const whole = named.metadata.source().check(name); !whole) return whole.error();
    return count <= 1 ? Result(std::vector{name}) : gguf_parts(name, count);
}

/// Adds the headers of the parts after the first.
[[nodiscard]] inline Result<> add_gguf_parts(ModelSource const& source, std::vector<std::string> const& parts,
                                             GgufCheckpoint& out, Observer const& observer) {
    if (parts.size() == 1) return {};
    TensorNames seen;
    for (auto const& tensor : out.header.tensors) (void)seen.add(tensor.name);
    for (std::size_t i = 1; i < parts.size(); ++i) {
        observer("reading parts", static_cast<std::int64_t>(i), static_cast<std::int64_t>(parts.size()));
        auto part = read_gguf_part(source, parts[i]);
        if (!part) return part.error();
        for (auto const& tensor : part->tensors) {
            if (!seen.add(tensor.name)) return twice_in_shards(parts[i], tensor.name);
            out.header.tensors.push_back(tensor);
        }
        out.others.push_back(*std::move(part));
        if (auto const checked = check_tensor_list(parts[i], out.size(), out.memory()); !checked) return checked;
    }
    return {};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
