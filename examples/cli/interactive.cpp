// SPDX-License-Identifier: Apache-2.0
#include "interactive.hpp"

#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/session/serve_on_threads.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "chat_prompt.hpp"
#include "console.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

/// Set by the handler of interrupts; the next prompt clears it.
volatile std::sig_atomic_t is_line_interrupted = 0;

/// Room for a conversation where the model has more: keys and values of it are held all the time.
constexpr std::int64_t max_context = 4096;

/// Interrupts set a flag, and what waits for input wakes up, as long as this lives.
class InterruptFlag {
public:
    InterruptFlag() {
        struct sigaction action {};
        action.sa_handler = [](int) { is_line_interrupted = 1; };
        ::sigaction(SIGINT, &action, &before_);
    }
    ~InterruptFlag() { ::sigaction(SIGINT, &before_, nullptr); }
    InterruptFlag(InterruptFlag const&) = delete;
    InterruptFlag& operator=(InterruptFlag const&) = delete;

private:
    struct sigaction before_ {};
};

/// A line that a person wrote; nothing at the end of the input. An interrupt begins a new line.
[[nodiscard]] std::optional<std::string> ask() {
    constexpr std::string_view question = "> ";
    print_text(question);
    (void)flush_output();
    is_line_interrupted = 0;
    std::string line;
    while (true) {
        char letter = 0;
        auto const count = ::read(STDIN_FILENO, &letter, 1);
        if (count < 0 && errno == EINTR) {
            is_line_interrupted = 0;
            line.clear();
            print_text("\n" + std::string(question));
            (void)flush_output();
        } else if (count <= 0) {
            if (line.empty()) return std::nullopt;
            return line;
        } else if (letter == '\n') {
            return line;
        } else {
            line += letter;
        }
    }
}

/// What was said, and what the model is asked next.
class Conversation {
public:
    Conversation(Tokenizer const& tokenizer, std::optional<ChatPrompt> chat, std::int64_t context,
                 std::int64_t answer_tokens)
        : tokenizer_(tokenizer), chat_(std::move(chat)), context_(context), answer_tokens_(answer_tokens) {}

    /// The tokens to go on from when a person says this. Of a long conversation the oldest turns are forgotten, so that
    /// an answer finds room.
    ///
    /// Errors  those of the tokenizer; what the model's template refuses
    [[nodiscard]] Result<std::vector<std::int32_t>> say(std::string text) {
        if (!chat_) return tokenizer_.encode(text);
        messages_.push_back({ChatRole::user, std::move(text)});
        while (true) {
            auto ids = chat_->encode(tokenizer_, messages_);
            bool const is_last = messages_.size() < 3;
            if (!ids || is_last || static_cast<std::int64_t>(ids->size()) + answer_tokens_ <= context_) return ids;
            messages_.erase(messages_.begin(), messages_.begin() + 2);
            if (!std::exchange(has_forgotten_, true))
                std::fputs("shardwise: the context is full: the oldest turns are forgotten\n", stderr);
        }
    }
    /// What the model answered.
    void hear(std::string text) {
        if (chat_) messages_.push_back({ChatRole::assistant, std::move(text)});
    }
    /// The last thing said was not answered.
    void take_back() {
        if (chat_ && !messages_.empty()) messages_.pop_back();
    }

private:
    Tokenizer const& tokenizer_;
    std::optional<ChatPrompt> chat_;
    std::int64_t context_;
    std::int64_t answer_tokens_;
    std::vector<ChatMessage> messages_;
    bool has_forgotten_ = false;
};

void complain(Error const& error) {
    std::fprintf(stderr, "shardwise: %s\n", error.message().c_str());
}

}  // namespace

bool is_interactive(Arguments const& arguments) {
    bool const has_prompt = arguments.prompt || arguments.prompt_file || arguments.prompt_ids;
    bool const has_file = arguments.json || arguments.logits || arguments.profile_out || arguments.trace;
    return !has_prompt && !has_file && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

std::int64_t conversation_context(ModelConfig const& config) {
    return config.max_positions > 0 ? std::min(config.max_positions, max_context) : max_context;
}

Result<> run_interactive(Arguments const& arguments, LoadedModel& model, GenerationRequest request,
                         RunOptions options) {
    print_warnings(model.warnings);
    auto const loaded = load_tokenizer(*model.files);
    if (!loaded) return loaded.error();
    auto stops = end_tokens(*model.files);
    if (!stops) return stops.error();
    request.stop_tokens = *std::move(stops);
    std::optional<ChatPrompt> chat;
    if (arguments.chat) {
        auto made = ChatPrompt::make(*loaded);
        if (!made) return made.error();
        chat = *std::move(made);
    }
    Conversation conversation(loaded->tokenizer, std::move(chat), options.context, request.max_new_tokens);
    request.stop_strings = arguments.stops;
    options.tokenizer = &loaded->tokenizer;
    options.on_text = [](std::int64_t, std::string_view text) {
        print_model_text(text);
        (void)flush_output();
    };
    options.on_token = [](std::int64_t, std::int32_t) { return is_line_interrupted == 0; };
    // While the model is loaded an interrupt ends the program, as ever.
    std::optional<InterruptFlag> flag;
    auto const next = [&]() -> std::optional<GenerationRequest> {
        if (!flag) flag.emplace();
        while (true) {
            auto line = ask();
            if (!line) return std::nullopt;
            if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
            auto ids = conversation.say(*std::move(line));
            if (!ids) {
                complain(ids.error());
                conversation.take_back();
                continue;
            }
            auto asked = request;
            asked.prompt = *std::move(ids);
            return asked;
        }
    };
    auto const answered = [&](Result<Generation> const& generation) {
        if (!generation) {
            complain(generation.error());
            return conversation.take_back();
        }
        print_text("\n");
        conversation.hear(generation->text);
    };
    auto const served = serve_on_threads(*model.files, model.model, options, next, answered);
    print_text("\n");
    return served;
}

}  // namespace shardwise::cli
