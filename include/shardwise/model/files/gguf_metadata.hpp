// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/gguf_cursor.hpp>
#include <shardwise/model/files/gguf_value.hpp>
#include <shardwise/model/files/tensor_names_hash.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The key-values of a GGUF file. Only where each key lies is kept; values are read when they are asked for, so that a
/// million of them, or a vocabulary, cost little.
///
/// Memory  16 bytes per key
class GgufMetadata {
public:
    explicit GgufMetadata(detail::GgufSource source) : source_(std::move(source)) {}

    [[nodiscard]] std::size_t size() const { return keys_.size(); }
    /// What the list of keys takes in memory.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const { return keys_.size() * sizeof(Key); }
    [[nodiscard]] detail::GgufSource const& source() const { return source_; }

    /// The value of a key; nothing where it is absent or the file cannot be read any more.
    [[nodiscard]] std::optional<GgufValue> find(std::string_view key) const {
        auto const hash = detail::hash_name(key);
        auto const before = [](Key const& a, std::uint64_t b) { return a.hash < b; };
        for (auto entry = std::lower_bound(keys_.begin(), keys_.end(), hash, before);
             entry != keys_.end() && entry->hash == hash; ++entry) {
            detail::GgufCursor cursor(source_, entry->offset, look_up_window);
            std::string_view found;
            if (read_key(cursor, found) && found == key) return read_value(cursor);
        }
        return std::nullopt;
    }
    /// The value of a key that holds an integer or a flag.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const {
        auto const value = find(key);
        return value ? value->integer : std::nullopt;
    }
    /// The value of a key that holds text; empty where there is none.
    [[nodiscard]] std::string text(std::string_view key) const {
        auto const value = find(key);
        return value ? value->text : std::string{};
    }
    /// The first `limit` elements of an array of integers or flags; empty for anything else.
    [[nodiscard]] std::vector<std::int64_t> integers(GgufValue const& array, std::size_t limit) const {
        std::vector<std::int64_t> numbers;
        if (array.type != GgufValueType::array || width_of(array.element) == 0) return numbers;
        detail::GgufCursor cursor(source_, array.offset, look_up_window);
        for (std::uint64_t i = 0; i < array.count && numbers.size() < limit; ++i) {
            GgufValue element;
            element.type = array.element;
            if (!read_scalar(cursor, element) || !element.integer) return {};
            numbers.push_back(*element.integer);
        }
        return numbers;
    }

    /// The same of any numbers.
    [[nodiscard]] std::vector<double> reals(GgufValue const& array, std::size_t limit) const {
        std::vector<double> numbers;
        if (array.type != GgufValueType::array || width_of(array.element) == 0) return numbers;
        detail::GgufCursor cursor(source_, array.offset, look_up_window);
        for (std::uint64_t i = 0; i < array.count && numbers.size() < limit; ++i) {
            GgufValue element;
            element.type = array.element;
            if (!read_scalar(cursor, element)) return {};
            numbers.push_back(element.real);
        }
        return numbers;
    }

    /// Used by the reader: notes a key that was read at `offset`.
    void add(std::string_view key, std::uint64_t offset) { keys_.push_back({detail::hash_name(key), offset}); }
    void reserve(std::size_t count) { keys_.reserve(count); }

    /// Used by the reader: sorts the keys for look-up; returns one that occurs twice, if any.
    [[nodiscard]] std::optional<std::string> index() {
        auto const order = [](Key const& a, Key const& b) {
            return a.hash != b.hash ? a.hash < b.hash : a.offset < b.offset;
        };
        std::sort(keys_.begin(), keys_.end(), order);
        for (std::size_t first = 0; first < keys_.size(); ++first) {
            for (std::size_t other = first + 1; other < keys_.size() && keys_[other].hash == keys_[first].hash;
                 ++other) {
                auto const name = key_at(keys_[first].offset);
                if (name == key_at(keys_[other].offset)) return name;
            }
        }
        return std::nullopt;
    }

private:
    static constexpr std::size_t look_up_window = 4096;
    static constexpr std::uint64_t max_text = std::uint64_t{1} << 17U;

    struct Key {
        std::uint64_t hash;
        std::uint64_t offset;
    };

    static bool read_key(detail::GgufCursor& cursor, std::string_view& key) {
        std::uint64_t size = 0;
        return cursor.read(size) && cursor.text(size, key);
    }
    [[nodiscard]] std::string key_at(std::uint64_t offset) const {
        detail::GgufCursor cursor(source_, offset, look_up_window);
        std::string_view key;
        return read_key(cursor, key) ? std::string(key) : std::string{};
    }

    template <class Number>
    static bool read_integer(detail::GgufCursor& cursor, GgufValue& value) {
        Number number{};
        if (!cursor.read(number)) return false;
        value.real = static_cast<double>(number);
        if (std::in_range<std::int64_t>(number)) value.integer = static_cast<std::int64_t>(number);
        return true;
    }
    template <class Number>
    static bool read_real(detail::GgufCursor& cursor, GgufValue& value) {
        Number number{};
        if (!cursor.read(number)) return false;
        value.real = static_cast<double>(number);
        return true;
    }
    static bool read_scalar(detail::GgufCursor& cursor, GgufValue& value) {
        switch (value.type) {
            case GgufValueType::u8:
            case GgufValueType::boolean:
                return read_integer<std::uint8_t>(cursor, value);
            case GgufValueType::i8:
                return read_integer<std::int8_t>(cursor, value);
            case GgufValueType::u16:
                return read_integer<std::uint16_t>(cursor, value);
            case GgufValueType::i16:
                return read_integer<std::int16_t>(cursor, value);
            case GgufValueType::u32:
                return read_integer<std::uint32_t>(cursor, value);
            case GgufValueType::i32:
                return read_integer<std::int32_t>(cursor, value);
            case GgufValueType::u64:
                return read_integer<std::uint64_t>(cursor, value);
            case GgufValueType::i64:
                return read_integer<std::int64_t>(cursor, value);
            case GgufValueType::f32:
                return read_real<float>(cursor, value);
            case GgufValueType::f64:
                return read_real<double>(cursor, value);
            case GgufValueType::text:
            case GgufValueType::array:
                break;
        }
        return false;
    }
    static std::optional<GgufValue> read_value(detail::GgufCursor& cursor) {
        GgufValue value;
        std::uint32_t type = 0;
        if (!cursor.read(type) || type >= gguf_value_types) return std::nullopt;
        value.type = static_cast<GgufValueType>(type);
        if (value.type == GgufValueType::text) {
            std::string_view text;
            if (!cursor.read(value.count)) return std::nullopt;
            value.offset = cursor.position();
            if (cursor.text(std::min<std::uint64_t>(value.count, max_text), text)) value.text = text;
            return value;
        }
        if (value.type != GgufValueType::array) {
            return read_scalar(cursor, value) ? std::optional{std::move(value)} : std::nullopt;
        }
        std::uint32_t element = 0;
        if (!cursor.read(element) || element >= gguf_value_types || !cursor.read(value.count)) return std::nullopt;
        value.element = static_cast<GgufValueType>(element);
        value.offset = cursor.position();
        return value;
    }

    detail::GgufSource source_;
    std::vector<Key> keys_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
