#include "run_prompt.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/chat_layout.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "values.hpp"

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

constexpr std::size_t longest_prompt_file = std::size_t{64} << 20U;

[[nodiscard]] Result<std::string> prompt_text(Arguments const& arguments) {
    return arguments.prompt ? *arguments.prompt : read_text_file(*arguments.prompt_file, longest_prompt_file);
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

Result<RunPrompt> read_prompt(Arguments const& arguments, ModelSource const& source) {
    RunPrompt prompt;
    auto loaded = load_tokenizer(source);
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
        auto const format = recognize_chat_format(loaded->chat_template);
        if (!format) return Error{format.error()}.in("--chat");
        std::array const messages{ChatMessage{ChatRole::user, *text}};
        auto laid_out = lay_out_chat(*format, messages);
        if (!laid_out) return laid_out.error();
        text = *std::move(laid_out);
    }
    auto ids = loaded->tokenizer.encode(*text);
    if (!ids) return ids.error();
    prompt.ids = *std::move(ids);
    prompt.tokenizer = std::move(loaded->tokenizer);
    return prompt;
}

}  // namespace shardwise::cli
