// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/core/files/write_file.hpp>
#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/compute_beside.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/session/run_in_group.hpp>
#include <shardwise/session/run_on_threads.hpp>
#include <shardwise/session/trace_json.hpp>

#include "commands.hpp"
#include "degree_flags.hpp"
#include "interactive.hpp"
#include "load_model.hpp"
#include "log_lines.hpp"
#include "model_facts.hpp"
#include "program_signals.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "run_answer.hpp"
#include "run_device_words.hpp"
#include "run_flags.hpp"
#include "run_placement.hpp"
#include "run_profile.hpp"
#include "run_prompt.hpp"
#include "run_ranks.hpp"
#include "values.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// Of each rank: 13 MB, some 300 tokens of 30 layers.
constexpr std::int64_t kept_trace_events = std::int64_t{1} << 17;

/// What a run starts from.
struct RunInput {
    LoadedModel model;
    GenerationRequest request;
    std::optional<Tokenizer> tokenizer;
    std::optional<Adapter> adapter;
};

/// Checks that all tokens that were asked for have a position in the model's context.
[[nodiscard]] Result<> check_context(Arguments const& arguments, GenerationRequest const& request, Model const& model) {
    auto const positions = model.config.max_positions;
    auto const prompt = static_cast<std::int64_t>(request.prompt.size());
    if (positions < 1 || prompt > positions) return {};  // what a prompt alone is too long for, the session says
    // The last token is chosen only.
    bool const has_encoder = model.program.has_encoder();
    auto const first = detail::decoder_prompt(prompt, has_encoder);
    auto const last = first + std::max<std::int64_t>(request.max_new_tokens, 1) - 1;
    if (!arguments.max_new_tokens || last <= positions) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--max-new-tokens")
        .because(has_encoder ? "goes beyond the positions of the model's decoder"
                             : "goes beyond the model's context, the prompt included")
        .got(last)
        .at_most(positions)
        .fix("use at most " + std::to_string(positions - first + 1));
}

[[nodiscard]] Parallelism degrees_of(RunOptions const& options) {
    return {.tp = options.tp, .pp = options.pp, .ep = options.ep};
}

/// The adapter that was asked for; nothing where none was. What stays packed has its products computed beside it.
[[nodiscard]] Result<std::optional<Adapter>> read_adapter(Arguments const& arguments, LoadedModel& model,
                                                          LoadOptions const& load) {
    if (!arguments.adapter && arguments.merge)
        return Error{ErrorCode::invalid_argument}
            .in("--merge")
            .because("is of adapters, and there is none")
            .fix("add --adapter FOLDER");
    if (!arguments.adapter) return std::optional<Adapter>{};
    auto adapter = Adapter::open(*arguments.adapter, model.model);
    if (!adapter) return adapter.error();
    auto const stored = StoredParameters::open(*model.files, model.model);
    if (!stored) return stored.error();
    if (auto const done = compute_beside(*adapter, model.model, *stored, load); !done) return done.error();
    if (auto const beside = adapter->beside(); arguments.merge && !beside.empty())
        return Error{ErrorCode::unsupported}
            .in("--merge")
            .at(beside)
            .because(stored->is_gguf() ? "is of a GGUF file, whose rows an adapter does not have"
                                       : "stays packed as in its file, and an adapter is merged into float weights")
            .fix(stored->is_gguf() ? "leave --merge out, and it is computed beside the weights"
                                   : "leave --merge out, and it is computed beside the weights, or hold them as floats "
                                     "with --dtype bf16");
    return std::optional<Adapter>(*std::move(adapter));
}

/// Reads what describes the model; the prompt on the first rank only.
[[nodiscard]] Result<RunInput> read_input(Arguments const& arguments, GenerationRequest request,
                                          RunOptions const& options, bool is_first) {
    auto model = load_runnable_model(*arguments.model);
    if (!model) return model.error();
    if (auto const fits = check_degrees(model->model, degrees_of(options)); !fits) return fits.error();
    auto adapter = read_adapter(arguments, *model, options.load);
    if (!adapter) return adapter.error();
    auto stops = end_tokens(*model->files);
    if (!stops) return stops.error();
    request.stop_tokens = *std::move(stops);
    std::optional<Tokenizer> tokenizer;
    if (is_first) {
        auto prompt = read_prompt(arguments, *model->files);
        if (!prompt) return prompt.error();
        if (!arguments.stops.empty() && !prompt->tokenizer) {
            return Error{ErrorCode::unsupported}
                .in("--stop")
                .because("needs text, and the model's files have no tokenizer that can be read")
                .fix("leave it out");
        }
        request.stop_strings = arguments.stops;
        request.prompt = std::move(prompt->ids);
        auto const fits = check_context(arguments, request, model->model);
        if (!fits) return fits.error();
        tokenizer = std::move(prompt->tokenizer);
    }
    return RunInput{*std::move(model), std::move(request), std::move(tokenizer), *std::move(adapter)};
}

/// The first interrupt ends the text where it is; a second one ends the program. Ranks that do not print wait for the
/// word of the one that does.
void catch_interrupts(RunRanks& ranks, std::optional<StopRequest>& stop) {
    // Launchers end their ranks by SIGTERM.
    bool const is_launched = ranks.world() != nullptr;
    if (!ranks.is_first()) {
        for (auto const signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
    } else if (is_launched) {
        stop.emplace({SIGINT, SIGTERM});
    } else {
        stop.emplace({SIGINT});
    }
}

/// Says of each rank of which the trace does not have the beginning how many events are missing.
[[nodiscard]] std::vector<std::string> trace_warnings(std::vector<RankTrace> const& traces) {
    std::vector<std::string> warnings;
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
        if (traces[rank].dropped == 0) continue;
        warnings.push_back("--trace has the last " + std::to_string(traces[rank].events.size()) + " events of rank " +
                           std::to_string(rank) + "; " + std::to_string(traces[rank].dropped) +
                           " before them were dropped");
    }
    return warnings;
}

/// Runs this rank, and on the first one shows the text as it comes and writes the files that were asked for.
[[nodiscard]] Result<RunAnswer> generate(Arguments const& arguments, RunInput& input, RunOptions options,
                                         RunRanks& ranks, ColorMode color) {
    RunAnswer answer;
    auto& files = *input.model.files;
    auto const& model = input.model.model;
    answer.model = input.model.name;
    answer.prompt = input.request.prompt;
    answer.devices = options.devices;
    answer.warnings = input.model.warnings;
    if (input.adapter) options.load.adapter = &*input.adapter;
    // Shown until the first token.
    std::optional<Progress> progress;
    std::optional<BlockTimes> times;
    std::string logits;
    if (ranks.is_first()) {
        print_warnings(answer.warnings);
        progress.emplace(color);
        options.load.observer = progress->observer();
        if (arguments.profile_out) options.times = &times.emplace(model.program);
        if (arguments.logits) {
            options.on_logits = [&logits](std::int64_t, std::span<float const> row) {
                logits.append(reinterpret_cast<char const*>(row.data()), row.size_bytes());
            };
        }
    }
    std::optional<RunEnergy> energy;
    if (arguments.monitor && ranks.is_first()) {
        auto started = RunEnergy::start();
        if (!started) return started.error();
        energy.emplace(*std::move(started));
    }
    if (arguments.trace) options.trace_events = kept_trace_events;
    if (input.tokenizer) options.tokenizer = &*input.tokenizer;
    bool has_text = false;
    if (!arguments.json) {
        options.on_text = [&has_text](std::int64_t, std::string_view text) {
            has_text = has_text || !text.empty();
            print_model_text(text);
            (void)flush_output();
        };
    }
    options.on_token = [&progress, &energy](std::int64_t, std::int32_t) {
        progress.reset();
        if (energy) energy->take_token();
        return StopRequest::signal() == 0;
    };
    std::optional<StopRequest> stop;
    catch_interrupts(ranks, stop);
    auto report = ranks.world() != nullptr ? run_in_group(*ranks.world(), files, model, {input.request}, options)
                                           : run_on_threads(files, model, {input.request}, options);
    stop.reset();
    progress.reset();
    if (!report) {
        // What went wrong has a line of its own.
        if (has_text) print_text("\n");
        (void)flush_output();
        return report.error();
    }
    answer.report = *std::move(report);
    if (energy) {
        answer.energy = energy->finish(answer.report.decode_tokens);
        if (!answer.energy->per_token) print_warnings(answer.energy->notes);
    }
    if (input.tokenizer) answer.text = answer.report.generations.front().text;
    if (auto const finished = ranks.finish(); !finished) return finished.error();
    if (times) {
        auto const tokens = answer.prompt.size() + answer.report.generations.front().tokens.size();
        auto const written =
            write_run_profile(*arguments.profile_out, answer.model, *times, static_cast<std::int64_t>(tokens));
        if (!written) return written.error();
    }
    if (arguments.trace && ranks.is_first()) {
        if (auto const written = write_file(*arguments.trace, trace_json(answer.report.traces)); !written)
            return written.error();
        print_warnings(trace_warnings(answer.report.traces));
    }
    if (arguments.logits && ranks.is_first()) {
        if (auto const written = write_file(*arguments.logits, logits); !written) return written.error();
    }
    return answer;
}

/// Joins the other ranks, agrees with them on what is run, and runs it. `placed` is what was read where the stages
/// follow from a placement.
[[nodiscard]] Result<RunAnswer> answer_run(Arguments const& arguments, std::optional<RunInput> placed,
                                           GenerationRequest request, RunOptions options,
                                           std::vector<std::string> const& warnings, RunRanks& ranks, ColorMode color) {
    if (auto const joined = ranks.join(options.timeout); !joined) return joined.error();
    auto input = placed ? Result<RunInput>(*std::move(placed))
                        : read_input(arguments, std::move(request), options, ranks.is_first());
    if (auto* const world = ranks.world()) {
        auto const read = input ? Result<>{} : Result<>{input.error()};
        if (auto const agreed = agree_on(*world, read); !agreed) return agreed.error();
        if (auto const shared = share_ids(*world, input->request.prompt); !shared) return shared.error();
        if (has_placement(arguments)) {
            if (auto const shared = share_placement(arguments, *world, options); !shared) return shared.error();
        }
    }
    if (!input) return input.error();
    // Of what options say, beside those of the model.
    auto& told = input->model.warnings;
    told.insert(told.end(), warnings.begin(), warnings.end());
    if (auto note = long_rotations(input->model.model, input->request, options)) told.push_back(*std::move(note));
    return generate(arguments, *input, options, ranks, color);
}

/// What is wrong with a flag that only the model tells.
[[nodiscard]] Stage stage_of_input(Error const& error) {
    return is_degree_flag(error) ? Stage::arguments : Stage::work;
}

/// A flag that says something impossible is wrong usage.
[[nodiscard]] Stage stage_of(Error const& error) {
    return error.code() == ErrorCode::invalid_argument ? Stage::arguments : Stage::work;
}

/// Checks what does not go together: a conversation has ranks that are threads, a profile layers that stay in memory.
[[nodiscard]] Result<> check_combination(Arguments const& arguments, RunOptions const& options, bool talks,
                                         bool is_group) {
    Error error{ErrorCode::unsupported};
    if (arguments.trace && !has_trace) {
        return error.in("--trace")
            .because("was left out of this program: it was built with SHARDWISE_NO_TRACE")
            .fix("build it without");
    }
    if (arguments.profile_out && has_placement(arguments)) {
        return error.in("--profile-out")
            .because("measures layers where they compute, not those that a placement streams")
            .fix("leave the placement out; --pp cuts the model into stages");
    }
    if (arguments.no_graphs && options.devices.empty()) {
        return error.in("--no-graphs")
            .because("is for devices, and this run computes on the processor")
            .fix("name them: --devices cuda:0");
    }
    if (talks && arguments.monitor) {
        return error.in("--monitor")
            .because("measures one run, not a conversation")
            .fix("give --prompt, or run shardwise monitor beside");
    }
    if (!talks || !is_group) return {};
    return error.in("prompts at a terminal")
        .because("are answered by threads only")
        .fix("give --prompt, or --ranks threads");
}

}  // namespace

ExitCode run_run(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto ranks = RunRanks::find(arguments);
    if (!ranks) return report(ranks.error(), Stage::arguments, arguments.json);
    auto const refuse = [&](Error const& error, Stage stage = Stage::arguments) {
        return report_of_rank(error, stage, *ranks, arguments.json);
    };
    auto const given = check_model_given(arguments, "shardwise run model.gguf --prompt 'Once upon a time'");
    if (!given) return refuse(given.error());
    bool const talks = is_interactive(arguments);
    for (auto const& checked : {talks ? Result<>{} : check_prompt_flags(arguments), check_profile_out(arguments)}) {
        if (!checked) return refuse(checked.error());
    }
    if (arguments.prompt_ids) {
        auto const ids = read_id_list("--prompt-ids", *arguments.prompt_ids, std::numeric_limits<std::int32_t>::max());
        if (!ids) return refuse(ids.error());
    }
    for (auto const* const path : {&arguments.logits, &arguments.profile_out, &arguments.trace}) {
        if (!*path || !ranks->is_first()) continue;
        if (auto const checked = check_output_path(**path); !checked) return refuse(checked.error(), Stage::work);
    }
    auto request = read_request(arguments);
    if (!request) return refuse(request.error());
    std::vector<std::string> warnings;
    auto options = read_run_options(arguments, warnings);
    if (!options) return refuse(options.error());
    // How many ranks a launcher's devices have, the launcher says.
    if (auto const checked = ranks->has_launcher() ? Result<>{} : check_devices_are_used(arguments, *options); !checked)
        return refuse(checked.error());
    if (auto const checked = check_placement_flags(arguments, options->devices); !checked)
        return refuse(checked.error());
    auto const lines = LogLines::from_environment();
    if (!lines) return refuse(lines.error());
    // Before the ranks have met each knows the same of the placement: the first one tells.
    if (ranks->is_first()) options->log = lines->log();
    if (auto const checked = check_combination(arguments, *options, talks, ranks->is_group()); !checked)
        return refuse(checked.error());
    if (auto const used = check_calibration_is_used(arguments, *options, ranks->is_group()); !used)
        return refuse(used.error());
    if (talks) {
        auto model = load_runnable_model(*arguments.model);
        if (!model) return refuse(model.error(), Stage::work);
        if (auto const fits = check_degrees(model->model, degrees_of(*options)); !fits) return refuse(fits.error());
        auto const adapter = read_adapter(arguments, *model, options->load);
        if (!adapter) return refuse(adapter.error(), Stage::work);
        if (*adapter) options->load.adapter = &**adapter;
        options->context = conversation_context(model->model.config);
        if (has_placement(arguments)) {
            auto const limits =
                detail::conversation_limits(model->model.config, *options, options->activations.value_or(Dtype::f32));
            auto const done = place_run(arguments, *model, limits, true, *options);
            if (!done) return refuse(done.error(), stage_of(done.error()));
        }
        warn_of_missing_sums(arguments, *options, warnings);
        model->warnings.insert(model->warnings.end(), warnings.begin(), warnings.end());
        auto const talked = run_interactive(arguments, *model, *request, *options);
        return talked ? ExitCode::done : refuse(talked.error(), Stage::work);
    }
    // How many ranks there are follows from the placement, and that from the prompt.
    std::optional<RunInput> placed;
    if (has_placement(arguments)) {
        auto input = read_input(arguments, *request, *options, true);
        if (!input) return refuse(input.error(), stage_of_input(input.error()));
        auto const limits = detail::limits_for({input->request}, input->model.model, *options,
                                               options->activations.value_or(Dtype::f32));
        auto const done = place_run(arguments, input->model, limits, !ranks->is_group(), *options);
        if (!done) return refuse(done.error(), stage_of(done.error()));
        placed.emplace(*std::move(input));
    }
    options->log = lines->log();
    if (auto const fits = ranks->fit(arguments, *options); !fits) return refuse(fits.error());
    warn_of_missing_sums(arguments, *options, warnings);
    auto const answer =
        answer_run(arguments, std::move(placed), *std::move(request), *options, warnings, *ranks, *color);
    if (!answer) return refuse(answer.error(), stage_of_input(answer.error()));
    if (!ranks->is_first()) return ExitCode::done;
    if (arguments.json) {
        print_text(run_json(*answer));
    } else {
        // Text is out already, ids are not; what was measured is no part of either.
        print_text(answer->text ? std::string_view{"\n"} : run_ids(*answer));
        (void)flush_output();
        std::fputs(run_rates(*answer).c_str(), stderr);
    }
    bool const was_cut = answer->report.generations.front().reason == FinishReason::cancelled;
    return was_cut && StopRequest::signal() != 0 ? stopped_by(StopRequest::signal()) : ExitCode::done;
}

}  // namespace shardwise::cli
