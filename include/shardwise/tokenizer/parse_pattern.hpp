// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/pattern.hpp>
#include <shardwise/tokenizer/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Part of a program and the fewest code points that it takes.
struct PatternPart {
    std::vector<PatternInstruction> program;
    std::size_t least = 0;
};

/// Reads a regular expression by recursive descent.
class PatternParser {
public:
    explicit PatternParser(std::u32string text) : text_(std::move(text)) {}

    Result<Pattern> parse() {
        auto whole = alternation(0);
        if (!is_failed() && at_ < text_.size()) refuse("has a ) without its (");
        if (is_failed()) {
            return Error{ErrorCode::unsupported}
                .at(to_utf8(text_))
                .because("the pattern " + std::string(reason_))
                .got(static_cast<std::int64_t>(at_));
        }
        whole.program.push_back({});
        return Pattern::compiled(std::move(whole.program), std::move(sets_));
    }

private:
    static constexpr int max_depth = 32;
    static constexpr std::size_t max_program = 20'000;
    static constexpr std::uint32_t no_limit = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::uint32_t max_count = 1000;

    struct Quantifier {
        std::uint32_t least = 1;
        std::uint32_t most = 1;
        Greed greed = Greed::greedy;
    };

    [[nodiscard]] bool is_failed() const { return !reason_.empty(); }
    void refuse(std::string_view reason) {
        if (reason_.empty()) reason_ = reason;
    }
    [[nodiscard]] bool ends() const { return at_ >= text_.size(); }
    [[nodiscard]] bool sees(std::u32string_view next) const {
        return std::u32string_view(text_).substr(at_, next.size()) == next;
    }
    bool take(std::u32string_view next) {
        if (!sees(next)) return false;
        at_ += next.size();
        return true;
    }

    PatternPart alternation(int depth) {
        if (depth > max_depth) refuse("is nested too deep");
        if (is_failed()) return {};
        auto part = sequence(depth);
        while (!is_failed() && take(U"|")) part = either(std::move(part), sequence(depth));
        return part;
    }
    /// Alternatives are tried from the left: of `a|b|c`, what was read first stays first.
    static PatternPart either(PatternPart left, PatternPart right) {
        PatternPart out;
        out.least = std::min(left.least, right.least);
        auto const left_size = static_cast<std::int32_t>(left.program.size());
        out.program.push_back({.step = PatternStep::either, .first = 1, .second = left_size + 2});
        append(out.program, left.program);
        out.program.push_back(
            {.step = PatternStep::jump, .first = static_cast<std::int32_t>(right.program.size()) + 1});
        append(out.program, right.program);
        return out;
    }
    PatternPart sequence(int depth) {
        PatternPart out;
        while (!is_failed() && !ends() && !sees(U"|") && !sees(U")")) {
            auto part = atom(depth);
            if (is_failed()) break;
            if (auto const times = quantifier()) part = repeated(std::move(part), *times);
            if (quantifier()) refuse("repeats a repetition");
            out.least += part.least;
            append(out.program, part.program);
            if (out.program.size() > max_program) refuse("is too long");
        }
        return out;
    }
    PatternPart atom(int depth) {
        if (take(U"(")) return group(depth);
        if (take(U"[")) return one(character_class());
        if (take(U".")) {
            CharacterSet set;
            set.add_range('\n', '\n');
            set.finish(true);
            return one(std::move(set));
        }
        if (take(U"^")) return assertion(PatternStep::line_begin);
        if (take(U"$")) return assertion(PatternStep::line_end);
        if (take(U"\\A")) return assertion(PatternStep::text_begin);
        if (take(U"\\z")) return assertion(PatternStep::text_end);
        if (take(U"\\b")) return assertion(PatternStep::word_edge);
        if (take(U"\\B")) return assertion(PatternStep::word_edge, true);
        if (sees(U"*") || sees(U"+") || sees(U"?")) return refuse("repeats nothing"), PatternPart{};
        CharacterSet set;
        if (take(U"\\")) {
            escape(set);
        } else {
            set.add_range(text_[at_], text_[at_]);
            ++at_;
        }
        if (ignores_case_) set.ignore_case();
        set.finish(false);
        return one(std::move(set));
    }
    PatternPart group(int depth) {
        auto const before = ignores_case_;
        std::optional<PatternInstruction> wrapper;
        if (take(U"?:")) {
        } else if (take(U"?i:")) {
            ignores_case_ = true;
        } else if (take(U"?-i:")) {
            ignores_case_ = false;
        } else if (take(U"?=")) {
            wrapper = PatternInstruction{.step = PatternStep::look};
        } else if (take(U"?!")) {
            wrapper = PatternInstruction{.step = PatternStep::look, .is_negated = true};
        } else if (take(U"?>")) {
            wrapper = PatternInstruction{.step = PatternStep::atomic};
        } else if (sees(U"?")) {
            return refuse("has a group of a kind that is not supported"), PatternPart{};
        }
        auto part = alternation(depth + 1);
        ignores_case_ = before;
        if (!take(U")")) refuse("has a ( without its )");
        return wrapper ? wrapped(std::move(part), *wrapper) : part;
    }
    static PatternPart wrapped(PatternPart part, PatternInstruction wrapper) {
        PatternPart out;
        wrapper.first = static_cast<std::int32_t>(part.program.size()) + 2;
        out.least = wrapper.step == PatternStep::look ? 0 : part.least;
        out.program.push_back(wrapper);
        append(out.program, part.program);
        out.program.push_back({});
        return out;
    }
    static PatternPart assertion(PatternStep step, bool is_negated = false) {
        PatternPart out;
        out.program.push_back({.step = step, .is_negated = is_negated});
        return out;
    }
    PatternPart one(CharacterSet set) {
        PatternPart out;
        out.least = 1;
        out.program.push_back({.step = PatternStep::one, .set = static_cast<std::uint32_t>(sets_.size())});
        sets_.push_back(std::move(set));
        return out;
    }

    /// What follows a backslash: one code point or a class.
    void escape(CharacterSet& set) {
        if (ends()) return refuse("ends with \\");
        auto const code = text_[at_++];
        switch (code) {
            case 'p':
            case 'P':
                return property(set, code == 'P');
            case 's':
            case 'S':
                return set.add_white_space(code == 'S');
            case 'w':
            case 'W':
                return set.add_word(code == 'W');
            case 'd':
                return set.add(categories({UnicodeCategory::Nd}));
            case 'D':
                return set.add_all_but(categories({UnicodeCategory::Nd}));
            default: {
                --at_;
                auto const point = escaped_point();
                set.add_range(point, point);
            }
        }
    }
    char32_t escaped_point() {
        auto const code = text_[at_++];
        switch (code) {
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'f':
                return '\f';
            case 'v':
                return '\v';
            case 'a':
                return '\a';
            case 'e':
                return 0x1B;
            case 'x':
                return hexadecimal(2);
            case 'u':
                return hexadecimal(4);
            default:
                break;
        }
        bool const is_letter =
            (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9');
        if (is_letter) --at_, refuse("has an escape that is not supported");
        return code;
    }
    char32_t hexadecimal(std::size_t digits) {
        bool const is_braced = digits == 2 && take(U"{");
        char32_t value = 0;
        std::size_t count = 0;
        for (; !ends() && count < (is_braced ? 6 : digits); ++count) {
            auto const code = text_[at_];
            bool const is_digit = code >= '0' && code <= '9';
            bool const is_lower = code >= 'a' && code <= 'f';
            bool const is_upper = code >= 'A' && code <= 'F';
            if (!is_digit && !is_lower && !is_upper) break;
            value = value * 16 + (is_digit ? code - '0' : is_lower ? code - 'a' + 10 : code - 'A' + 10);
            ++at_;
        }
        if (count == 0 || (is_braced && !take(U"}"))) refuse("has an escape that is not supported");
        return value;
    }
    void property(CharacterSet& set, bool is_negated) {
        std::string name;
        if (take(U"{")) {
            if (take(U"^")) is_negated = !is_negated;
            while (!ends() && text_[at_] != '}') append_utf8(name, text_[at_++]);
            if (!take(U"}")) return refuse("has a \\p{ without its }");
        } else if (!ends()) {
            append_utf8(name, text_[at_++]);
        }
        auto const found = categories_of(name);
        if (found == 0) return refuse("names a property that is no general category");
        is_negated ? set.add_all_but(found) : set.add(found);
    }

    CharacterSet character_class() {
        CharacterSet set;
        bool const is_negated = take(U"^");
        bool is_first = true;
        while (!is_failed()) {
            if (ends()) {
                refuse("has a [ without its ]");
                break;
            }
            if (!is_first && take(U"]")) break;
            is_first = false;
            if (sees(U"[") || sees(U"&&")) {
                refuse("has a class within a class");
                break;
            }
            member(set);
        }
        if (ignores_case_) set.ignore_case();
        set.finish(is_negated);
        return set;
    }
    void member(CharacterSet& set) {
        char32_t first = 0;
        if (take(U"\\")) {
            if (ends()) return refuse("ends with \\");
            if (std::u32string_view(U"pPsSwWdD").find(text_[at_]) != std::u32string_view::npos) return escape(set);
            first = escaped_point();
        } else {
            first = text_[at_++];
        }
        auto last = first;
        if (sees(U"-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
            ++at_;
            if (take(U"\\")) {
                if (ends()) return refuse("ends with \\");
                last = escaped_point();
            } else {
                last = text_[at_++];
            }
            if (last < first) refuse("has a range that ends before it begins");
        }
        set.add_range(first, last);
    }

    std::optional<Quantifier> quantifier() {
        Quantifier times;
        if (take(U"*")) {
            times = {0, no_limit};
        } else if (take(U"+")) {
            times = {1, no_limit};
        } else if (take(U"?")) {
            times = {0, 1};
        } else if (sees(U"{")) {
            auto const begin = at_++;
            auto const least = number();
            bool const has_comma = take(U",");
            auto const most = has_comma ? number() : least;
            if (!take(U"}") || (!least && !most)) {
                at_ = begin;
                return refuse("has a { that counts nothing"), std::nullopt;
            }
            times = {least.value_or(0), most.value_or(no_limit)};
            if (times.most < times.least || times.least > max_count) refuse("has an impossible count");
            if (times.most > max_count && times.most != no_limit) refuse("has a count above 1000");
            if (take(U"?")) times.greed = Greed::lazy;
            return times;
        } else {
            return std::nullopt;
        }
        if (take(U"+")) {
            times.greed = Greed::possessive;
        } else if (take(U"?")) {
            times.greed = Greed::lazy;
        }
        return times;
    }
    std::optional<std::uint32_t> number() {
        std::optional<std::uint32_t> value;
        while (!ends() && text_[at_] >= '0' && text_[at_] <= '9' && value.value_or(0) <= max_count) {
            value = value.value_or(0) * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
        }
        return value;
    }

    PatternPart repeated(PatternPart part, Quantifier times) {
        PatternPart out;
        out.least = part.least * times.least;
        if (part.program.size() == 1 && part.program[0].step == PatternStep::one) {
            out.program.push_back({.step = PatternStep::repeat,
                                   .greed = times.greed,
                                   .set = part.program[0].set,
                                   .least = times.least,
                                   .most = times.most});
            return out;
        }
        if (part.least == 0 && times.most > 1) return refuse("repeats what may be empty"), out;
        auto const size = static_cast<std::int32_t>(part.program.size());
        auto const copies = times.most == no_limit ? times.least + 1 : times.most;
        if (part.program.size() * (copies + 1) > max_program) return refuse("is too long"), out;
        for (std::uint32_t i = 0; i < times.least; ++i) append(out.program, part.program);
        auto const option = [&](std::int32_t inside, std::int32_t after) {
            bool const is_lazy = times.greed == Greed::lazy;
            out.program.push_back(
                {.step = PatternStep::either, .first = is_lazy ? after : inside, .second = is_lazy ? inside : after});
        };
        if (times.most == no_limit) {
            option(1, size + 2);
            append(out.program, part.program);
            out.program.push_back({.step = PatternStep::jump, .first = -size - 1});
        } else {
            for (auto left = static_cast<std::int32_t>(times.most - times.least); left > 0; --left) {
                option(1, (size + 1) * left);
                append(out.program, part.program);
            }
        }
        if (times.greed == Greed::possessive) return wrapped(std::move(out), {.step = PatternStep::atomic});
        return out;
    }
    static void append(std::vector<PatternInstruction>& to, std::vector<PatternInstruction> const& from) {
        to.insert(to.end(), from.begin(), from.end());
    }

    std::u32string text_;
    std::size_t at_ = 0;
    bool ignores_case_ = false;
    std::string_view reason_;
    std::vector<CharacterSet> sets_;
};

}  // namespace detail

/// Compiles a regular expression.
///
/// Errors  unsupported, with the pattern, what it has, and at which code point
[[nodiscard]] inline Result<Pattern> parse_pattern(std::string_view text) {
    return detail::PatternParser(to_code_points(text)).parse();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
