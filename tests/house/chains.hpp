// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Finds chains of comparisons with enumerators that end in a fall-back, which would hide what a new enumerator lacks:
///
///     if (kind == Kind::a) return 1;            kind == Kind::a ? 1 : kind == Kind::b ? 2 : 3
///     if (kind == Kind::b) return 2;
///     return 3;
///
/// A fall-back that begins with static_assert or SHARDWISE_ASSERT says itself which enumerators it is for.
namespace house {

/// A word or sign of a source file.
struct SourceToken {
    std::string_view text;
    std::size_t line;
};

/// The words and signs of a file without its comments; a text in quotes is one.
inline std::vector<SourceToken> tokens_of(std::string_view text) {
    std::vector<SourceToken> out;
    std::size_t line = 1;
    auto const is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    for (std::size_t i = 0; i < text.size();) {
        auto const rest = text.substr(i);
        std::size_t size = 1;
        if (rest.starts_with("//")) {
            i += std::min(rest.find('\n'), rest.size());
            continue;
        }
        if (std::isspace(static_cast<unsigned char>(rest[0])) != 0) {
            line += rest[0] == '\n' ? 1U : 0U;
            ++i;
            continue;
        }
        if (is_word(rest[0])) {
            // 1'000 is a word.
            while (size < rest.size() && (is_word(rest[size]) || (rest[size] == '\'' && std::isdigit(rest[0]) != 0)))
                ++size;
        } else if (rest.starts_with("R\"(")) {
            size = std::min(rest.find(")\""), rest.size() - 2) + 2;
        } else if (rest[0] == '"' || rest[0] == '\'') {
            while (size < rest.size() && rest[size] != rest[0]) size += rest[size] == '\\' ? 2U : 1U;
            ++size;
        } else {
            for (std::string_view const two : {"::", "->", "==", "!=", "&&", "||", "<=", ">="})
                if (rest.starts_with(two)) size = 2;
        }
        out.push_back({rest.substr(0, size), line});
        i += size;
    }
    return out;
}

/// The enumerators of each enumeration that a file declares.
inline std::map<std::string, std::size_t> enumerations_of(std::vector<SourceToken> const& tokens) {
    std::map<std::string, std::size_t> out;
    for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
        if (tokens[i].text != "enum" || tokens[i + 1].text != "class") continue;
        auto const name = std::string(tokens[i + 2].text);
        while (i < tokens.size() && tokens[i].text != "{" && tokens[i].text != ";") ++i;
        if (i == tokens.size() || tokens[i].text == ";") continue;
        std::size_t count = 0;
        for (bool is_begin = true; ++i < tokens.size() && tokens[i].text != "}"; is_begin = tokens[i].text == ",")
            count += is_begin ? 1U : 0U;
        out[name] = count;
    }
    return out;
}

/// A chain: where it begins, over what, and the enumeration.
struct ComparisonChain {
    std::size_t line;
    std::string subject;
    std::string enumeration;
};

/// Walks the statements and conditional expressions of one file.
class ChainFinder {
public:
    /// What a condition compares, and the enumeration with an enumerator of which it does.
    using Comparisons = std::set<std::pair<std::string, std::string>>;

    ChainFinder(std::vector<SourceToken> const& tokens, std::set<std::string> const& enumerations)
        : tokens_(tokens), enumerations_(enumerations) {}

    std::vector<ComparisonChain> find() {
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            links_.clear();
            has_fall_back_ = false;
            if (is(i, "if") && (i == 0 || !is(i - 1, "else"))) {
                walk_ifs(i);
            } else if (is(i, "return") || is(i, "=") || is(i, "(") || is(i, ",") || is(i, "{")) {
                walk_conditional(i + 1);
            }
            keep();
        }
        return found_;
    }

private:
    struct Link {
        std::size_t at;
        Comparisons compared;
    };

    [[nodiscard]] std::string_view at(std::size_t i) const {
        return i < tokens_.size() ? tokens_[i].text : std::string_view{};
    }
    [[nodiscard]] bool is(std::size_t i, std::string_view text) const { return at(i) == text; }
    [[nodiscard]] static int depth_of(std::string_view text) {
        if (text == "(" || text == "[" || text == "{") return 1;
        return text == ")" || text == "]" || text == "}" ? -1 : 0;
    }

    /// The first of some signs outside of brackets from `i` on, or what closes the brackets around.
    [[nodiscard]] std::size_t find(std::size_t i, std::initializer_list<std::string_view> signs) const {
        for (int depth = 0; i < tokens_.size(); ++i) {
            if (depth == 0 && std::find(signs.begin(), signs.end(), at(i)) != signs.end()) return i;
            depth += depth_of(at(i));
            if (depth < 0) return i;
        }
        return i;
    }
    [[nodiscard]] std::size_t close(std::size_t open) const { return find(open + 1, {}); }

    /// Behind the statement that begins at `i`.
    [[nodiscard]] std::size_t end_of(std::size_t i) const {
        if (is(i, "{")) return close(i) + 1;
        if (is(i, "if") || is(i, "for") || is(i, "while") || is(i, "switch")) {
            auto const end = end_of(close(is(i + 1, "constexpr") ? i + 2 : i + 1) + 1);
            return is(i, "if") && is(end, "else") ? end_of(end + 1) : end;
        }
        return find(i, {";"}) + 1;
    }
    /// Whether what stands after the statement at `i` is not reached when it has run.
    [[nodiscard]] bool leaves(std::size_t i) const {
        if (is(i, "return") || is(i, "continue") || is(i, "break")) return true;
        if (!is(i, "{")) return false;
        auto const end = close(i);
        auto last = i + 1;
        for (auto next = last; next < end; next = end_of(next)) last = next;
        return last < end && leaves(last);
    }

    /// The comparisons with an enumerator among the operands of && and || between two places.
    [[nodiscard]] Comparisons compared(std::size_t begin, std::size_t end) const {
        Comparisons out;
        for (auto i = begin; i < end; ++i) {
            if (!is(i, "==")) continue;
            auto right = i + 1;
            while (is(right + 1, "::")) right += 2;
            if (right < i + 3 || !enumerations_.contains(std::string(at(right - 2)))) continue;
            std::string left;
            for (auto k = i; k > begin; --k) {
                auto const word = at(k - 1);
                if (word == "&&" || word == "||") break;
                left.insert(0, word);
            }
            out.emplace(left.substr(std::min(left.find_first_not_of('('), left.size())), at(right - 2));
        }
        return out;
    }

    void walk_ifs(std::size_t i) {
        while (is(i, "if")) {
            auto const open = is(i + 1, "constexpr") ? i + 2 : i + 1;
            auto const body = close(open) + 1;
            auto const end = end_of(body);
            links_.push_back({i, compared(open + 1, body - 1)});
            if (is(end, "else")) {
                i = end + 1;
            } else if (leaves(body)) {
                i = end;
            } else {
                has_fall_back_ = false;
                return;
            }
        }
        has_fall_back_ = !asserts(is(i, "{") ? i + 1 : i) && !is(i, "}");
        if (is(i, "return")) walk_conditional(i + 1);
    }
    [[nodiscard]] bool asserts(std::size_t i) const { return is(i, "static_assert") || is(i, "SHARDWISE_ASSERT"); }

    void walk_conditional(std::size_t i) {
        while (true) {
            auto const question = find(i, {"?", ";", ",", "=", ":"});
            if (!is(question, "?")) return;
            links_.push_back({i, compared(i, question)});
            has_fall_back_ = true;
            auto colon = question;
            for (int open = 1; open > 0;) {
                colon = find(colon + 1, {"?", ":", ";"});
                if (!is(colon, "?") && !is(colon, ":")) return;
                open += is(colon, "?") ? 1 : -1;
            }
            i = colon + 1;
        }
    }

    /// Keeps the chain that was walked where two links in a row compare the same, unless it is the end of one found before.
    void keep() {
        for (std::size_t i = 0; has_fall_back_ && i + 1 < links_.size(); ++i) {
            if (seen_.contains(links_[i + 1].at)) continue;
            for (auto const& each : links_[i].compared) {
                if (!links_[i + 1].compared.contains(each)) continue;
                found_.push_back({tokens_[links_[i].at].line, each.first, each.second});
                for (auto k = i + 1; k < links_.size(); ++k) seen_.insert(links_[k].at);
                break;
            }
        }
    }

    std::vector<SourceToken> const& tokens_;
    std::set<std::string> const& enumerations_;
    std::vector<Link> links_;
    bool has_fall_back_ = false;
    std::set<std::size_t> seen_;
    std::vector<ComparisonChain> found_;
};

}  // namespace house
