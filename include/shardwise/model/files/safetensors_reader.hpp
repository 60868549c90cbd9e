// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/reader.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/safetensors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Receives a safetensors header's JSON and checks each tensor as it ends.
class SafetensorsReader : public JsonRefusals {
public:
    /// `data_size`: the bytes of the file after the header; `mapped`: where the header's text lies, if it is mapped.
    SafetensorsReader(std::string_view path, std::int64_t data_size, MappedFile const* mapped = nullptr)
        : path_(path), data_size_(data_size), pages_(mapped) {
        places_.fill(none);
    }

    bool begin_object() {
        if (state_ == State::skipped) return ++skipped_depth_, true;
        if (state_ == State::start) return state_ = State::tensors, true;
        if (state_ == State::name) return begin_tensor();
        if (state_ == State::metadata_value) return state_ = State::metadata, true;
        return misplaced("is an object");
    }
    bool end_object() {
        if (state_ == State::skipped) return end_skipped();
        if (state_ == State::field) return end_tensor();
        state_ = state_ == State::metadata ? State::tensors : State::done;
        return true;
    }
    bool begin_array() {
        if (state_ == State::skipped) return ++skipped_depth_, true;
        if (state_ == State::shape_value) return state_ = State::shape, true;
        if (state_ == State::offsets_value) return state_ = State::offsets, true;
        return misplaced("is a list");
    }
    bool end_array() {
        if (state_ == State::skipped) return end_skipped();
        if (state_ == State::offsets && offset_count_ != 2) return fail("data_offsets need a begin and an end");
        state_ = State::field;
        return true;
    }
    bool key(std::string_view text) {
        if (state_ == State::tensors) return begin_entry(text);
        if (state_ == State::field) return begin_field(text);
        return true;
    }
    bool string(std::string_view text) {
        if (state_ == State::metadata) return true;
        if (state_ == State::dtype_value) return read_dtype(text);
        return skip() || misplaced("is a string");
    }
    /// Metadata are for others: thumbnails and training logs of many MiB stand there.
    [[nodiscard]] bool ignores_text() const { return state_ == State::metadata || state_ == State::skipped; }
    bool integer(std::int64_t number) {
        if (state_ == State::shape) return read_extent(number);
        if (state_ == State::offsets) return read_offset(number);
        return skip() || misplaced("is a number");
    }
    bool unsigned_integer(std::uint64_t) { return skip() || misplaced("is a number beyond 63 bits"); }
    bool real(double) { return skip() || misplaced("is a number with a fraction"); }
    bool boolean(bool) { return skip() || misplaced("is true or false"); }
    bool null() {
        if (state_ == State::metadata_value) return state_ = State::tensors, true;
        return skip() || misplaced("is null");
    }

    /// Hands pages of a mapped header back while it is read.
    void consumed(std::size_t bytes) { pages_.release_before(bytes); }

    /// Checks that the tensors cover the data without holes, and hands the header over.
    Result<SafetensorsHeader> finish() {
        auto& entries = header_.entries_;
        auto const bytes = [this](Entry const& entry) { return header_.kinds_[entry.kind].bytes; };
        auto const order = [&bytes](Entry const& a, Entry const& b) {
            return a.offset != b.offset ? a.offset < b.offset : bytes(a) < bytes(b);
        };
        if (!std::is_sorted(entries.begin(), entries.end(), order)) std::sort(entries.begin(), entries.end(), order);
        std::int64_t end = 0;
        for (auto const& entry : entries) {
            if (entry.offset != end) {
                auto const reason = entry.offset < end ? "its data overlap another tensor's" : "its data leave a hole";
                return Error{ErrorCode::malformed_file}
                    .in(path_)
                    .at(header_.names_[entry.name])
                    .because(reason)
                    .got(entry.offset)
                    .expected(end);
            }
            end += bytes(entry);
        }
        if (end != data_size_) {
            auto const reason =
                end > data_size_ ? "the file is shorter than its tensors" : "bytes follow the last tensor";
            return Error{ErrorCode::malformed_file}
                .in(path_)
                .because(reason)
                .got(data_size_)
                .expected(end)
                .fix("download the file again");
        }
        header_.data_size_ = Bytes{end};
        return std::move(header_);
    }

private:
    using Entry = SafetensorsHeader::Entry;
    enum class State : std::uint8_t {
        start,
        tensors,
        name,
        metadata_value,
        metadata,
        field,
        dtype_value,
        shape_value,
        shape,
        offsets_value,
        offsets,
        skipped,
        done,
    };
    static constexpr std::uint32_t none = UINT32_MAX;
    bool fail(std::string_view reason, ErrorCode code = ErrorCode::malformed_file) {
        return refuse(Error{code}.in(path_).at(place()).because(reason));
    }
    [[nodiscard]] std::string_view place() const {
        if (is_in_metadata_) return "__metadata__";
        return name_ == none ? std::string_view{} : header_.names_[name_];
    }
    bool misplaced(std::string_view what) {
        constexpr std::array<std::string_view, 13> wanted{"an object of tensors is wanted",
                                                          "",
                                                          "an object with dtype, shape and data_offsets is wanted",
                                                          "an object of strings is wanted",
                                                          "a string is wanted",
                                                          "",
                                                          "a dtype's name is wanted",
                                                          "a list of extents is wanted",
                                                          "a whole number from 0 on is wanted",
                                                          "a list of two offsets is wanted",
                                                          "a whole number from 0 on is wanted",
                                                          "",
                                                          ""};
        return fail(std::string(what) + " where " + std::string(wanted[static_cast<std::size_t>(state_)]));
    }

    bool begin_entry(std::string_view text) {
        if (text == "__metadata__") {
            if (has_metadata_) return is_in_metadata_ = true, fail("occurs twice");
            has_metadata_ = is_in_metadata_ = true;
            state_ = State::metadata_value;
            return true;
        }
        is_in_metadata_ = false;
        if (header_.names_.size() == max_file_tensors || header_.memory() + text.size() > max_tensor_list) {
            return name_ = none, fail("has more tensors or longer names than any model", ErrorCode::capacity_exceeded);
        }
        auto const added = header_.names_.add(text);
        if (!added) return name_ = *header_.names_.find(text), fail("two tensors have this name");
        name_ = *added;
        state_ = State::name;
        return true;
    }
    bool begin_tensor() {
        has_dtype_ = has_shape_ = has_offsets_ = false;
        offset_count_ = 0;
        state_ = State::field;
        return true;
    }
    bool begin_field(std::string_view text) {
        auto const once = [&](bool& seen, State next) {
            if (seen) return fail("has a field twice");
            seen = true;
            state_ = next;
            return true;
        };
        if (text == "dtype") return once(has_dtype_, State::dtype_value);
        if (text == "shape") return shape_ = Shape{}, once(has_shape_, State::shape_value);
        if (text == "data_offsets") return once(has_offsets_, State::offsets_value);
        // As safetensors does: what it has no use for is passed over, whatever it is.
        note("has a member that safetensors does not know");
        state_ = State::skipped;
        return true;
    }
    /// Passes over a value within a member that means nothing here; false elsewhere.
    bool skip() {
        if (state_ != State::skipped) return false;
        if (skipped_depth_ == 0) state_ = State::field;
        return true;
    }
    bool end_skipped() { return --skipped_depth_, skip(); }
    /// Keeps the first thing that the user should know.
    void note(std::string_view what) {
        if (header_.note_.empty()) header_.note_ = escaped(place()) + " " + std::string(what);
    }
    bool read_dtype(std::string_view text) {
        state_ = State::field;
        if (text == traits(dtype_).safetensors_name) return true;
        for (auto const& row : dtype_table) {
            if (row.is_in_safetensors && text == row.safetensors_name) return dtype_ = row.dtype, true;
        }
        return fail("has an unknown dtype: " + std::string(text.substr(0, 40)));
    }
    bool read_extent(std::int64_t extent) {
        if (extent < 0) return fail("has a negative extent");
        if (shape_.rank() == Shape::max_rank) return fail("has more than 8 dimensions", ErrorCode::capacity_exceeded);
        shape_.push_back(extent);
        return true;
    }
    bool read_offset(std::int64_t offset) {
        if (offset < 0) return fail("has a negative offset");
        if (offset_count_ == 2) return fail("data_offsets need a begin and an end");
        offsets_[offset_count_++] = offset;
        return true;
    }
    bool end_tensor() {
        state_ = State::tensors;
        if (!has_dtype_) return fail("has no dtype");
        if (!has_shape_) return fail("has no shape");
        if (!has_offsets_) return fail("has no data_offsets");
        auto const elements = shape_.checked_elements();
        auto const total_bits = elements ? checked_multiply(*elements, bits(dtype_)) : std::nullopt;
        if (!total_bits) return fail("its size leaves 63 bits", ErrorCode::size_overflow);
        if (*total_bits % 8 != 0) return fail("its elements do not fill whole bytes");
        if (offsets_[0] > offsets_[1]) return fail("its data end before they begin");
        auto const bytes = *total_bits / 8;
        if (offsets_[1] - offsets_[0] != bytes) {
            return refuse(Error{ErrorCode::malformed_file}
                              .in(path_)
                              .at(place())
                              .because("its data_offsets do not agree with dtype and shape")
                              .got(offsets_[1] - offsets_[0])
                              .expected(bytes));
        }
        if (offsets_[1] > data_size_) {
            return refuse(Error{ErrorCode::malformed_file}
                              .in(path_)
                              .at(place())
                              .because("its data reach past the end of the file")
                              .got(data_size_)
                              .at_least(offsets_[1])
                              .fix("download the file again"));
        }
        header_.entries_.push_back({name_, kind_of(bytes), offsets_[0]});
        return true;
    }
    /// The shared description of the tensor at hand; recently used ones are found in a small table.
    std::uint32_t kind_of(std::int64_t bytes) {
        auto mix = static_cast<std::uint64_t>(dtype_) + 1;
        for (auto const extent : shape_) mix = (mix ^ static_cast<std::uint64_t>(extent)) * 0x9E3779B97F4A7C15ULL;
        auto& place = places_[static_cast<std::size_t>(mix >> 52U)];
        if (place != none) {
            auto const& known = header_.kinds_[place];
            auto const* const extents = header_.extents_.data() + known.first_extent;
            bool const is_equal =
                known.dtype == dtype_ && std::equal(shape_.begin(), shape_.end(), extents, extents + known.rank);
            if (is_equal) return place;
        }
        place = static_cast<std::uint32_t>(header_.kinds_.size());
        header_.kinds_.push_back({bytes, static_cast<std::uint32_t>(header_.extents_.size()),
                                  static_cast<std::uint8_t>(shape_.rank()), dtype_});
        for (auto const extent : shape_) header_.extents_.push_back(extent);
        return place;
    }

    std::string_view path_;
    std::int64_t data_size_;
    ReadPages pages_;
    SafetensorsHeader header_;
    State state_ = State::start;
    std::uint32_t name_ = none;
    std::size_t skipped_depth_ = 0;
    bool has_metadata_ = false;
    bool is_in_metadata_ = false;
    bool has_dtype_ = false;
    bool has_shape_ = false;
    bool has_offsets_ = false;
    Dtype dtype_ = Dtype::f32;
    Shape shape_;
    std::array<std::int64_t, 2> offsets_{};
    std::size_t offset_count_ = 0;
    std::array<std::uint32_t, 4096> places_;
};

/// Reads the JSON of a safetensors header. `data_size`: the bytes of the file after it; `mapped`: where the text lies,
/// if it is mapped: what has been read is then given back.
///
/// Memory  at most max_tensor_list: 32 bytes per tensor, its name's text, 4 to 8 bytes to find it, and 24 to 88 for each
///         different dtype and shape
/// Errors  malformed_file, size_overflow with the tensor; capacity_exceeded
[[nodiscard]] inline Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::int64_t data_size,
                                                                        std::string_view path,
                                                                        MappedFile const* mapped = nullptr) {
    SafetensorsReader reader(path, data_size, mapped);
    // A header's tensors lie at depth 2 and their lists at depth 3; what lies deeper means nothing. The limit is serde_json's.
    if (auto const done = read_json(json, reader, 127); !done) {
        auto error = done.error();
        return error.in(path);
    }
    return reader.finish();
}

/// Checks a safetensors file's first eight bytes and returns the length of the header that follows.
///
/// Errors  malformed_file
[[nodiscard]] inline Result<std::uint64_t> safetensors_header_length(std::string_view first_bytes,
                                                                     std::uint64_t file_size, std::string_view path) {
    auto const malformed = [path](std::string_view reason) {
        return Error{ErrorCode::malformed_file}.in(path).at("header length").because(reason);
    };
    if (file_size < 8 || first_bytes.size() < 8) return malformed("the file is shorter than 8 bytes");
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8U | static_cast<unsigned char>(first_bytes[i]);
    if (length == 0) return malformed("the header is empty");
    if (length > max_safetensors_header) return malformed("is more than 100000000");
    if (length > file_size - 8) return malformed("the header is longer than the file").fix("download the file again");
    return length;
}

/// Reads the header of a safetensors file; the tensors' data are not touched.
///
/// Memory  as parse_safetensors_header, and the header's text up to 8 MiB; longer ones are mapped
/// Errors  malformed_file, size_overflow, capacity_exceeded with the tensor; file_unreadable
[[nodiscard]] inline Result<SafetensorsHeader> read_safetensors(RegularFile const& file) {
    // A copy where it is small, pages that come and go where that matters.
    constexpr std::uint64_t largest_copy = std::uint64_t{8} << 20U;
    char first_bytes[8] = {};
    auto const first = file.read(0, first_bytes, sizeof first_bytes);
    if (!first) return first.error();
    if (*first < sizeof first_bytes && *first < file.size()) return RegularFile::cut(file.path());
    auto const length = safetensors_header_length({first_bytes, *first}, file.size(), file.path());
    if (!length) return length.error();
    auto const data_size = static_cast<std::int64_t>(file.size() - 8 - *length);
    if (*length > largest_copy) {
        auto const mapped = MappedFile::map(file, 8, *length);
        if (!mapped) return mapped.error();
        auto header = parse_safetensors_header(mapped->text(), data_size, file.path(), &*mapped);
        if (auto const checked = mapped->check(); !checked) return checked.error();
        return header;
    }
    std::string text(static_cast<std::size_t>(*length), '\0');
    if (auto const done = file.read_all(8, text.data(), text.size()); !done) return done.error();
    return parse_safetensors_header(text, data_size, file.path());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
