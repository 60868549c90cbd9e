// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/streaming_decoder.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text of tokens as they come, up to where the first of some stop strings would appear. What might be the beginning
/// of one is held back until it is known.
class TextStream {
public:
    using Show = std::function<void(std::string_view)>;

    /// `show` gets each new piece of text; `tokenizer` outlives this. Empty stop strings stop nothing.
    TextStream(Tokenizer const& tokenizer, std::vector<std::string> stops, Show show)
        : decoder_(tokenizer), stops_(std::move(stops)), show_(std::move(show)) {
        stops_.erase(std::remove(stops_.begin(), stops_.end(), std::string{}), stops_.end());
    }

    /// Takes in a token; false once a stop string is there.
    [[nodiscard]] bool push(std::int32_t token) {
        if (has_stopped_) return false;
        if (auto const text = decoder_.push(token)) take(*text);
        return !has_stopped_;
    }
    /// No more tokens come.
    void finish() {
        if (has_stopped_) return;
        take(decoder_.finish());
        if (!has_stopped_) show(text_.size());
    }

    /// All text, without the stop string and what follows it.
    [[nodiscard]] std::string const& text() const { return text_; }
    [[nodiscard]] bool has_stopped() const { return has_stopped_; }

private:
    void take(std::string_view more) {
        text_ += more;
        auto found = std::string::npos;
        for (auto const& stop : stops_) found = std::min(found, text_.find(stop, searched_));
        if (found != std::string::npos) {
            has_stopped_ = true;
            text_.resize(found);
            return show(found);
        }
        std::size_t held = 0;
        for (auto const& stop : stops_) held = std::max(held, held_for(stop));
        searched_ = text_.size() - held;
        show(searched_);
    }
    /// The longest end of the text that the stop string begins with.
    [[nodiscard]] std::size_t held_for(std::string_view stop) const {
        auto held = std::min(stop.size() - 1, text_.size());
        while (held > 0 && !text_.ends_with(stop.substr(0, held))) --held;
        return held;
    }
    void show(std::size_t end) {
        if (end > shown_ && show_) show_(std::string_view(text_).substr(shown_, end - shown_));
        shown_ = std::max(shown_, end);
    }

    StreamingDecoder decoder_;
    std::vector<std::string> stops_;
    Show show_;
    std::string text_;
    std::size_t searched_ = 0;
    std::size_t shown_ = 0;
    bool has_stopped_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
