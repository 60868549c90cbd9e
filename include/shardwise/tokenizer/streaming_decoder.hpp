// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Decodes ids as they come. What it gives never ends within a UTF-8 character, and together it is what
/// Tokenizer::decode gives of all ids, wherever that is UTF-8; broken bytes become U+FFFD.
///
/// Memory  the ids since the last text, at most a few dozen
class StreamingDecoder {
public:
    /// `tokenizer` outlives this.
    explicit StreamingDecoder(Tokenizer const& tokenizer, bool skips_special = true)
        : tokenizer_(&tokenizer), skips_special_(skips_special) {}

    /// The text that is complete with this id; often none.
    ///
    /// Errors  invalid_argument for an id that no token has; the id then counts for nothing
    [[nodiscard]] Result<std::string> push(TokenId id) {
        ids_.push_back(id);
        auto const text = tokenizer_->decode_bytes(ids_, skips_special_, true);
        if (!text) {
            ids_.pop_back();
            return text.error();
        }
        auto const end = text->size() - cut_utf8_tail(*text);
        std::string out;
        if (end > given_) {
            out = to_valid_utf8(std::string_view(*text).substr(given_, end - given_));
            given_ = end;
        }
        if (ids_.size() >= window && given_ == text->size()) restart(id);
        return out;
    }

    /// What is left: the beginning of a character whose end never came, as U+FFFD.
    [[nodiscard]] std::string finish() {
        auto const text = tokenizer_->decode_bytes(ids_, skips_special_, true);
        ids_.clear();
        auto const given = std::exchange(given_, 0);
        if (!text || text->size() <= given) return {};
        return to_valid_utf8(std::string_view(*text).substr(given));
    }

private:
    static constexpr std::size_t window = 32;

    /// Goes on from the last id alone: decoders treat the first token of a text in a way of their own, so one must stay.
    void restart(TokenId last) {
        if (skips_special_ && tokenizer_->is_special(last)) return;
        auto const text = tokenizer_->decode_bytes(std::span(&last, 1), skips_special_, true);
        if (!text || cut_utf8_tail(*text) != 0) return;
        ids_.assign(1, last);
        given_ = text->size();
    }

    Tokenizer const* tokenizer_;
    bool skips_special_;
    std::vector<TokenId> ids_;
    std::size_t given_ = 0;  // bytes of the decoded ids
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
