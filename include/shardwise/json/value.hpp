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
    /// Whether a key may stand twice in one object, of which Python reads the last: see JsonDocument::check_repeats.
    bool may_repeat_keys = false;
};

class JsonValue;

/// A JSON text as values, for small files: what is large is read by read_json. Owns all its text.
class JsonDocument {
public:
    [[nodiscard]] JsonValue root() const;

    /// Success unless something that was read so far depends on which of two members with one key counts: to be asked
    /// after the last look at a document whose keys may stand twice.
    ///
    /// Errors  malformed_file with the key
    [[nodiscard]] Result<> check_repeats() const {
        for (auto const& repeat : repeats_) {
            if (!repeat.counts) continue;
            return Error{ErrorCode::malformed_file}
                .at(text(nodes_[repeat.last].key_first, nodes_[repeat.last].key_size))
                .because("occurs twice in one object")
                .fix("keep one of the two");
        }
        return {};
    }
    /// A sentence on the keys that stand twice and change nothing; empty where there are none.
    [[nodiscard]] std::string repeats_note() const {
        if (repeats_.empty()) return {};
        auto const& last = nodes_[repeats_.front().last];
        auto note = "the key \"" + escaped(text(last.key_first, last.key_size)) + "\"";
        if (repeats_.size() > 1) note += " (and " + std::to_string(repeats_.size() - 1) + " more)";
        return note + " occurs twice in one object, which changes nothing that is read";
    }

private:
    friend class JsonValue;
    friend class JsonDocumentBuilder;

    /// A key that stands twice or more in one object.
    struct Repeat {
        std::uint32_t object;
        /// The member that counts.
        std::uint32_t last;
        bool is_same;
        /// True once something was read that depends on which of them counts; by whoever reads the document.
        mutable bool counts = false;
    };

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
    [[nodiscard]] std::string_view key_of(Node const& node) const { return text(node.key_first, node.key_size); }
    /// Whether two values are the same text for text, number for number.
    [[nodiscard]] bool is_equal(std::uint32_t a, std::uint32_t b) const {
        auto const size = nodes_[a].next - a;
        if (nodes_[b].next - b != size) return false;
        for (std::uint32_t i = 0; i < size; ++i) {
            auto const &one = nodes_[a + i], &other = nodes_[b + i];
            bool const is_alike = one.kind == other.kind && key_of(one) == key_of(other) && one.next - a == other.next - b;
            if (!is_alike || !is_same_content(one, other)) return false;
        }
        return true;
    }
    [[nodiscard]] bool is_same_content(Node const& one, Node const& other) const {
        switch (one.kind) {
            case JsonKind::null:
            case JsonKind::array:
            case JsonKind::object: return true;
            case JsonKind::boolean:
            case JsonKind::integer: return one.integer == other.integer;
            case JsonKind::unsigned_integer: return one.unsigned_integer == other.unsigned_integer;
            case JsonKind::real: return one.real == other.real;
            case JsonKind::string:
                return text(one.text.first, one.text.size) == text(other.text.first, other.text.size);
        }
        return false;
    }
    /// Notes that a member was asked for, or, with none, that all members of an object are walked.
    void note_read(std::uint32_t object, std::uint32_t member) const {
        for (auto const& repeat : repeats_) {
            if (repeat.object != object) continue;
            bool const depends = member == 0 || (member == repeat.last && !repeat.is_same);
            repeat.counts = repeat.counts || depends;
        }
    }

    std::vector<Node> nodes_;
    std::string text_;
    std::vector<Repeat> repeats_;
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
    [[nodiscard]] Iterator begin() const {
        if (!document_->repeats_.empty()) document_->note_read(index_, 0);
        return {document_, index_ + 1};
    }
    [[nodiscard]] Iterator end() const { return {document_, node().next}; }
    /// The number of members; counted, not stored.
    [[nodiscard]] std::size_t size() const {
        std::size_t count = 0;
        for (auto it = begin(); it != end(); ++it) ++count;
        return count;
    }
    [[nodiscard]] bool empty() const { return node().next == index_ + 1; }

    /// The member of an object with this key, nothing in other values; of several the last.
    [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const {
        if (!is_object()) return std::nullopt;
        bool const has_repeats = !document_->repeats_.empty();
        std::optional<JsonValue> found;
        for (Iterator it{document_, index_ + 1}; it != end() && (!found || has_repeats); ++it) {
            if ((*it).key() == key) found = *it;
        }
        if (found && has_repeats) document_->note_read(index_, found->index_);
        return found;
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

/// The handler that makes a document of any JSON text; refuses what exceeds its limits, and duplicate keys unless they allow
/// them.
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
        if (limits_.may_repeat_keys) return keep_repeats(first), true;
        return refuse(Error{ErrorCode::malformed_file}.at(*twice).because("occurs twice in one object"));
    }
    /// Writes down which keys of the object whose members begin at `first` stand twice.
    void keep_repeats(std::uint32_t first) {
        std::vector<std::pair<std::string_view, std::uint32_t>> members;
        auto const& nodes = document_.nodes_;
        for (auto at = first; at < nodes.size(); at = nodes[at].next) members.emplace_back(document_.key_of(nodes[at]), at);
        std::sort(members.begin(), members.end());
        for (std::size_t i = 0, end = 0; i < members.size(); i = end) {
            bool is_same = true;
            for (end = i + 1; end < members.size() && members[end].first == members[i].first; ++end)
                is_same = is_same && document_.is_equal(members[i].second, members[end].second);
            if (end > i + 1) document_.repeats_.push_back({first - 1, members[end - 1].second, is_same});
        }
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
/// Errors  malformed_file, duplicate keys included where the limits do not allow them; capacity_exceeded
[[nodiscard]] inline Result<JsonDocument> parse_json(std::string_view text, JsonLimits limits = {}) {
    JsonDocumentBuilder builder(limits);
    if (auto const read = read_json(text, builder, limits.depth); !read) return read.error();
    return std::move(builder).take();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
