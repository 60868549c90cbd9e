// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a JSON value is; integers keep their exact value.
enum class JsonKind : std::uint8_t { null, boolean, integer, unsigned_integer, real, string, array, object };

/// How large a document may grow. The defaults suit configuration files and stay below 64 MiB of memory.
struct JsonLimits {
    std::size_t depth = 64;
    std::size_t values = 500'000;
    /// Units  bytes
    std::size_t text = std::size_t{16} << 20U;
};

class JsonValue;

/// A JSON text as values, for small files: what is large is read by read_json. Owns all its text.
class JsonDocument {
public:
    [[nodiscard]] JsonValue root() const;

private:
    friend class JsonValue;
    friend class JsonDocumentBuilder;

    /// Values lie in the order of the text; `next` is the index after the last value within.
    struct Node {
        JsonKind kind = JsonKind::null;
        std::uint32_t key_first = 0;
        std::uint32_t key_size = 0;
        std::uint32_t next = 0;
        union {
            std::int64_t integer = 0;
            std::uint64_t unsigned_integer;
            double real;
            struct {
                std::uint32_t first;
                std::uint32_t size;
            } text;
        };
    };

    [[nodiscard]] std::string_view text(std::uint32_t first, std::uint32_t size) const {
        return std::string_view{text_}.substr(first, size);
    }

    std::vector<Node> nodes_;
    std::string text_;
};

/// One value of a document; a view that lives as long as the document stays where it is.
class JsonValue {
public:
    [[nodiscard]] JsonKind kind() const { return node().kind; }
    [[nodiscard]] bool is_null() const { return kind() == JsonKind::null; }
    [[nodiscard]] bool is_object() const { return kind() == JsonKind::object; }
    [[nodiscard]] bool is_array() const { return kind() == JsonKind::array; }
    [[nodiscard]] bool is_string() const { return kind() == JsonKind::string; }
    [[nodiscard]] bool is_number() const {
        return kind() == JsonKind::integer || kind() == JsonKind::unsigned_integer || kind() == JsonKind::real;
    }

    [[nodiscard]] std::optional<bool> boolean() const {
        return kind() == JsonKind::boolean ? std::optional{node().integer != 0} : std::nullopt;
    }
    /// A number written as an integer that fits 64 signed bits; 2.0 is none.
    [[nodiscard]] std::optional<std::int64_t> integer() const {
        return kind() == JsonKind::integer ? std::optional{node().integer} : std::nullopt;
    }
    /// Any number, rounded to a double.
    [[nodiscard]] std::optional<double> real() const {
        if (kind() == JsonKind::integer) return static_cast<double>(node().integer);
        if (kind() == JsonKind::unsigned_integer) return static_cast<double>(node().unsigned_integer);
        return kind() == JsonKind::real ? std::optional{node().real} : std::nullopt;
    }
    [[nodiscard]] std::optional<std::string_view> string() const {
        if (kind() != JsonKind::string) return std::nullopt;
        return document_->text(node().text.first, node().text.size);
    }

    /// The key under which it lies in its object; empty in arrays.
    [[nodiscard]] std::string_view key() const { return document_->text(node().key_first, node().key_size); }

    /// Walks the members of an object or array in the order of the text; other values have none.
    class Iterator {
    public:
        Iterator(JsonDocument const* document, std::uint32_t index) : document_(document), index_(index) {}
        [[nodiscard]] JsonValue operator*() const { return {document_, index_}; }
        Iterator& operator++() { return index_ = document_->nodes_[index_].next, *this; }
        friend bool operator==(Iterator const& a, Iterator const& b) { return a.index_ == b.index_; }

    private:
        JsonDocument const* document_;
        std::uint32_t index_;
    };
    [[nodiscard]] Iterator begin() const { return {document_, index_ + 1}; }
    [[nodiscard]] Iterator end() const { return {document_, node().next}; }
    /// The number of members; counted, not stored.
    [[nodiscard]] std::size_t size() const {
        std::size_t count = 0;
        for (auto it = begin(); it != end(); ++it) ++count;
        return count;
    }
    [[nodiscard]] bool empty() const { return begin() == end(); }

    /// The member of an object with this key, nothing in other values.
    [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const {
        if (!is_object()) return std::nullopt;
        for (auto const member : *this) {
            if (member.key() == key) return member;
        }
        return std::nullopt;
    }

private:
    friend class JsonDocument;
    JsonValue(JsonDocument const* document, std::uint32_t index) : document_(document), index_(index) {}
    [[nodiscard]] JsonDocument::Node const& node() const { return document_->nodes_[index_]; }

    JsonDocument const* document_;
    std::uint32_t index_;
};

inline JsonValue JsonDocument::root() const {
    return {this, 0};
}

/// The handler that makes a document of any JSON text; refuses duplicate keys and what exceeds its limits.
class JsonDocumentBuilder : public JsonRefusals {
public:
    explicit JsonDocumentBuilder(JsonLimits limits) : limits_(limits) {}

    bool begin_object() { return open(JsonKind::object); }
    bool begin_array() { return open(JsonKind::array); }
    bool end_object() {
        auto const first = open_.back() + 1;
        return close() && check_keys(first);
    }
    bool end_array() { return close(); }
    bool key(std::string_view text) { return keep(text, key_first_, key_size_); }
    bool string(std::string_view text) {
        JsonDocument::Node node{};
        node.kind = JsonKind::string;
        node.text = {0, 0};
        return keep(text, node.text.first, node.text.size) && append(node);
    }
    bool integer(std::int64_t value) {
        JsonDocument::Node node{};
        node.kind = JsonKind::integer;
        node.integer = value;
        return append(node);
    }
    bool unsigned_integer(std::uint64_t value) {
        JsonDocument::Node node{};
        node.kind = JsonKind::unsigned_integer;
        node.unsigned_integer = value;
        return append(node);
    }
    bool real(double value) {
        JsonDocument::Node node{};
        node.kind = JsonKind::real;
        node.real = value;
        return append(node);
    }
    bool boolean(bool value) {
        JsonDocument::Node node{};
        node.kind = JsonKind::boolean;
        node.integer = value ? 1 : 0;
        return append(node);
    }
    bool null() { return append({}); }

    [[nodiscard]] JsonDocument take() && { return std::move(document_); }

private:
    bool keep(std::string_view text, std::uint32_t& first, std::uint32_t& size) {
        auto& all = document_.text_;
        if (text.size() > limits_.text - all.size()) return refuse_size("has more text than a file of this kind may");
        first = static_cast<std::uint32_t>(all.size());
        size = static_cast<std::uint32_t>(text.size());
        all += text;
        return true;
    }
    bool append(JsonDocument::Node node) {
        auto& nodes = document_.nodes_;
        if (nodes.size() >= limits_.values) return refuse_size("has more values than a file of this kind may");
        node.key_first = std::exchange(key_first_, 0);
        node.key_size = std::exchange(key_size_, 0);
        node.next = static_cast<std::uint32_t>(nodes.size() + 1);
        nodes.push_back(node);
        return true;
    }
    bool open(JsonKind kind) {
        JsonDocument::Node node{};
        node.kind = kind;
        open_.push_back(static_cast<std::uint32_t>(document_.nodes_.size()));
        return append(node);
    }
    bool close() {
        document_.nodes_[open_.back()].next = static_cast<std::uint32_t>(document_.nodes_.size());
        open_.pop_back();
        return true;
    }
    bool check_keys(std::uint32_t first) {
        keys_.clear();
        auto const& nodes = document_.nodes_;
        for (auto at = first; at < nodes.size(); at = nodes[at].next) {
            keys_.push_back(document_.text(nodes[at].key_first, nodes[at].key_size));
        }
        std::sort(keys_.begin(), keys_.end());
        auto const twice = std::adjacent_find(keys_.begin(), keys_.end());
        if (twice == keys_.end()) return true;
        return refuse(Error{ErrorCode::malformed_file}.at(*twice).because("occurs twice in one object"));
    }
    bool refuse_size(std::string_view reason) { return refuse(Error{ErrorCode::capacity_exceeded}.because(reason)); }

    JsonLimits limits_;
    JsonDocument document_;
    std::vector<std::uint32_t> open_;
    std::vector<std::string_view> keys_;
    std::uint32_t key_first_ = 0;
    std::uint32_t key_size_ = 0;
};

static_assert(JsonHandler<JsonDocumentBuilder>);

/// The values of a JSON text.
///
/// Memory  24 bytes for each value and the text of keys and strings, within the limits
/// Errors  malformed_file, duplicate keys included; capacity_exceeded
[[nodiscard]] inline Result<JsonDocument> parse_json(std::string_view text, JsonLimits limits = {}) {
    JsonDocumentBuilder builder(limits);
    if (auto const read = read_json(text, builder, limits.depth); !read) return read.error();
    return std::move(builder).take();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
