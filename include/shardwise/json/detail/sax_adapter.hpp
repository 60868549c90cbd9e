// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/detail/listener.hpp>
#include <shardwise/json/detail/sax_source.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What nlohmann_json finds wrong, without its prefix and without bytes of the text.
[[nodiscard]] inline std::string_view syntax_complaint(std::string_view what) {
    if (auto const reason = what.find(" - "); reason != what.npos) what.remove_prefix(reason + 3);
    return what.substr(0, what.find("; last read"));
}

/// Passes the events of nlohmann_json's SAX parser on to a handler of ours, and refuses what that parser lets through.
class JsonSaxAdapter {
public:
    JsonSaxAdapter(std::string_view text, JsonListener& handler, std::size_t max_depth)
        : text_(text), source_(text, handler), handler_(handler), max_depth_(max_depth) {}

    Result<> read() {
        // nlohmann_json skips a byte order mark and takes a NUL for the end.
        if (text_.starts_with("\xEF\xBB\xBF")) return fail("has a byte order mark", 0), error_;
        JsonSourceIterator const all{source_};
        if (!nlohmann::json::sax_parse(all, all, this)) return is_failed_ ? error_ : handler_.refusal();
        if (source_.is_cut()) return fail_as_cut(), error_;
        auto const last = source_.position() - 1;
        if (text_[last] == '\0') return fail("has a NUL", last), error_;
        return {};
    }

    bool null() { return handler_.null(); }
    bool boolean(bool value) { return handler_.boolean(value); }
    bool number_integer(std::int64_t value) { return proceed(), handler_.integer(value); }
    bool number_unsigned(std::uint64_t value) {
        proceed();
        bool const is_signed = value <= static_cast<std::uint64_t>(INT64_MAX);
        return is_signed ? handler_.integer(static_cast<std::int64_t>(value)) : handler_.unsigned_integer(value);
    }
    bool number_float(double value, std::string const& digits) { return proceed(), handler_.real(value, digits); }
    bool string(std::string const& text) { return proceed(), expect(handler_.string(text)); }
    bool binary(nlohmann::json::binary_t const&) { return false; }
    bool key(std::string const& text) { return proceed(), expect(handler_.key(text)); }
    bool start_object(std::size_t) { return deepen() && expect(handler_.begin_object()); }
    bool end_object() { return --depth_, expect(handler_.end_object()); }
    bool start_array(std::size_t) { return deepen() && handler_.begin_array(); }
    bool end_array() { return --depth_, handler_.end_array(); }

    /// `count` bytes were read, the one at fault included; the end of the text counts as a byte.
    bool parse_error(std::size_t count, std::string const&, nlohmann::json::exception const& exception) {
        constexpr int number_overflow = 406;
        auto const byte = count == 0 ? 0 : count - 1 + source_.skipped();
        if (source_.is_cut()) return fail_as_cut();
        if (exception.id == number_overflow) return fail("has a number too large for a double", byte);
        if (byte >= text_.size()) return fail("ends early", text_.size());
        if (text_[byte] == '\0') return fail("has a NUL", byte);
        if (text_[byte] == 'N' || text_[byte] == 'I') {
            return fail("has NaN or Infinity, which JSON does not have,", byte);
        }
        return fail("is not JSON (" + std::string(syntax_complaint(exception.what())) + ")", byte);
    }

private:
    /// Notes that a string or number has been read.
    void proceed() {
        source_.extend();
        handler_.consumed(source_.position());
    }
    /// Asks what the handler makes of the text to come.
    bool expect(bool goes_on) {
        source_.ignore_text(handler_.ignores_text());
        return goes_on;
    }
    bool fail(std::string_view reason, std::size_t byte) {
        is_failed_ = true;
        error_.because(std::string(reason) + " at byte " + std::to_string(byte));
        return false;
    }
    bool fail_as_cut() {
        error_ = Error{ErrorCode::capacity_exceeded}.at(key_before(text_, source_.begin()));
        return fail("has more than " + std::to_string(max_json_token) + " bytes without a further string or number",
                    source_.position());
    }
    bool deepen() {
        if (depth_ == max_depth_) return fail("is nested too deep", source_.position() - 1);
        ++depth_;
        return true;
    }

    std::string_view text_;
    JsonSource source_;
    JsonListener& handler_;
    std::size_t max_depth_;
    std::size_t depth_ = 0;
    bool is_failed_ = false;
    Error error_{ErrorCode::malformed_file};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
