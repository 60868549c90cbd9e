// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/text.hpp>
#include <shardwise/model/files/label_names.hpp>
#include <shardwise/session/embed.hpp>
#include <shardwise/session/embed_run_options.hpp>
#include <shardwise/session/sentence_modules.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include "choices.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "degree_flags.hpp"
#include "embed_answer.hpp"
#include "load_model.hpp"
#include "log_lines.hpp"
#include "requests.hpp"
#include "run_device_words.hpp"
#include "values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// The options, and the pooling that was asked for; nothing: the checkpoint's own.
struct EmbedRequest {
    EmbedOptions options;
    Optional<Pooling> pooling;
    std::optional<std::int64_t> max_tokens;
    /// Of detection.
    std::vector<std::string> warnings{};
};

[[nodiscard]] Result<EmbedRequest> read_embed_request(Arguments const& arguments) {
    EmbedRequest request;
    auto& options = request.options;
    if (arguments.pooling) {
        auto const pooling = choose<Optional<Pooling>>("--pooling", *arguments.pooling, pooling_choices);
        if (!pooling) return pooling.error();
        request.pooling = *pooling;
    }
    options.is_normalized = arguments.normalize;
    options.has_scores = arguments.scores;
    if (arguments.scores && (arguments.normalize || arguments.pooling)) {
        return Error{ErrorCode::invalid_argument}
            .in("--scores")
            .because("are no vectors, which --pooling and --normalize are for")
            .fix("leave these out");
    }
    options.is_deterministic = arguments.deterministic;
    for (auto const& read : {read_count("--tp", arguments.tp, 1024, options.tp),
                             read_count("--threads", arguments.threads, 4096, options.threads)}) {
        if (!read) return read.error();
    }
    auto devices = read_run_devices(arguments, request.warnings);
    if (!devices) return devices.error();
    options.devices = *std::move(devices);
    bool const is_processor = arguments.devices && (equal_ignoring_case(*arguments.devices, "cpu") ||
                                                    equal_ignoring_case(*arguments.devices, "auto"));
    if (arguments.devices && options.devices.empty() && !is_processor) {
        return Error{ErrorCode::invalid_argument}
            .in("--devices")
            .at(*arguments.devices)
            .because("names no devices to compute on")
            .fix("write cuda:0,cuda:1, hip:0, auto or cpu");
    }
    auto const comm = read_comm(arguments, options.devices);
    if (!comm) return comm.error();
    options.comm = *comm;
    auto sums = read_peer_sums(arguments, options.devices);
    if (!sums) return sums.error();
    options.peer_sums = *std::move(sums);
    auto const element = read_activations(arguments, options.devices);
    if (!element) return element.error();
    options.activations = *element;
    if (!options.devices.empty() && !arguments.tp)
        options.tp = static_cast<std::int32_t>(options.devices.numbers.size());
    auto const run = detail::run_options_of(options);
    if (auto const used = check_calibration_is_used(arguments, run, false); !used) return used.error();
    warn_of_missing_sums(arguments, run, request.warnings);
    return request;
}

/// Takes over what the checkpoint's modules.json or its GGUF file asks for; without either it is the mean.
[[nodiscard]] Result<> complete_options(OpenCheckpoint& files, EmbedRequest& request) {
    if (request.options.has_scores) return {};
    if (request.pooling) {
        request.options.pooling = *request.pooling;
        return {};
    }
    auto const modules = read_sentence_modules(files);
    if (!modules) return modules.error();
    if (!*modules) return {};
    request.options.pooling = (*modules)->pooling;
    request.options.is_normalized = request.options.is_normalized || (*modules)->is_normalized;
    request.max_tokens = (*modules)->max_tokens;
    return {};
}

/// Cuts the end off a text that is longer than the checkpoint takes; what the tokenizer puts after a text stays.
void cut_to(std::int64_t most, std::vector<TokenId> const& after, std::vector<TokenId>& ids, std::size_t number,
            std::vector<std::string>& warnings) {
    auto const size = static_cast<std::int64_t>(ids.size());
    if (size <= most) return;
    warnings.push_back("text " + std::to_string(number) + " is cut: it has " + std::to_string(size) +
                       " tokens, and the checkpoint's max_seq_length is " + std::to_string(most));
    auto const kept = std::max<std::int64_t>(0, most - static_cast<std::int64_t>(after.size()));
    ids.resize(static_cast<std::size_t>(kept));
    ids.insert(ids.end(), after.begin(), after.end());
}

[[nodiscard]] Result<EmbedAnswer> answer_embed(Arguments const& arguments, EmbedRequest request) {
    auto model = load_runnable_model(*arguments.model);
    if (!model) return model.error();
    if (auto const done = complete_options(*model->files, request); !done) return done.error();
    auto const& options = request.options;
    if (auto const fits = check_degrees(model->model, {.tp = options.tp}); !fits) return fits.error();
    auto const tokenizer = load_tokenizer(*model->files);
    // Ids in place of a text, which the loader advises, are nothing that this command takes.
    if (!tokenizer)
        return Error{tokenizer.error()}.fix("use a checkpoint with a tokenizer.json, or GGUF with a vocabulary");
    EmbedAnswer answer;
    answer.model = model->name;
    answer.options = options;
    if (options.has_scores) {
        auto labels = label_names(*model->files, model->model);
        if (!labels) return labels.error();
        answer.labels = *std::move(labels);
        auto const name = model->model.config.model_class.view();
        answer.is_per_token = name.ends_with("ForTokenClassification") || name.ends_with("ForQuestionAnswering");
    }
    for (auto const& text : arguments.texts) {
        auto ids = tokenizer->tokenizer.encode(text);
        if (!ids) return ids.error();
        answer.ids.push_back(*std::move(ids));
        if (request.max_tokens) {
            cut_to(*request.max_tokens, tokenizer->tokenizer.parts().after, answer.ids.back(), answer.ids.size(),
                   answer.warnings);
        }
    }
    answer.warnings.insert(answer.warnings.begin(), request.warnings.begin(), request.warnings.end());
    answer.warnings.insert(answer.warnings.begin(), model->warnings.begin(), model->warnings.end());
    print_warnings(answer.warnings);
    auto embeddings = embed_on_threads(*model->files, model->model, answer.ids, options);
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
    auto request = read_embed_request(arguments);
    if (!request) return failed(request.error(), Stage::arguments);
    auto const lines = LogLines::from_environment();
    if (!lines) return failed(lines.error(), Stage::arguments);
    request->options.log = lines->log();
    auto const answer = answer_embed(arguments, *request);
    if (!answer) return failed(answer.error(), is_degree_flag(answer.error()) ? Stage::arguments : Stage::work);
    print_text(arguments.json ? embed_json(*answer) : embed_lines(*answer));
    return ExitCode::done;
}

}  // namespace shardwise::cli
