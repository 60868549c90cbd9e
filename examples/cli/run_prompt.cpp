// SPDX-License-Identifier: Apache-2.0
#include "run_prompt.hpp"

#include <shardwise/core/files/stream.hpp>
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/tokenizer/chat_layout.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "chat_prompt.hpp"
#include "values.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

constexpr std::size_t longest_prompt_file = std::size_t{64} << 20U;

[[nodiscard]] Result<std::string> prompt_text(Arguments const& arguments) {
    if (arguments.prompt) return *arguments.prompt;
    auto const& path = *arguments.prompt_file;
    // A device may have no end; a terminal, which is one too, has.
    if (!is_stream(path)) return read_text_file(path, longest_prompt_file);
    auto text = read_stream(path, longest_prompt_file);
    if (!text || text->size() <= longest_prompt_file) return text;
    return Error{ErrorCode::capacity_exceeded}
        .in(stream_name(path))
        .because("gives more bytes than a prompt may have")
        .at_most(static_cast<std::int64_t>(longest_prompt_file));
}

}  // namespace

Result<> check_prompt_flags(Arguments const& arguments) {
    int given = 0;
    for (auto const* const word : {&arguments.prompt, &arguments.prompt_ids, &arguments.prompt_file})
        given += *word ? 1 : 0;
    Error error{ErrorCode::invalid_argument};
    if (given == 0)
        return error.in("--prompt")
            .because("was not given")
            .fix("give --prompt TEXT, --prompt-file FILE or --prompt-ids 1,2,3");
    if (given > 1) {
        return error.in("--prompt")
            .because("was given in more than one way")
            .fix("keep one of --prompt, --prompt-file and --prompt-ids");
    }
    if (arguments.chat && arguments.prompt_ids)
        return error.in("--chat").because("lays out a text, not ids").fix("give the text with --prompt");
    return {};
}

Result<RunPrompt> read_prompt(Arguments const& arguments, OpenCheckpoint& files) {
    RunPrompt prompt;
    auto loaded = load_tokenizer(files);
    if (arguments.prompt_ids) {
        auto ids = read_id_list("--prompt-ids", *arguments.prompt_ids, std::numeric_limits<std::int32_t>::max());
        if (!ids) return ids.error();
        prompt.ids = *std::move(ids);
        // Without a tokenizer there is no text, which ids do not need.
        if (loaded) prompt.tokenizer = std::move(loaded->tokenizer);
        return prompt;
    }
    if (!loaded) return loaded.error();
    auto text = prompt_text(arguments);
    if (!text) return text.error();
    if (arguments.chat) {
        auto chat = ChatPrompt::make(*loaded);
        if (!chat) return chat.error();
        std::array const messages{ChatMessage{ChatRole::user, *text}};
        auto laid_out = chat->encode(loaded->tokenizer, messages);
        if (!laid_out) return laid_out.error();
        prompt.ids = *std::move(laid_out);
        prompt.tokenizer = std::move(loaded->tokenizer);
        return prompt;
    }
    auto ids = loaded->tokenizer.encode(*text);
    if (!ids) return ids.error();
    prompt.ids = *std::move(ids);
    if (prompt.ids.empty()) {
        // Nothing is written yet: the model begins as it begins a sequence.
        auto const first = begin_token(files);
        if (!first) return first.error();
        auto const begin = *first ? *first : loaded->tokenizer.begin_of_sequence();
        if (begin) prompt.ids.push_back(*begin);
    }
    prompt.tokenizer = std::move(loaded->tokenizer);
    return prompt;
}

std::optional<std::string> long_rotations(Model const& model, GenerationRequest const& request,
                                          RunOptions const& options) {
    auto const original = model.config.rope.original_max_positions;
    auto const prompt = static_cast<std::int64_t>(request.prompt.size());
    bool const has_lists = model.config.rope.kind == RopeKind::longrope && original > 0;
    if (!has_lists || prompt > original) return std::nullopt;
    if (detail::limits_for({request}, model, options, Dtype::f32).context <= original) return std::nullopt;
    return "prompt and --max-new-tokens come to more than " + std::to_string(original) +
           " tokens, beyond which this model's positions turn by other factors: those are taken from the first token "
           "on, as llama.cpp and vLLM do; transformers changes to them where a text grows so long (up to " +
           std::to_string(original - prompt) + " new tokens stay below)";
}

}  // namespace shardwise::cli
