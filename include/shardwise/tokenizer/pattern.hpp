// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/character_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a match lies in a text.
///
/// Units  code points
struct TextRange {
    std::size_t first = 0;
    std::size_t end = 0;
};

namespace detail {

/// How a repetition chooses between more and less.
enum class Greed : std::uint8_t { greedy, lazy, possessive };

enum class PatternStep : std::uint8_t {
    one,     // a code point of the set
    repeat,  // `least` to `most` code points of the set
    either,  // goes on at `first`, and where that fails at `second`
    jump,    // goes on at `first`
    look,    // what follows, up to `first`, matches here, or does not (is_negated); takes nothing
    atomic,  // what follows, up to `first`, matches here; its other ways are forgotten
    line_begin,
    line_end,
    text_begin,
    text_end,
    word_edge,  // or none (is_negated)
    done
};

/// One instruction of a compiled pattern; jumps are relative to it.
struct PatternInstruction {
    PatternStep step = PatternStep::done;
    Greed greed = Greed::greedy;
    bool is_negated = false;
    std::uint32_t set = 0;
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    std::int32_t first = 0;
    std::int32_t second = 0;
};

/// Finds one match by backtracking over an explicit stack, whose length the text bounds.
class PatternMatcher {
public:
    PatternMatcher(std::vector<PatternInstruction> const& program, std::vector<CharacterSet> const& sets,
                   std::u32string_view text)
        : program_(program), sets_(sets), text_(text) {}

    /// Where a match that begins at `at` ends; nothing where there is none.
    [[nodiscard]] std::optional<std::size_t> match(std::size_t at) { return run(0, at); }
    /// True after the steps that a pattern may take in one text were used up.
    [[nodiscard]] bool is_exhausted() const { return steps_ > max_steps_; }

private:
    // Patterns of known tokenizers take under 20 steps for a code point.
    static constexpr std::uint64_t free_steps = std::uint64_t{1} << 21U;
    static constexpr std::uint64_t steps_per_code_point = 256;

    /// Another way to go on: at `at`, or, for a greedy repetition, at any place down to `least`, or, for a lazy one, up
    /// to `most`.
    struct Way {
        std::size_t instruction;
        std::size_t at;
        std::size_t bound;
        std::int8_t direction;
    };

    [[nodiscard]] std::optional<std::size_t> run(std::size_t instruction, std::size_t at) {
        auto const base = ways_.size();
        for (;;) {
            if (++steps_ > max_steps_) break;
            auto const& now = program_[instruction];
            bool goes_on = true;
            switch (now.step) {
                case PatternStep::one:
                    goes_on = at < text_.size() && sets_[now.set].contains(text_[at]);
                    ++at, ++instruction;
                    break;
                case PatternStep::repeat:
                    goes_on = repeat(now, instruction + 1, at);
                    ++instruction;
                    break;
                case PatternStep::either:
                    ways_.push_back({target(instruction, now.second), at, at, 0});
                    instruction = target(instruction, now.first);
                    break;
                case PatternStep::jump:
                    instruction = target(instruction, now.first);
                    break;
                case PatternStep::look: {
                    auto const found = run(instruction + 1, at);
                    goes_on = found.has_value() != now.is_negated;
                    instruction = target(instruction, now.first);
                    break;
                }
                case PatternStep::atomic: {
                    auto const found = run(instruction + 1, at);
                    goes_on = found.has_value();
                    if (found) at = *found;
                    instruction = target(instruction, now.first);
                    break;
                }
                case PatternStep::line_begin:
                    goes_on = at == 0 || text_[at - 1] == '\n';
                    ++instruction;
                    break;
                case PatternStep::line_end:
                    goes_on = at == text_.size() || text_[at] == '\n';
                    ++instruction;
                    break;
                case PatternStep::text_begin:
                    goes_on = at == 0;
                    ++instruction;
                    break;
                case PatternStep::text_end:
                    goes_on = at == text_.size();
                    ++instruction;
                    break;
                case PatternStep::word_edge: {
                    bool const before = at > 0 && is_pattern_word_character(text_[at - 1]);
                    bool const after = at < text_.size() && is_pattern_word_character(text_[at]);
                    goes_on = (before != after) != now.is_negated;
                    ++instruction;
                    break;
                }
                case PatternStep::done:
                    ways_.resize(base);
                    return at;
            }
            if (goes_on) continue;
            if (ways_.size() == base) return std::nullopt;
            auto& way = ways_.back();
            instruction = way.instruction;
            at = way.at;
            if (way.at == way.bound) {
                ways_.pop_back();
            } else {
                way.at = way.direction < 0 ? way.at - 1 : way.at + 1;
            }
        }
        ways_.resize(base);
        return std::nullopt;
    }

    bool repeat(PatternInstruction const& now, std::size_t next, std::size_t& at) {
        auto const& set = sets_[now.set];
        auto const room = text_.size() - at;
        auto const limit = std::min<std::size_t>(now.most, room);
        std::size_t count = 0;
        while (count < limit && set.contains(text_[at + count])) ++count;
        steps_ += count;
        if (count < now.least) return false;
        auto const low = at + now.least;
        auto const high = at + count;
        if (now.greed == Greed::lazy) {
            at = low;
            if (low < high) ways_.push_back({next, low + 1, high, 1});
        } else {
            at = high;
            if (low < high && now.greed == Greed::greedy) ways_.push_back({next, high - 1, low, -1});
        }
        return true;
    }
    static std::size_t target(std::size_t instruction, std::int32_t offset) {
        return static_cast<std::size_t>(static_cast<std::int64_t>(instruction) + offset);
    }

    std::vector<PatternInstruction> const& program_;
    std::vector<CharacterSet> const& sets_;
    std::u32string_view text_;
    std::vector<Way> ways_;
    std::uint64_t max_steps_ = free_steps + steps_per_code_point * text_.size();
    std::uint64_t steps_ = 0;
};

}  // namespace detail

/// A compiled pattern: a regular expression of Oniguruma's Ruby syntax, or a text.
///
/// It has what the tokenizers of known families use: alternation, groups, (?i:...), classes with ranges, categories and
/// negation, greedy, lazy and possessive quantifiers, lookahead, anchors. `parse_pattern` names anything else.
class Pattern {
public:
    /// All matches in their order; none overlap. An empty match is kept unless it touches the one before.
    ///
    /// Errors  capacity_exceeded where a hostile pattern takes too many steps
    [[nodiscard]] Result<std::vector<TextRange>> find_all(std::u32string_view text) const {
        detail::PatternMatcher matcher(program_, sets_, text);
        std::vector<TextRange> found;
        for (std::size_t at = 0; at <= text.size();) {
            auto const end = matcher.match(at);
            if (!end) {
                if (matcher.is_exhausted()) {
                    return Error{ErrorCode::capacity_exceeded}
                        .because("a pattern of the tokenizer takes too many steps on this text")
                        .fix("give the text in smaller pieces");
                }
                ++at;
                continue;
            }
            bool const touches = *end == at && !found.empty() && found.back().end == at;
            if (!touches) found.push_back({at, *end});
            at = *end == at ? at + 1 : *end;
        }
        return found;
    }

    /// Whether `before` followed by `after` parts every text: no match has both, none is empty, and matches on one side do not depend on
    /// what stands on the other. False where that is not known.
    [[nodiscard]] bool is_parted_by(char32_t before, char32_t after) const {
        using detail::PatternStep;
        auto const starts = reached_from(0);
        for (std::size_t i = 0; i < program_.size(); ++i) {
            auto const& now = program_[i];
            bool const looks_back = now.step == PatternStep::line_begin || now.step == PatternStep::text_begin ||
                                    now.step == PatternStep::word_edge;
            if (looks_back || (starts[i] && now.step == PatternStep::done)) return false;
            if (!takes(i, before)) continue;
            if (now.step == PatternStep::repeat && now.most > 1 && takes(i, after)) return false;
            auto const next = reached_from(i + 1);
            for (std::size_t j = 0; j < program_.size(); ++j) {
                auto const step = program_[j].step;
                bool const is_end = step == PatternStep::line_end || step == PatternStep::text_end;
                if (next[j] && (is_end || takes(j, after))) return false;
            }
        }
        return true;
    }
    /// Whether some of its sets has a code point.
    [[nodiscard]] bool reads(char32_t code) const {
        for (std::size_t i = 0; i < program_.size(); ++i) {
            if (takes(i, code)) return true;
        }
        return false;
    }
    /// Whether it matches one code point of a set, and no more.
    [[nodiscard]] bool is_one_of_set() const {
        return program_.size() == 2 && program_[0].step == detail::PatternStep::one &&
               program_[1].step == detail::PatternStep::done;
    }

    /// The pattern that matches this text only.
    [[nodiscard]] static Pattern literal(std::u32string_view text) {
        Pattern pattern;
        for (auto const code : text) {
            CharacterSet set;
            set.add_range(code, code);
            pattern.add_one(std::move(set));
        }
        pattern.program_.push_back({});
        return pattern;
    }
    /// The pattern that matches one code point of a set of unicode_set_table.hpp.
    [[nodiscard]] static Pattern one_between(std::string_view borders) {
        Pattern pattern;
        CharacterSet set;
        set.add_between(borders);
        pattern.add_one(std::move(set));
        pattern.program_.push_back({});
        return pattern;
    }
    /// Used by parse_pattern.
    [[nodiscard]] static Pattern compiled(std::vector<detail::PatternInstruction> program,
                                          std::vector<CharacterSet> sets) {
        Pattern pattern;
        pattern.program_ = std::move(program);
        pattern.sets_ = std::move(sets);
        return pattern;
    }

private:
    [[nodiscard]] bool takes(std::size_t instruction, char32_t code) const {
        auto const& now = program_[instruction];
        if (now.step != detail::PatternStep::one && now.step != detail::PatternStep::repeat) return false;
        return sets_[now.set].contains(code);
    }
    /// The instructions that may come next at one place of the text, from one of them on; more of them where it is not known.
    [[nodiscard]] std::vector<bool> reached_from(std::size_t first) const {
        using detail::PatternStep;
        std::vector<bool> reached(program_.size());
        std::vector<std::size_t> open{first};
        auto const target = [](std::size_t from, std::int32_t offset) {
            return static_cast<std::size_t>(static_cast<std::int64_t>(from) + offset);
        };
        while (!open.empty()) {
            auto const at = open.back();
            open.pop_back();
            if (at >= program_.size() || reached[at]) continue;
            reached[at] = true;
            auto const& now = program_[at];
            switch (now.step) {
                case PatternStep::one:
                    break;
                case PatternStep::repeat:
                    if (now.least == 0) open.push_back(at + 1);
                    break;
                case PatternStep::either:
                    open.push_back(target(at, now.first));
                    open.push_back(target(at, now.second));
                    break;
                case PatternStep::jump:
                    open.push_back(target(at, now.first));
                    break;
                case PatternStep::look:
                case PatternStep::atomic:
                    open.push_back(at + 1);
                    open.push_back(target(at, now.first));
                    break;
                case PatternStep::line_begin:
                case PatternStep::line_end:
                case PatternStep::text_begin:
                case PatternStep::text_end:
                case PatternStep::word_edge:
                    open.push_back(at + 1);
                    break;
                case PatternStep::done:
                    // Which part it ends is not kept: after any of those that the pattern goes on behind.
                    for (std::size_t i = 0; i < program_.size(); ++i) {
                        if (program_[i].step == PatternStep::atomic) open.push_back(target(i, program_[i].first));
                    }
                    break;
            }
        }
        return reached;
    }
    void add_one(CharacterSet set) {
        set.finish(false);
        detail::PatternInstruction one;
        one.step = detail::PatternStep::one;
        one.set = static_cast<std::uint32_t>(sets_.size());
        sets_.push_back(std::move(set));
        program_.push_back(one);
    }

    std::vector<detail::PatternInstruction> program_;
    std::vector<CharacterSet> sets_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
