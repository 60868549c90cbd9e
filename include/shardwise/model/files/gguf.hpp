// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/model/files/gguf_metadata.hpp>
#include <shardwise/model/name_arena.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor as a GGUF file lists it.
///
/// Shapes  outermost extent first, as torch prints them; the file has them reversed
struct GgufTensor {
    std::string_view name;
    GgmlType type{};
    Shape shape;
    Bytes bytes;
    std::int64_t offset = 0;  // from the start of the file
};

/// What a GGUF file says of itself: metadata and tensors, without their data.
struct GgufHeader {
    explicit GgufHeader(detail::GgufSource source) : metadata(std::move(source)) {}

    std::uint32_t version = 0;
    GgufMetadata metadata;
    std::vector<GgufTensor> tensors;
    std::int64_t file_size = 0;
    NameArena names;
};

namespace detail {

/// Reads the parts of a GGUF header in their order.
class GgufReader {
public:
    /// Beyond these, a header is no model's; they bound time and memory.
    static constexpr std::uint64_t max_header_size = std::uint64_t{1} << 28U;
    static constexpr std::uint64_t max_keys = std::uint64_t{1} << 20U;
    static constexpr std::uint64_t max_tensors = std::uint64_t{1} << 17U;  // GGUF stacks experts: none has 10,000
    static constexpr std::uint64_t max_key_length = 65535;                 // ggml docs/gguf.md
    static constexpr std::uint64_t max_name_length = 63;                   // GGML_MAX_NAME less the final zero
    static constexpr std::uint32_t max_dimensions = 4;                     // GGML_MAX_DIMS
    static constexpr std::size_t window_size = std::size_t{1} << 17U;
    static constexpr std::int64_t default_alignment = 32;  // ggml docs/gguf.md, general.alignment

    GgufReader(GgufSource source, std::string_view path)
        : path_(path), header_(std::move(source)), cursor_(header_.metadata.source(), 0, window_size) {
        header_.file_size = static_cast<std::int64_t>(header_.metadata.source().size());
    }

    Result<GgufHeader> read() {
        if (auto const done = read_counts(); !done) return done.error();
        if (auto const done = read_metadata(); !done) return done.error();
        if (auto const done = read_tensors(); !done) return done.error();
        if (auto const done = place_tensors(); !done) return done.error();
        return std::move(header_);
    }

private:
    [[nodiscard]] Error error(ErrorCode code, std::string_view place, std::string_view reason) const {
        return Error{code}.in(path_).at(place).because(reason);
    }
    [[nodiscard]] Error malformed(std::string_view place, std::string_view reason) const {
        return error(ErrorCode::malformed_file, place, reason);
    }
    [[nodiscard]] Error ended(std::string_view place) const {
        if (auto const whole = header_.metadata.source().check(path_); !whole) return whole.error();
        return malformed(place, "the file ends too early").fix("download the file again");
    }

    Result<> read_counts() {
        if constexpr (std::endian::native != std::endian::little) {
            return error(ErrorCode::unsupported, {}, "GGUF files are read on little-endian machines only");
        }
        std::string_view magic;
        if (!cursor_.text(4, magic)) return ended("magic");
        if (magic != "GGUF") return malformed("magic", "is not a GGUF file").fix("pass a .gguf file");
        if (!cursor_.read(header_.version)) return ended("version");
        auto const version = header_.version;
        if (version != 0 && (version & 0xFFFFU) == 0) {
            return error(ErrorCode::unsupported, "version", "the file has the other byte order (big-endian)")
                .fix("convert the file to little-endian");
        }
        if (version != 2 && version != 3) {
            return error(ErrorCode::unsupported, "version", "only GGUF versions 2 and 3 are read").got(version);
        }
        if (!cursor_.read(tensors_)) return ended("tensor_count");
        if (!cursor_.read(keys_)) return ended("metadata_kv_count");
        // The shortest entries: a key of one letter with a byte; a nameless scalar.
        if (keys_ > cursor_.remaining() / 14)
            return malformed("metadata_kv_count", "more key-values than the file can hold");
        if (tensors_ > cursor_.remaining() / 24)
            return malformed("tensor_count", "more tensors than the file can hold");
        if (keys_ > max_keys) return capacity("metadata_kv_count", keys_, max_keys);
        if (tensors_ > max_tensors) return capacity("tensor_count", tensors_, max_tensors);
        return {};
    }
    [[nodiscard]] Error capacity(std::string_view place, std::uint64_t got, std::uint64_t limit) const {
        return error(ErrorCode::capacity_exceeded, place, "more than any model has")
            .got(static_cast<std::int64_t>(got))
            .at_most(static_cast<std::int64_t>(limit));
    }

    Result<> read_metadata() {
        header_.metadata.reserve(static_cast<std::size_t>(keys_));
        for (std::uint64_t i = 0; i < keys_; ++i) {
            if (auto const done = read_key_value(); !done) return done;
        }
        if (auto const twice = header_.metadata.index()) return malformed(*twice, "the key occurs twice");
        auto const alignment = header_.metadata.find("general.alignment");
        if (!alignment) return {};
        if (alignment->type != GgufValueType::u32) return malformed("general.alignment", "is not a u32");
        alignment_ = *alignment->integer;
        is_alignment_given_ = true;
        if (!std::has_single_bit(static_cast<std::uint64_t>(alignment_))) {
            return malformed("general.alignment", "is not a power of two").got(alignment_);
        }
        return {};
    }
    Result<> read_key_value() {
        auto const start = cursor_.position();
        if (start > max_header_size) return capacity("metadata", start, max_header_size);
        std::uint64_t size = 0;
        std::string_view text;
        if (!cursor_.read(size)) return ended("metadata");
        if (size == 0) return malformed("metadata", "a key is empty");
        if (size > cursor_.remaining()) return malformed("metadata", "a key is longer than the file");
        if (size > max_key_length) return malformed("metadata", "a key is longer than 65535 bytes");
        if (!cursor_.text(size, text)) return ended("metadata");
        header_.metadata.add(text, start);
        key_.assign(text.substr(0, 128));
        std::uint32_t type = 0;
        if (!cursor_.read(type)) return ended(key_);
        if (type >= gguf_value_types) return malformed(key_, "has an unknown value type").got(type);
        auto const kind = static_cast<GgufValueType>(type);
        if (kind == GgufValueType::text) return skip_text();
        if (kind == GgufValueType::array) return skip_array();
        if (!cursor_.skip(width_of(kind))) return ended(key_);
        return {};
    }
    Result<> skip_text() {
        std::uint64_t size = 0;
        if (!cursor_.read(size)) return ended(key_);
        if (!cursor_.skip(size)) return malformed(key_, "a text is longer than the file");
        return {};
    }
    Result<> skip_array() {
        std::uint32_t type = 0;
        std::uint64_t count = 0;
        if (!cursor_.read(type)) return ended(key_);
        if (type >= gguf_value_types) return malformed(key_, "has an unknown element type").got(type);
        auto const element = static_cast<GgufValueType>(type);
        if (element == GgufValueType::array) return malformed(key_, "has arrays within an array");
        if (!cursor_.read(count)) return ended(key_);
        auto const width = element == GgufValueType::text ? 8 : width_of(element);
        if (count > cursor_.remaining() / width) return malformed(key_, "has more elements than the file can hold");
        if (element != GgufValueType::text) {
            if (!cursor_.skip(count * width)) return ended(key_);
            return {};
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            if (cursor_.position() > max_header_size) return capacity(key_, cursor_.position(), max_header_size);
            if (auto const done = skip_text(); !done) return done;
        }
        return {};
    }

    Result<> read_tensors() {
        header_.tensors.reserve(static_cast<std::size_t>(tensors_));
        for (std::uint64_t i = 0; i < tensors_; ++i) {
            if (auto const done = read_tensor(); !done) return done;
        }
        if (auto const* twice = find_duplicate()) return malformed(twice->name, "two tensors have this name");
        return {};
    }
    Result<> read_tensor() {
        std::uint64_t size = 0;
        std::string_view text;
        if (!cursor_.read(size)) return ended("tensors");
        if (size > max_name_length) {
            return malformed("tensors", "a tensor's name has 64 bytes or more").got(static_cast<std::int64_t>(size));
        }
        if (!cursor_.text(size, text)) return ended("tensors");
        GgufTensor tensor;
        tensor.name = header_.names.join(text);
        std::uint32_t dimensions = 0;
        if (!cursor_.read(dimensions)) return ended(tensor.name);
        if (dimensions > max_dimensions) return malformed(tensor.name, "has more than four dimensions").got(dimensions);
        std::int64_t extents[max_dimensions] = {};
        for (std::uint32_t d = 0; d < dimensions; ++d) {
            if (!cursor_.read(extents[d])) return ended(tensor.name);
            if (extents[d] < 0) return malformed(tensor.name, "has a negative dimension").got(extents[d]);
        }
        for (std::uint32_t d = dimensions; d-- > 0;) tensor.shape.push_back(extents[d]);
        std::uint32_t type = 0;
        if (!cursor_.read(type)) return ended(tensor.name);
        if (!cursor_.read(tensor.offset)) return ended(tensor.name);
        if (auto const done = size_tensor(tensor, type, dimensions == 0 ? 1 : extents[0]); !done) return done;
        header_.tensors.push_back(tensor);
        return {};
    }
    Result<> size_tensor(GgufTensor& tensor, std::uint32_t number, std::int64_t row) const {
        auto const type = ggml_type_of(number);
        if (!type) {
            auto const removed = removed_ggml_type(number);
            if (removed.empty()) return malformed(tensor.name, "has an unknown type").got(number);
            return error(ErrorCode::unsupported, tensor.name, "has a type that GGUF gave up: " + std::string(removed))
                .fix("convert the model again with a current llama.cpp");
        }
        tensor.type = *type;
        auto const& block = traits(*type);
        if (row % block.block_elements != 0) {
            return malformed(tensor.name, "a row is not a multiple of the type's block")
                .got(row)
                .multiple_of(block.block_elements);
        }
        auto const bytes = ggml_bytes(*type, tensor.shape);
        if (!bytes || !tensor.shape.checked_elements())
            return error(ErrorCode::size_overflow, tensor.name, "its size leaves 63 bits");
        tensor.bytes = Bytes{*bytes};
        return {};
    }
    [[nodiscard]] GgufTensor const* find_duplicate() const {
        std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
        order.reserve(header_.tensors.size());
        for (auto const& tensor : header_.tensors) {
            order.emplace_back(hash_name(tensor.name), static_cast<std::uint32_t>(order.size()));
        }
        std::sort(order.begin(), order.end());
        for (std::size_t i = 1; i < order.size(); ++i) {
            auto const& tensor = header_.tensors[order[i].second];
            for (std::size_t k = i; k-- > 0 && order[k].first == order[i].first;) {
                if (header_.tensors[order[k].second].name == tensor.name) return &tensor;
            }
        }
        return nullptr;
    }

    /// Checks that the data lies where ggml requires it: one tensor after the other, each aligned, all within the file.
    Result<> place_tensors() {
        if (tensors_ == 0 && !is_alignment_given_) return {};
        auto const data = round_up(static_cast<std::int64_t>(cursor_.position()), alignment_);
        if (data > header_.file_size)
            return malformed("general.alignment", "the padding reaches past the end of the file");
        std::int64_t next = 0;
        for (auto& tensor : header_.tensors) {
            if (tensor.offset != next) {
                return malformed(tensor.name, "its offset is misaligned or out of order")
                    .got(tensor.offset)
                    .expected(next);
            }
            auto const end = checked_add(next, tensor.bytes.count());
            auto const padded = end ? checked_add(*end, alignment_ - 1) : std::nullopt;
            if (!padded) return error(ErrorCode::size_overflow, tensor.name, "the file's size would leave 63 bits");
            next = *padded - *padded % alignment_;
            if (next > header_.file_size - data) {
                return malformed(tensor.name, "its data reaches past the end of the file")
                    .got(header_.file_size - data)
                    .at_least(next)
                    .fix("download the file again");
            }
            tensor.offset += data;
        }
        return {};
    }

    std::string_view path_;
    GgufHeader header_;
    GgufCursor cursor_;
    std::uint64_t tensors_ = 0;
    std::uint64_t keys_ = 0;
    std::int64_t alignment_ = default_alignment;
    bool is_alignment_given_ = false;
    std::string key_;
};

}  // namespace detail

/// Reads the header of a GGUF file, versions 2 and 3; the tensors' data are not touched.
///
/// Memory  16 bytes per key-value, 112 and the name per tensor, a window of 128 KiB
/// Errors  malformed_file, unsupported, size_overflow, capacity_exceeded with the key or tensor; file_unreadable
/// Source  ggml docs/gguf.md
[[nodiscard]] inline Result<GgufHeader> read_gguf(RegularFile file) {
    auto const path = file.path();
    return detail::GgufReader(detail::GgufSource(std::move(file)), path).read();
}

/// The same for a whole file in memory, which must outlive the header.
[[nodiscard]] inline Result<GgufHeader> parse_gguf(std::string_view bytes, std::string_view path) {
    return detail::GgufReader(detail::GgufSource(bytes), path).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
