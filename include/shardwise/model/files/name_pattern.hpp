// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A regular expression over module names as quantisation configs write them: letters, dots, escapes (a backslash before a
/// sign, `d` or `w`), sets, a star, plus or question mark after one of these, both anchors, and groups of alternatives that
/// nothing repeats.
///
/// Order   O(length of the pattern * length of the name) for each alternative, whatever the pattern
/// Source  Python's re.match, which transformers 4.57 (mxfp4) and compressed-tensors call
class NamePattern {
public:
    /// The longest pattern that is read, and the most that its alternatives may be.
    static constexpr std::size_t max_length = 512;
    static constexpr std::size_t max_alternatives = 64;

    /// Errors  unsupported for other syntax, capacity_exceeded
    [[nodiscard]] static Result<NamePattern> parse(std::string_view text) {
        if (text.size() > max_length) return refuse(text, ErrorCode::capacity_exceeded, "is too long a pattern");
        auto const plain = expand(std::string(text));
        if (!plain) return plain.error();
        NamePattern pattern;
        for (auto const& alternative : *plain) {
            Atoms atoms;
            if (!read_atoms(alternative, atoms)) {
                return refuse(text, ErrorCode::unsupported, "uses regular expressions beyond those of module names");
            }
            pattern.alternatives_.push_back(std::move(atoms));
        }
        return pattern;
    }

    /// True where the name begins with something that the pattern describes. `work` grows by the letters looked at.
    [[nodiscard]] bool matches_beginning(std::string_view name, std::int64_t& work) const {
        for (auto const& atoms : alternatives_) {
            std::vector<bool> failed((atoms.size() + 1) * (name.size() + 1));
            if (matches(atoms, 0, name, 0, {failed, work})) return true;
        }
        return false;
    }
    [[nodiscard]] bool matches_beginning(std::string_view name) const {
        std::int64_t work = 0;
        return matches_beginning(name, work);
    }

private:
    struct Atom {
        std::bitset<256> letters;
        bool may_be_absent = false;
        bool may_repeat = false;
        bool is_end = false;
    };
    using Atoms = std::vector<Atom>;
    /// What a search has tried: places from which the rest does not match, and how much that took.
    struct Search {
        std::vector<bool>& failed;
        std::int64_t& work;
    };

    [[nodiscard]] static Error refuse(std::string_view text, ErrorCode code, std::string_view why) {
        return Error{code}.at(text).because(why).fix("write the modules' names out");
    }

    /// Takes groups and alternatives apart: "a(b|c)d" is "abd" and "acd".
    [[nodiscard]] static Result<std::vector<std::string>> expand(std::string const& text) {
        std::vector<std::string> pending{text};
        std::vector<std::string> plain;
        while (!pending.empty()) {
            auto const next = std::move(pending.back());
            pending.pop_back();
            if (pending.size() + plain.size() > max_alternatives)
                return refuse(text, ErrorCode::capacity_exceeded, "has too many alternatives");
            auto const open = find_group(next);
            if (open == std::string::npos) {
                auto const parts = split_alternatives(next);
                plain.insert(plain.end(), parts.begin(), parts.end());
                continue;
            }
            auto const close = find_close(next, open);
            bool const is_repeated = close != std::string::npos && close + 1 < next.size() &&
                                     std::string_view{"*+?{"}.find(next[close + 1]) != std::string_view::npos;
            if (close == std::string::npos || is_repeated)
                return refuse(text, ErrorCode::unsupported, "has a group that repeats or does not close");
            auto inner = next.substr(open + 1, close - open - 1);
            if (inner.rfind("?:", 0) == 0) inner.erase(0, 2);
            if (!inner.empty() && inner.front() == '?')
                return refuse(text, ErrorCode::unsupported, "has a group of a special kind");
            for (auto const& part : split_alternatives(inner))
                pending.push_back(next.substr(0, open) + part + next.substr(close + 1));
        }
        return plain;
    }
    /// Where the last group opens, which holds no other.
    [[nodiscard]] static std::size_t find_group(std::string const& text) {
        auto found = std::string::npos;
        for_each_plain(text, [&](std::size_t i) {
            if (text[i] == '(') found = i;
        });
        return found;
    }
    [[nodiscard]] static std::size_t find_close(std::string const& text, std::size_t open) {
        auto found = std::string::npos;
        for_each_plain(text, [&](std::size_t i) {
            if (i > open && text[i] == ')' && found == std::string::npos) found = i;
        });
        return found;
    }
    /// The parts between the bars that stand in no group.
    [[nodiscard]] static std::vector<std::string> split_alternatives(std::string const& text) {
        std::vector<std::string> parts{""};
        std::size_t begin = 0;
        int depth = 0;
        for_each_plain(text, [&](std::size_t i) {
            depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
            if (text[i] != '|' || depth != 0) return;
            parts.back() = text.substr(begin, i - begin);
            parts.emplace_back();
            begin = i + 1;
        });
        parts.back() = text.substr(begin);
        return parts;
    }
    /// Visits the letters that are neither escaped nor in a set.
    template <class Visit>
    static void for_each_plain(std::string const& text, Visit visit) {
        bool is_in_set = false;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '\\')
                ++i;
            else if (is_in_set)
                is_in_set = text[i] != ']';
            else if (text[i] == '[')
                is_in_set = true;
            else
                visit(i);
        }
    }

    [[nodiscard]] static bool read_atoms(std::string_view text, Atoms& atoms) {
        if (!text.empty() && text.front() == '^') text.remove_prefix(1);
        while (!text.empty()) {
            Atom atom;
            if (!read_letters(text, atom)) return false;
            if (!text.empty() && !atom.is_end) {
                auto const mark = text.front();
                atom.may_be_absent = mark == '*' || mark == '?';
                atom.may_repeat = mark == '*' || mark == '+';
                if (atom.may_be_absent || atom.may_repeat) text.remove_prefix(1);
                // "a*?" finds what "a*" finds.
                if ((atom.may_be_absent || atom.may_repeat) && !text.empty() && text.front() == '?')
                    text.remove_prefix(1);
            }
            atoms.push_back(atom);
        }
        return true;
    }
    /// Takes what stands for one letter off the text.
    [[nodiscard]] static bool read_letters(std::string_view& text, Atom& atom) {
        auto const letter = text.front();
        text.remove_prefix(1);
        switch (letter) {
            case '.':
                return atom.letters.set(), true;
            case '$':
                return atom.is_end = true, text.empty();
            case '\\':
                return read_escape(text, atom.letters);
            case '[':
                return read_set(text, atom.letters);
            case '*':
            case '+':
            case '?':
            case '{':
            case '}':
            case '(':
            case ')':
            case '|':
            case '^':
                return false;
            default:
                return atom.letters.set(static_cast<unsigned char>(letter)), true;
        }
    }
    [[nodiscard]] static bool read_escape(std::string_view& text, std::bitset<256>& letters) {
        if (text.empty()) return false;
        auto const letter = text.front();
        text.remove_prefix(1);
        bool const is_digit = letter == 'd';
        bool const is_word = letter == 'w';
        if (is_digit || is_word) {
            for (unsigned char c = '0'; c <= '9'; ++c) letters.set(c);
            for (unsigned char c = 'a'; is_word && c <= 'z'; ++c) letters.set(c), letters.set(c - 'a' + 'A');
            if (is_word) letters.set('_');
            return true;
        }
        bool const is_letter =
            (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
        letters.set(static_cast<unsigned char>(letter));
        return !is_letter;
    }
    [[nodiscard]] static bool read_set(std::string_view& text, std::bitset<256>& letters) {
        bool const is_negated = !text.empty() && text.front() == '^';
        if (is_negated) text.remove_prefix(1);
        while (!text.empty() && text.front() != ']') {
            if (text.front() == '\\') {
                text.remove_prefix(1);
                if (!read_escape(text, letters)) return false;
                continue;
            }
            auto const first = static_cast<unsigned char>(text.front());
            bool const is_range = text.size() > 2 && text[1] == '-' && text[2] != ']';
            auto const last = is_range ? static_cast<unsigned char>(text[2]) : first;
            for (unsigned c = first; c <= last; ++c) letters.set(c);
            text.remove_prefix(is_range ? 3 : 1);
        }
        if (text.empty()) return false;
        text.remove_prefix(1);
        if (is_negated) letters.flip();
        return true;
    }

    /// Backtracks, but never twice from the same place.
    [[nodiscard]] static bool matches(Atoms const& atoms, std::size_t atom, std::string_view name, std::size_t at,
                                      Search const& search) {
        if (atom == atoms.size()) return true;
        auto const place = atom * (name.size() + 1) + at;
        ++search.work;
        if (search.failed[place]) return false;
        auto const& wanted = atoms[atom];
        if (wanted.is_end) return at == name.size();
        auto end = at;
        auto const most = wanted.may_repeat ? name.size() : at + 1;
        while (end < most && end < name.size() && wanted.letters.test(static_cast<unsigned char>(name[end]))) ++end;
        search.work += static_cast<std::int64_t>(end - at);
        for (auto next = end + 1; next-- > at + (wanted.may_be_absent ? 0 : 1);) {
            if (matches(atoms, atom + 1, name, next, search)) return true;
        }
        search.failed[place] = true;
        return false;
    }

    std::vector<Atoms> alternatives_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
