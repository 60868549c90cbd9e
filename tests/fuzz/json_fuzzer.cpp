// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/reader.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

/// Writes events down so that two readings can be compared.
struct Record {
    std::string events;
    std::size_t depth = 0;
    std::size_t deepest = 0;

    bool note(char kind, std::string_view text = {}) {
        events += kind;
        events += text;
        events += '\x1f';
        return true;
    }
    bool open(char kind) {
        if (++depth > deepest) deepest = depth;
        return note(kind);
    }
    bool close(char kind) { return --depth, note(kind); }
    bool note_real(double value) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        return note('r', std::to_string(bits));
    }
};

struct Ours : Record {
    Error error{ErrorCode::malformed_file};
    bool begin_object() { return open('{'); }
    bool end_object() { return close('}'); }
    bool begin_array() { return open('['); }
    bool end_array() { return close(']'); }
    bool key(std::string_view text) { return note('k', text); }
    bool string(std::string_view text) { return note('s', text); }
    bool integer(std::int64_t value) { return note('i', std::to_string(value)); }
    bool unsigned_integer(std::uint64_t value) { return note('i', std::to_string(value)); }
    bool real(double value) { return note_real(value); }
    bool boolean(bool value) { return note(value ? 't' : 'f'); }
    bool null() { return note('n'); }
    [[nodiscard]] Error const& refusal() const { return error; }
};

/// What nlohmann_json reads where nothing of ours stands between.
struct Theirs : Record {
    using Json = nlohmann::json;
    bool null() { return note('n'); }
    bool boolean(bool value) { return note(value ? 't' : 'f'); }
    bool number_integer(Json::number_integer_t value) { return note('i', std::to_string(value)); }
    bool number_unsigned(Json::number_unsigned_t value) { return note('i', std::to_string(value)); }
    bool number_float(double value, std::string const&) { return note_real(value); }
    bool string(std::string& text) { return note('s', text); }
    bool binary(Json::binary_t&) { return false; }
    bool start_object(std::size_t) { return open('{'); }
    bool end_object() { return close('}'); }
    bool start_array(std::size_t) { return open('['); }
    bool end_array() { return close(']'); }
    bool key(std::string& text) { return note('k', text); }
    static bool parse_error(std::size_t, std::string const&, nlohmann::detail::exception const&) { return false; }
};

void require(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "json_fuzzer: %s\n", what);
    std::abort();
}

void write(JsonWriter& json, JsonValue value) {
    if (value.is_object()) {
        json.begin_object();
        for (auto const member : value) write(json.key(member.key()), member);
        json.end_object();
    } else if (value.is_array()) {
        json.begin_array();
        for (auto const member : value) write(json, member);
        json.end_array();
    } else if (auto const flag = value.boolean()) {
        json.value(*flag);
    } else if (auto const text = value.string()) {
        json.value(*text);
    } else if (auto const number = value.integer()) {
        json.value(*number);
    } else if (auto const real = value.real()) {
        json.value(*real);
    } else {
        json.value(nullptr);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string_view const text{reinterpret_cast<char const*>(data), size};
    Ours ours;
    bool const is_read = read_json(text, ours).has_value();

    // nlohmann_json skips a byte order mark, takes a NUL for the end, and nests without limit.
    if (!text.starts_with("\xEF\xBB\xBF") && text.find('\0') == std::string_view::npos) {
        Theirs theirs;
        bool const theirs_is_read = nlohmann::json::sax_parse(data, data + size, &theirs);
        if (theirs.deepest <= 64) {
            require(is_read == theirs_is_read, "we and nlohmann_json differ on what is JSON");
            require(!is_read || ours.events == theirs.events, "we and nlohmann_json read different values");
        }
    }

    auto const document = parse_json(text);
    require(is_read || !document, "a document came of no JSON");
    if (!document) return 0;
    JsonWriter first;
    write(first, document->root());
    auto const again = parse_json(first.text());
    require(again.has_value(), "what the writer wrote cannot be read");
    JsonWriter second;
    write(second, again->root());
    require(first.text() == second.text(), "writing and reading changes a document");
    return 0;
}
