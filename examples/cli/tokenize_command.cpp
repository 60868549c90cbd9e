// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "demo_model.hpp"
#include "requests.hpp"
#include "values.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

[[nodiscard]] Error usage(std::string_view flag, std::string_view reason) {
    return Error{ErrorCode::invalid_argument}.in(flag).because(reason).fix(
        "give a text with --text, or token ids with --decode 1,2,3");
}

[[nodiscard]] Result<Tokenizer> find_tokenizer(std::string const& model) {
    // Nothing is read from it, nor waited for.
    if (is_stream(model)) {
        return Error{ErrorCode::invalid_argument}
            .in(stream_name(model))
            .because("gives a config.json, which has no tokenizer")
            .fix("name a folder with a tokenizer.json, or a .gguf file");
    }
    auto const place = place_of_model(model);
    if (!place) return place.error();
    auto source = find_model(*place, {}, HubCache(HubEnvironment::current()));
    if (!source && find_preset(model) != nullptr) {
        source = ModelSource{};
        source->name = model;
    }
    if (!source && source.error().code() == ErrorCode::file_not_found) {
        // A folder that holds a tokenizer and no model.
        if (auto alone = find_model(model + "/tokenizer.json", {}, HubCache(HubEnvironment::current()))) source = alone;
    }
    if (!source) return source.error();
    auto loaded = load_tokenizer(*source);
    if (!loaded) return loaded.error();
    return std::move(loaded->tokenizer);
}

struct TokenizeAnswer {
    std::vector<TokenId> ids;
    std::vector<std::string> tokens;
    std::string text;
};

void print_json(TokenizeAnswer const& answer) {
    JsonWriter json;
    json.begin_object().key("schema").value("shardwise.tokenize/1").key("ids").begin_array();
    for (auto const id : answer.ids) json.value(id);
    json.end_array().key("tokens").begin_array();
    for (auto const& token : answer.tokens) json.value(token);
    json.end_array().key("text").value(answer.text).end_object();
    print_text(json.text() + "\n");
}

void print_lines(TokenizeAnswer const& answer) {
    std::string out;
    for (std::size_t i = 0; i < answer.ids.size(); ++i) {
        auto const id = std::to_string(answer.ids[i]);
        out += std::string(id.size() < 8 ? 8 - id.size() : 0, ' ') + id + "  " + escaped(answer.tokens[i]) + "\n";
    }
    print_model_text(out + answer.text + "\n");
}

[[nodiscard]] Result<TokenizeAnswer> answer_of(Tokenizer const& tokenizer, Arguments const& arguments,
                                               std::vector<TokenId> ids) {
    TokenizeAnswer answer;
    if (arguments.text) {
        auto encoded = tokenizer.encode(*arguments.text);
        if (!encoded) return encoded.error();
        ids = std::move(*encoded);
    }
    auto text = tokenizer.decode(ids);
    if (!text) return Error{text.error()}.in("--decode");
    for (auto const id : ids) answer.tokens.emplace_back(tokenizer.token(id).value_or(""));
    answer.ids = std::move(ids);
    answer.text = std::move(*text);
    return answer;
}

}  // namespace

ExitCode run_tokenize(Arguments const& arguments) {
    auto const failed = [&](Error const& error, Stage stage) { return report(error, stage, arguments.json); };
    if (auto const given = check_model_given(arguments, "shardwise tokenize model.gguf --text 'Hello, world!'"); !given)
        return failed(given.error(), Stage::arguments);
    if (!arguments.text && !arguments.decode) return failed(usage("--text", "was not given"), Stage::arguments);
    if (arguments.text && arguments.decode) {
        return failed(usage("--decode", "was given together with --text"), Stage::arguments);
    }
    std::vector<TokenId> ids;
    if (arguments.decode && !arguments.decode->empty()) {
        auto read = read_id_list("--decode", *arguments.decode, Vocabulary::max_tokens - 1);
        if (!read) return failed(read.error(), Stage::arguments);
        ids = std::move(*read);
    }
    auto const tokenizer = find_tokenizer(*arguments.model);
    if (!tokenizer) return failed(tokenizer.error(), Stage::arguments);
    auto const answer = answer_of(*tokenizer, arguments, std::move(ids));
    if (!answer) return failed(answer.error(), Stage::arguments);
    arguments.json ? print_json(*answer) : print_lines(*answer);
    return ExitCode::done;
}

}  // namespace shardwise::cli
