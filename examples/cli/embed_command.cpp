// SPDX-License-Identifier: Apache-2.0
#include <shardwise/session/embed.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "choices.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "embed_answer.hpp"
#include "requests.hpp"
#include "runnable_model.hpp"
#include "values.hpp"

#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<EmbedOptions> read_embed_options(Arguments const& arguments) {
    EmbedOptions options;
    if (arguments.pooling) {
        auto const pooling = choose<Pooling>("--pooling", *arguments.pooling, pooling_choices);
        if (!pooling) return pooling.error();
        options.pooling = *pooling;
    }
    options.is_normalized = arguments.normalize;
    options.is_deterministic = arguments.deterministic;
    for (auto const& read : {read_count("--tp", arguments.tp, 1024, options.tp),
                             read_count("--threads", arguments.threads, 4096, options.threads)}) {
        if (!read) return read.error();
    }
    return options;
}

[[nodiscard]] Result<EmbedAnswer> answer_embed(Arguments const& arguments, EmbedOptions const& options) {
    auto model = find_runnable(*arguments.model);
    if (!model) return model.error();
    auto const tokenizer = load_tokenizer(model->source);
    // Ids in place of a text, which the loader advises, are nothing that this command takes.
    if (!tokenizer)
        return Error{tokenizer.error()}.fix("use a checkpoint with a tokenizer.json, or GGUF with a vocabulary");
    EmbedAnswer answer{.model = model->source.name, .options = options, .ids = {}, .embeddings = {}, .warnings = {}};
    for (auto const& text : arguments.texts) {
        auto ids = tokenizer->tokenizer.encode(text);
        if (!ids) return ids.error();
        answer.ids.push_back(*std::move(ids));
    }
    answer.warnings = std::move(model->checkpoint.warnings);
    print_warnings(answer.warnings);
    auto embeddings = embed_on_threads(model->source, model->checkpoint.model, answer.ids, options);
    if (!embeddings) return embeddings.error();
    answer.embeddings = *std::move(embeddings);
    return answer;
}

}  // namespace

ExitCode run_embed(Arguments const& arguments) {
    auto const failed = [&](Error const& error, Stage stage) { return report(error, stage, arguments.json); };
    if (auto const color = read_color(arguments); !color) return failed(color.error(), Stage::arguments);
    if (auto const given = check_model_given(arguments, "shardwise embed ./all-MiniLM-L6-v2 --text 'a cat'"); !given)
        return failed(given.error(), Stage::arguments);
    if (arguments.texts.empty()) {
        return failed(Error{ErrorCode::invalid_argument}
                          .in("--text")
                          .because("was not given")
                          .fix("give a text with --text, several with --text each"),
                      Stage::arguments);
    }
    auto const options = read_embed_options(arguments);
    if (!options) return failed(options.error(), Stage::arguments);
    auto const answer = answer_embed(arguments, *options);
    if (!answer) return failed(answer.error(), Stage::work);
    print_text(arguments.json ? embed_json(*answer) : embed_lines(*answer));
    return ExitCode::done;
}

}  // namespace shardwise::cli
