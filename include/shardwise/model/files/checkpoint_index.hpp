// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/json/reader.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/model_folder.hpp>
#include <shardwise/model/files/safetensors.hpp>
#include <shardwise/model/files/tensor_names.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest index that is read; DeepSeek-V3's takes 9 MB.
///
/// Units  bytes
inline constexpr std::size_t max_index_file = std::size_t{32} << 20U;

/// Which shard holds which tensor: a `model.safetensors.index.json`.
///
/// Order  tensors and shards as the file lists them
struct CheckpointIndex {
    TensorNames tensors;
    std::vector<std::uint32_t> shard_of;  // by tensor, a number into `shards`
    TensorNames shards;
    /// metadata.total_size as the file states it; not to be relied on.
    std::optional<std::int64_t> total_size;
    /// What may be a mistake and changes nothing that is read; empty: nothing is.
    std::string note;
};

namespace detail {

/// Receives an index's JSON.
class IndexReader : public JsonRefusals {
public:
    /// `mapped`: where the text lies, if it is mapped.
    explicit IndexReader(std::string_view path, MappedFile const* mapped = nullptr) : path_(path), pages_(mapped) {}

    bool begin_object() {
        ++depth_;
        if (depth_ == 1) return true;
        if (part_ == Part::map) return depth_ == 2 || fail("a tensor needs the name of its shard");
        return true;
    }
    bool end_object() {
        if (--depth_ == 1) part_ = Part::other;
        return true;
    }
    bool begin_array() {
        if (depth_ == 0) return fail("an index is a JSON object");
        if (part_ == Part::map)
            return fail(depth_ == 1 ? "weight_map is not an object" : "a tensor needs the name of its shard");
        ++depth_;
        return true;
    }
    bool end_array() {
        --depth_;
        return true;
    }
    bool key(std::string_view text) {
        if (depth_ == 1) return begin_part(text);
        if (depth_ == 2 && part_ == Part::metadata) is_total_ = text == "total_size";
        if (depth_ == 2 && part_ == Part::map) return add_tensor(text);
        return true;
    }
    bool string(std::string_view text) {
        if (depth_ == 2 && part_ == Part::map) return add_shard(text);
        return other_value();
    }
    bool integer(std::int64_t number) {
        if (depth_ == 2 && part_ == Part::metadata && is_total_) index_.total_size = number;
        return other_value();
    }
    bool unsigned_integer(std::uint64_t) { return other_value(); }
    bool real(double number) {
        // Some tools write a float here; below 2^53 it is exact.
        bool const is_exact = number >= 0.0 && number < 9007199254740992.0;
        if (depth_ == 2 && part_ == Part::metadata && is_total_ && is_exact) {
            index_.total_size = static_cast<std::int64_t>(number);
        }
        return other_value();
    }
    bool boolean(bool) { return other_value(); }
    bool null() { return other_value(); }

    /// Hands pages of a mapped index back while it is read.
    void consumed(std::size_t bytes) { pages_.release_before(bytes); }

    Result<CheckpointIndex> finish() {
        if (!has_map_) return Error{ErrorCode::missing_field}.in(path_).at("weight_map").because("an index needs it");
        return std::move(index_);
    }

private:
    enum class Part : std::uint8_t { other, metadata, map };
    bool fail(std::string_view reason, ErrorCode code = ErrorCode::malformed_file) {
        return refuse(Error{code}.in(path_).at(place()).because(reason));
    }
    [[nodiscard]] std::string_view place() const {
        switch (part_) {
            case Part::map:
                return tensor_;
            case Part::metadata:
                return "metadata";
            case Part::other:
                break;
        }
        return {};
    }
    bool other_value() {
        if (depth_ == 0) return fail("an index is a JSON object");
        if (part_ == Part::map)
            return fail(depth_ == 1 ? "weight_map is not an object" : "a tensor needs the name of its shard");
        if (depth_ == 1) part_ = Part::other;
        return true;
    }
    bool begin_part(std::string_view text) {
        part_ = Part::other;
        if (text == "metadata") part_ = Part::metadata;
        if (text != "weight_map") return true;
        part_ = Part::map;
        tensor_ = "weight_map";
        if (has_map_) return fail("occurs twice");
        return has_map_ = true;
    }
    bool add_tensor(std::string_view text) {
        auto const memory = index_.tensors.memory() + index_.shards.memory() + text.size();
        if (index_.tensors.size() == max_file_tensors || memory > max_tensor_list) {
            return fail("has more tensors or longer names than any model", ErrorCode::capacity_exceeded);
        }
        auto const added = index_.tensors.add(text);
        repeated_ = added ? std::nullopt : index_.tensors.find(text);
        tensor_ = index_.tensors[added ? *added : *repeated_];
        return true;
    }
    bool add_shard(std::string_view text) {
        auto shard = index_.shards.find(text);
        if (!shard) {
            if (auto const checked = ModelFolder::check_name(text); !checked) {
                auto error = checked.error();
                return refuse(error.in(path_));
            }
            shard = index_.shards.add(text);
        }
        if (!repeated_) return index_.shard_of.push_back(*shard), true;
        if (index_.shard_of[*repeated_] != *shard) return fail("the tensor is listed twice");
        if (index_.note.empty()) index_.note = escaped(tensor_) + " is listed twice";
        return true;
    }

    std::string_view path_;
    ReadPages pages_;
    CheckpointIndex index_;
    std::size_t depth_ = 0;
    Part part_ = Part::other;
    bool is_total_ = false;
    bool has_map_ = false;
    std::string_view tensor_;
    /// The tensor at hand where it was listed before.
    std::optional<std::uint32_t> repeated_;
};

}  // namespace detail

/// Reads the JSON of an index. Shards are checked to be names within a folder; whether they exist is not looked at.
/// `mapped`: where the text lies, if it is mapped: what has been read is then given back.
///
/// Memory  at most max_tensor_list: 24 bytes per tensor, its name's text and 4 to 8 bytes to find it
/// Errors  malformed_file, missing_field, capacity_exceeded; unsafe_path for a shard outside the folder
[[nodiscard]] inline Result<CheckpointIndex> parse_checkpoint_index(std::string_view json, std::string_view path,
                                                                    MappedFile const* mapped = nullptr) {
    detail::IndexReader reader(path, mapped);
    if (auto const done = read_json(json, reader, 16); !done) {
        auto error = done.error();
        return error.in(path);
    }
    return reader.finish();
}

/// Reads an index file: up to 8 MiB are copied, what is longer is mapped.
///
/// Memory  as parse_checkpoint_index, and 8 MiB of the file at a time
/// Errors  as parse_checkpoint_index; capacity_exceeded beyond max_index_file, file_unreadable
[[nodiscard]] inline Result<CheckpointIndex> read_checkpoint_index(RegularFile const& file) {
    constexpr std::uint64_t largest_copy = std::uint64_t{8} << 20U;
    if (file.size() > largest_copy && file.size() <= max_index_file) {
        auto const mapped = MappedFile::map(file, 0, file.size());
        if (!mapped) return mapped.error();
        auto index = parse_checkpoint_index(mapped->text(), file.path(), &*mapped);
        if (auto const checked = mapped->check(); !checked) return checked.error();
        return index;
    }
    auto const text = read_text_file(file, max_index_file);
    if (!text) return text.error();
    return parse_checkpoint_index(*text, file.path());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
