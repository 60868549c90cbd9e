// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/generation.hpp>
#include <shardwise/session/text_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The texts of several requests, on the rank that has a tokenizer.
class RequestTexts {
public:
    /// A null `tokenizer` makes no texts; otherwise it outlives this, and so does `on_text`.
    ///
    /// Errors  invalid_argument for stop strings without a tokenizer
    [[nodiscard]] static Result<RequestTexts> create(Tokenizer const* tokenizer, OnText const& on_text,
                                                     std::vector<GenerationRequest> const& requests) {
        RequestTexts texts;
        for (auto const& request : requests) {
            if (tokenizer == nullptr && !request.stop_strings.empty()) {
                return Error{ErrorCode::invalid_argument}
                    .in("request")
                    .at("stop_strings")
                    .because("need a tokenizer, which was not given")
                    .fix("set the run's tokenizer, or give stop_tokens");
            }
            if (tokenizer == nullptr) continue;
            auto const number = static_cast<std::int64_t>(texts.streams_.size());
            TextStream::Show show;
            if (on_text) show = [&on_text, number](std::string_view text) { on_text(number, text); };
            texts.streams_.emplace_back(*tokenizer, request.stop_strings, std::move(show));
        }
        return texts;
    }

    /// Takes in a request's token; false once a stop string is there.
    [[nodiscard]] bool push(std::int64_t request, std::int32_t token) {
        return streams_.empty() || streams_[static_cast<std::size_t>(request)].push(token);
    }
    /// Gives a generation its text; no more tokens of it come. Doing so again changes nothing.
    void finish(Generation& generation) {
        if (streams_.empty()) return;
        auto& stream = streams_[static_cast<std::size_t>(generation.request)];
        stream.finish();
        generation.text = stream.text();
    }

private:
    std::vector<TextStream> streams_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
