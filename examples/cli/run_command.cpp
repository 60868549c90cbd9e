#include <shardwise/core/files/write_file.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include "commands.hpp"
#include "interactive.hpp"
#include "model_facts.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "run_answer.hpp"
#include "run_profile.hpp"
#include "run_prompt.hpp"
#include "runnable_model.hpp"
#include "text_stream.hpp"
#include "values.hpp"

#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

constexpr std::int64_t most_count = std::int64_t{1} << 24;

/// Set by the handler of interrupts.
volatile std::sig_atomic_t is_interrupted = 0;

[[nodiscard]] Result<float> read_real(std::string_view flag, std::string_view word, float least, float most) {
    float value = 0.0F;
    auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    bool const is_number = problem == std::errc{} && end == word.data() + word.size();
    if (is_number && std::isfinite(value) && value >= least && value <= most) return value;
    return Error{ErrorCode::invalid_argument}
        .in(flag)
        .at(word.empty() ? std::string_view{"\"\""} : word)
        .because(is_number ? "is out of range" : "is not a number")
        .fix("write a number like 0.8");
}

/// The flags that say how to generate.
[[nodiscard]] Result<GenerationRequest> read_request(Arguments const& arguments) {
    GenerationRequest request;
    if (arguments.max_new_tokens) {
        auto const count = read_number("--max-new-tokens", *arguments.max_new_tokens, 0, most_count);
        if (!count) return count.error();
        request.max_new_tokens = *count;
    }
    auto& sampling = request.sampling;
    struct Real {
        std::string_view flag;
        std::optional<std::string> const& word;
        float least, most;
        float& to;
    };
    constexpr auto large = 1e6F;
    for (auto const& real :
         {Real{"--temperature", arguments.temperature, 0.0F, large, sampling.temperature},
          Real{"--top-p", arguments.top_p, 0.0F, 1.0F, sampling.top_p},
          Real{"--min-p", arguments.min_p, 0.0F, 1.0F, sampling.min_p},
          Real{"--repetition-penalty", arguments.repetition_penalty, 1e-6F, large, sampling.repetition_penalty}}) {
        if (!real.word) continue;
        auto const value = read_real(real.flag, *real.word, real.least, real.most);
        if (!value) return value.error();
        real.to = *value;
    }
    if (arguments.top_k) {
        auto const count = read_number("--top-k", *arguments.top_k, 0, most_count);
        if (!count) return count.error();
        sampling.top_k = *count;
    }
    if (arguments.seed) {
        auto const seed = read_number("--seed", *arguments.seed, 0, std::numeric_limits<std::int64_t>::max());
        if (!seed) return seed.error();
        sampling.seed = static_cast<std::uint64_t>(*seed);
    }
    return request;
}

[[nodiscard]] Result<RunOptions> read_options(Arguments const& arguments) {
    RunOptions options;
    options.is_deterministic = arguments.deterministic;
    if (arguments.tp) {
        auto const ranks = read_number("--tp", *arguments.tp, 1, 1024);
        if (!ranks) return ranks.error();
        options.tp = static_cast<std::int32_t>(*ranks);
    }
    if (arguments.threads) {
        auto const threads = read_number("--threads", *arguments.threads, 1, 4096);
        if (!threads) return threads.error();
        options.threads = static_cast<int>(*threads);
    }
    if (arguments.kv_dtype) {
        auto const dtype = parse_dtype(*arguments.kv_dtype);
        bool const is_kept = dtype && (*dtype == Dtype::f32 || *dtype == Dtype::bf16 || *dtype == Dtype::i8);
        if (!is_kept) {
            return Error{ErrorCode::invalid_argument}
                .in("--kv-dtype")
                .at(*arguments.kv_dtype)
                .because("is no element type that keys and values are kept in")
                .fix("use fp32, bf16 or int8");
        }
        options.kv_dtype = *dtype;
    }
    auto const weights = read_estimate_request(arguments);
    if (!weights) return weights.error();
    options.load.dtype = weights->dtype;
    options.load.quant = weights->quant;
    if (auto const checked = check_load_options(options.load); !checked) return checked.error();
    return options;
}

[[nodiscard]] Result<RunAnswer> answer_run(Arguments const& arguments, GenerationRequest request, RunOptions options) {
    RunAnswer answer;
    auto const color = read_color(arguments);
    if (!color) return color.error();
    auto model = find_runnable(*arguments.model);
    if (!model) return model.error();
    auto const& source = model->source;
    auto stops = end_tokens(source);
    if (!stops) return stops.error();
    request.stop_tokens = *std::move(stops);
    auto prompt = read_prompt(arguments, source);
    if (!prompt) return prompt.error();
    if (arguments.stop && !prompt->tokenizer) {
        return Error{ErrorCode::unsupported}
            .in("--stop")
            .because("needs text, and the model's files have no tokenizer that can be read")
            .fix("leave it out");
    }
    answer.model = source.name;
    answer.prompt = request.prompt = prompt->ids;
    answer.warnings = std::move(model->checkpoint.warnings);
    print_warnings(answer.warnings);

    std::optional<TextStream> stream;
    if (prompt->tokenizer) {
        auto show = [](std::string_view text) {
            print_text(text);
            (void)flush_output();
        };
        stream.emplace(*prompt->tokenizer, arguments.stop.value_or(""),
                       arguments.json ? std::function<void(std::string_view)>{} : show);
    }
    // Shown until the first token.
    std::optional<Progress> progress;
    progress.emplace(*color);
    options.load.observer = progress->observer();
    options.on_token = [&stream, &progress](std::int64_t, std::int32_t token) {
        progress.reset();
        return (!stream || stream->push(token)) && is_interrupted == 0;
    };
    std::optional<BlockTimes> times;
    if (arguments.profile_out) options.times = &times.emplace(model->checkpoint.model.program);
    std::string logits;
    if (arguments.logits) {
        options.on_logits = [&logits](std::int64_t, std::span<float const> row) {
            logits.append(reinterpret_cast<char const*>(row.data()), row.size_bytes());
        };
    }
    // The first interrupt ends the text where it is; a second one ends the program.
    std::signal(SIGINT, [](int) {
        is_interrupted = 1;
        std::signal(SIGINT, SIG_DFL);
    });
    auto report = run_on_threads(source, model->checkpoint.model, {request}, options);
    std::signal(SIGINT, SIG_DFL);
    progress.reset();
    if (!report) return report.error();
    answer.report = *std::move(report);
    if (stream) {
        stream->finish();
        answer.text = stream->text();
    }
    if (times) {
        auto const tokens = request.prompt.size() + answer.report.generations.front().tokens.size();
        auto const written =
            write_run_profile(*arguments.profile_out, answer.model, *times, static_cast<std::int64_t>(tokens));
        if (!written) return written.error();
    }
    if (arguments.logits) {
        if (auto const written = write_file(*arguments.logits, logits); !written) return written.error();
    }
    return answer;
}

}  // namespace

ExitCode run_run(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    if (!arguments.model) {
        return report(Error{ErrorCode::invalid_argument}
                          .in("MODEL")
                          .because("was not given")
                          .fix("name one: shardwise run model.gguf --prompt 'Once upon a time'"),
                      Stage::arguments, arguments.json);
    }
    bool const talks = is_interactive(arguments);
    if (auto const checked = talks ? Result<>{} : check_prompt_flags(arguments); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_profile_out(arguments); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    if (arguments.prompt_ids) {
        auto const ids = read_id_list("--prompt-ids", *arguments.prompt_ids, std::numeric_limits<std::int32_t>::max());
        if (!ids) return report(ids.error(), Stage::arguments, arguments.json);
    }
    auto request = read_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    auto const options = read_options(arguments);
    if (!options) return report(options.error(), Stage::arguments, arguments.json);
    if (talks) {
        auto const model = find_runnable(*arguments.model);
        auto const talked = model ? run_interactive(arguments, *model, *request, *options) : model.error();
        return talked ? ExitCode::done : report(talked.error(), Stage::work, arguments.json);
    }
    auto const answer = answer_run(arguments, *std::move(request), *options);
    if (!answer) return report(answer.error(), Stage::work, arguments.json);
    if (arguments.json) {
        print_text(run_json(*answer));
    } else {
        // Text is out already, ids are not; what was measured is no part of either.
        print_text(answer->text ? std::string_view{"\n"} : run_ids(*answer));
        (void)flush_output();
        std::fputs(run_rates(*answer).c_str(), stderr);
    }
    return ExitCode::done;
}

}  // namespace shardwise::cli
