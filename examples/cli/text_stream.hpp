#pragma once

#include <shardwise/tokenizer/streaming_decoder.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

/// The text of tokens as they come, up to where a stop text would appear. What might be the beginning of the stop text is held
/// back until it is known.
class TextStream {
public:
    /// `show` gets each new piece of text; `tokenizer` outlives this.
    TextStream(Tokenizer const& tokenizer, std::string stop, std::function<void(std::string_view)> show)
        : decoder_(tokenizer), stop_(std::move(stop)), show_(std::move(show)) {}

    /// Takes in a token; false once the stop text is there.
    [[nodiscard]] bool push(std::int32_t token) {
        auto const text = decoder_.push(token);
        if (text) take(*text);
        return !has_stopped_;
    }
    /// No more tokens come.
    void finish() {
        if (has_stopped_) return;
        take(decoder_.finish());
        if (!has_stopped_) show(text_.size());
    }

    /// All text, without the stop text.
    [[nodiscard]] std::string const& text() const { return text_; }

private:
    void take(std::string_view more) {
        text_ += more;
        if (stop_.empty()) return show(text_.size());
        if (auto const found = text_.find(stop_, searched_); found != std::string::npos) {
            has_stopped_ = true;
            text_.resize(found);
            return show(found);
        }
        // The longest end of the text that the stop text begins with.
        auto held = stop_.size() - 1 < text_.size() ? stop_.size() - 1 : text_.size();
        while (held > 0 &&
               std::string_view(text_).substr(text_.size() - held) != std::string_view(stop_).substr(0, held))
            --held;
        searched_ = text_.size() - held;
        show(searched_);
    }
    void show(std::size_t end) {
        if (end > shown_ && show_) show_(std::string_view(text_).substr(shown_, end - shown_));
        if (end > shown_) shown_ = end;
    }

    StreamingDecoder decoder_;
    std::string stop_;
    std::function<void(std::string_view)> show_;
    std::string text_;
    std::size_t searched_ = 0;
    std::size_t shown_ = 0;
    bool has_stopped_ = false;
};

}  // namespace shardwise::cli
