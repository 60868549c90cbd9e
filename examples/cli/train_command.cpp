// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/hardware/system/process_memory.hpp>
#include <shardwise/hardware/system/system_memory.hpp>
#include <shardwise/model/tree_totals.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "load_model.hpp"
#include "options_file.hpp"
#include "requests.hpp"
#include "run_ranks.hpp"
#include "svg_picture.hpp"
#include "text.hpp"
#include "token_folder.hpp"
#include "train_adapter.hpp"
#include "train_base.hpp"
#include "train_choice.hpp"
#include "train_group.hpp"
#include "train_merge.hpp"
#include "train_picture.hpp"
#include "train_plan.hpp"
#include "train_refusals.hpp"
#include "train_run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// A model that has a config.json to write into checkpoints; of an adapter's base any with weights.
[[nodiscard]] Result<LoadedModel> load_trained_model(TrainRequest const& request) {
    auto loaded = load_known_model(request.model);
    if (!loaded) return loaded;
    auto const kind = loaded->files ? loaded->files->source().kind : SourceKind::preset;
    bool const is_base = request.low_rank.rank > 0 && kind == SourceKind::gguf;
    if (kind == SourceKind::config || kind == SourceKind::safetensors || is_base) return loaded;
    return Error{ErrorCode::unsupported}
        .in(request.model)
        .because(kind == SourceKind::preset ? "is a preset, which has no config.json and no weights to train"
                                            : "is GGUF, whose weights are not trained")
        .fix("name a folder of safetensors, a config.json to begin from scratch, or with --lora R a GGUF file");
}

/// The weights that a run begins with.
[[nodiscard]] Result<TrainingWeights> begin_weights(HostContext& context, TrainingPlace const& place,
                                                    WeightStorage held, TrainRequest const& request,
                                                    LoadedModel& loaded) {
    if (request.is_from_scratch)
        return TrainingWeights::initialise(context, loaded.model, {.seed = request.seed}, place, held);
    auto const stored = StoredParameters::open(*loaded.files, loaded.model);
    if (!stored) return stored.error();
    auto const adapter = TrainedAdapter::create(loaded.model, request.low_rank);
    if (!adapter) return adapter.error();
    return TrainingWeights::load(context, *stored, place, *adapter, request.seed, request.quant, held);
}

/// The program of each rank of a replica.
///
/// Errors  invalid_argument for --tp or --pp beyond what the model can be shared by; as TrainingProgram
[[nodiscard]] Result<std::vector<TrainingProgram>> make_programs(TrainRequest const& request, Model const& model) {
    std::vector<TrainingProgram> out;
    TrainPlan plan;
    plan.tp = request.tp;
    plan.pp = request.pp;
    auto const options = train_options_of(request, plan);
    for (std::int64_t rank = 0; rank < request.tp * request.pp; ++rank) {
        auto program = TrainingProgram::create(model, options.model_place(rank), request.low_rank);
        if (!program && program.error().subject() == "low-rank adapter") return Error{program.error()}.in("--lora");
        bool const is_wrong = !program && program.error().code() == ErrorCode::invalid_argument;
        if (is_wrong && options.tp * options.pp > 1)
            return Error{program.error()}.in(program.error().place() == "pp" ? "--pp" : "--tp").at({});
        if (!program) return program.error();
        out.push_back(std::move(*program));
    }
    return out;
}

[[nodiscard]] Error does_not_fit(TrainAnswer const& answer) {
    std::string advice;
    for (auto const& fix : answer.fixes) advice += (advice.empty() ? "use " : ", or ") + fix.flags;
    Error error{ErrorCode::out_of_memory};
    error.in("training").needs(fullest_of(answer.plan, answer.ranks)).has(answer.budget);
    return error.fix(advice.empty() ? std::string("use a smaller model, or a machine with more memory") : advice);
}

/// What a run is made of, read from files.
struct TrainInput {
    explicit TrainInput(LoadedModel model) : loaded(std::move(model)) {}
    TrainInput(TrainInput const&) = delete;
    TrainInput& operator=(TrainInput const&) = delete;

    LoadedModel loaded;
    /// Of each rank of a replica.
    std::vector<TrainingProgram> programs;
    RopeDivisors divisors;
    std::optional<TokenFolder> folder;
    TrainData data;
};

/// Reads model and data. The defaults of `request` that follow from them are set.
[[nodiscard]] Result<std::unique_ptr<TrainInput>> read_train_input(TrainRequest& request) {
    auto loaded = load_trained_model(request);
    if (!loaded) return loaded.error();
    auto out = std::make_unique<TrainInput>(*std::move(loaded));
    auto& files = *out->loaded.files;
    auto const& model = out->loaded.model;
    request.is_from_scratch = request.is_from_scratch || files.source().kind == SourceKind::config;
    if (auto unused = unused_dropout(files)) out->loaded.warnings.push_back(*std::move(unused));
    if (request.low_rank.rank > 0 && request.is_from_scratch)
        return Error{ErrorCode::invalid_argument}
            .in("--lora")
            .because("changes a model that is trained already, and this one begins from scratch")
            .fix("name a folder of safetensors");
    if (auto const held = hold_base(out->loaded, request.quant, request.low_rank); !held) return held.error();
    if (auto const checked = check_merged(request, files.source()); !checked) return checked.error();
    // What has no gradient is refused before data is read, also where degrees are still to be chosen.
    auto programs = make_programs(request, model);
    if (!programs) return programs.error();
    out->programs = *std::move(programs);
    if (auto const cut = check_cuts(request, out->programs); !cut) return cut.error();
    auto divisors = read_rope_divisors(files);
    if (!divisors) return divisors.error();
    out->divisors = *std::move(divisors);
    auto const context = context_of(request, model);
    if (!context) return context.error();
    request.context = *context;
    auto folder = TokenFolder::make(request);
    if (!folder) return folder.error();
    out->folder.emplace(*std::move(folder));
    auto data = read_train_data(request, files, model.config.vocab_size, out->folder->path());
    if (!data) return data.error();
    out->data = *std::move(data);
    return Result<std::unique_ptr<TrainInput>>(std::move(out));
}

/// Plans a run of what was read, in the memory that is free on its machines.
[[nodiscard]] Result<TrainAnswer> plan_train(TrainRequest const& request, TrainInput const& input,
                                             Batches const& batches, Bytes budget, TrainChoice const& choice,
                                             RankKind ranks_are, bool has_one_thread) {
    TrainAnswer answer;
    answer.ranks_are = ranks_are;
    answer.model = input.loaded.name;
    answer.parameters = count_parameters(input.loaded.model.tree);
    auto const& layout = input.programs.front().layout();
    answer.trained = layout.adapter().empty() ? answer.parameters : layout.whole_elements();
    answer.warnings = input.loaded.warnings;
    auto& plan = answer.plan;
    plan.dp = request.dp;
    plan.tp = request.tp;
    plan.pp = request.pp;
    plan.context = *request.context;
    plan.per_machine = choice.per_machine;
    plan.has_one_copy =
        ranks_are == RankKind::threads && plan.dp > 1 && train_options_of(request, plan).can_share_copy();
    if (auto const planned = plan_steps(request, batches.batches_per_epoch(), plan); !planned) return planned.error();
    answer.budget = budget;
    if (auto const planned = plan_micro_batch(request, input.programs, input.divisors, budget, plan); !planned)
        return planned.error();
    plan.reason = reason_of(request, plan);
    plan.exchange = exchange_of(request, plan, input.programs, has_one_thread);
    plan.better = choice.better;
    auto ranks = predict_memory(request, plan, input.programs, input.divisors);
    if (!ranks) return ranks.error();
    answer.ranks = *std::move(ranks);
    answer.request = request;
    answer.is_fitting = fullest_of(plan, answer.ranks) <= budget;
    if (!answer.is_fitting) answer.fixes = find_train_fixes(request, plan, input.programs, input.divisors, budget);
    plan.traffic = predict_traffic(request, plan, input.programs);
    if (auto const memory = read_process_memory()) answer.program = memory->resident;
    return answer;
}

/// The least of what ranks find free on their machines decides for all.
[[nodiscard]] Result<Bytes> share_budget(RunRanks& ranks, Bytes free) {
    if (ranks.world() == nullptr) return free;
    auto const least = least_of_ranks(*ranks.world(), free.count());
    if (!least) return least.error();
    return Bytes{*least};
}

/// Chooses what --mode auto leaves open, and makes the programs of it.
[[nodiscard]] Result<TrainChoice> choose_for(RunRanks& ranks, TrainRequest& request, TrainInput& input,
                                             Batches const& batches, Bytes budget) {
    TrainChoice out;
    if (ranks.has_launcher()) out.per_machine = std::max<std::int64_t>(1, ranks.local_ranks());
    if (!needs_choice(request)) return out;
    TrainPlan plan;
    plan.context = *request.context;
    if (auto const planned = plan_steps(request, batches.batches_per_epoch(), plan); !planned) return planned.error();
    auto chosen = choose_ranks(ranks, request, plan, input.loaded.model, input.divisors, budget);
    if (!chosen || chosen->has_left) return chosen;
    auto programs = make_programs(request, input.loaded.model);
    if (!programs) return programs.error();
    input.programs = *std::move(programs);
    return chosen;
}

/// Joins the other ranks, where they are processes, and reads what they train. The first rank reads before any other, which find the
/// tokens that it has made.
[[nodiscard]] Result<std::unique_ptr<TrainInput>> read_on_ranks(TrainRequest& request, RunRanks& ranks) {
    auto input = ranks.is_first() ? read_train_input(request) : Result<std::unique_ptr<TrainInput>>(nullptr);
    if (!input || request.is_dry_run) return input;
    if (auto const joined = ranks.join(request.timeout); !joined) {
        if (!request.may_fall_back) return joined.error();
        if (fall_back(ranks, request, joined.error().message()).has_left)
            return Result<std::unique_ptr<TrainInput>>(nullptr);
        return input;
    }
    if (!ranks.is_first()) input = read_train_input(request);
    if (ranks.world() == nullptr) return input;
    auto const read = agree_on(*ranks.world(), input ? Result<>{} : Result<>{input.error()});
    return read ? std::move(input) : Result<std::unique_ptr<TrainInput>>(read.error());
}

/// Reads model and data, plans, and trains; nothing where this rank leaves that to the first.
[[nodiscard]] Result<std::optional<TrainAnswer>> answer_train(TrainRequest request, RunRanks& ranks,
                                                              RestartRecord* restarts, ColorMode color) {
    auto const free = read_system_memory(SystemFiles{}).available;
    auto const asked_threads = request.threads;
    if (request.threads == 0) request.threads = detail::default_threads();
    auto read = read_on_ranks(request, ranks);
    if (!read) return read.error();
    if (*read == nullptr) return std::optional<TrainAnswer>();
    auto& input = **read;
    auto const budget = share_budget(ranks, free);
    if (!budget) return budget.error();
    auto batches =
        Batches::create(*input.data.learned, input.data.learned_tokens,
                        {.context = *request.context, .batch = request.batch, .shuffles = true, .seed = request.seed});
    if (!batches) return batches.error();
    auto const validation = validation_batches(request, input.data, *request.context);
    if (!validation) return validation.error();
    auto const choice = choose_for(ranks, request, input, *batches, *budget);
    if (!choice) return choice.error();
    if (choice->has_left) return std::optional<TrainAnswer>();
    auto planned = plan_train(request, input, *batches, *budget, *choice, ranks.kind(), ranks.has_one_thread());
    if (!planned) return planned.error();
    auto& answer = *planned;
    auto const& adapter = input.programs.front().layout().adapter();
    auto files = copied_files(input.loaded.files->source(), input.data.tokenizer, !adapter.empty());
    if (!files) return files.error();
    put_adapter_config(*files, adapter, request.model);
    if (request.is_dry_run) {
        auto const checked = check_checkpoints(request, input.loaded.model, adapter, *files);
        if (!checked && checked.error().code() != ErrorCode::file_unwritable) return checked.error();
        // The plan may be for another machine.
        if (!checked) answer.warnings.push_back("a run here would be refused: " + checked.error().message());
        print_warnings(answer.warnings);
        answer.expected = expect_time(request, answer.plan, input.loaded.model);
        answer.steps = answer.plan.steps;
        answer.tokens = answer.plan.steps * request.batch * answer.plan.context;
        answer.stopped_by = "dry-run";
        return std::optional(std::move(answer));
    }
    if (!answer.is_fitting) {
        input.folder->undo();
        return does_not_fit(answer);
    }
    if (!request.is_from_scratch) {
        auto hash = hash_of_model(*input.loaded.files);
        if (!hash) return hash.error();
        input.data.model_hash = *std::move(hash);
    }
    auto const sharing =
        asked_threads == 0 && ranks.world() != nullptr ? std::int64_t{ranks.local_ranks()} : answer.plan.ranks();
    TrainJob const job{
        .model = &input.loaded.model,
        .programs = &input.programs,
        .data = &input.data,
        .batches = &*batches,
        .files = &*files,
        .divisors = input.divisors,
        .weights = [&](auto& own, auto const& place,
                       auto const& held) { return begin_weights(own, place, held, request, input.loaded); },
        .color = color,
        .world = ranks.world(),
        .threads = std::max(1, request.threads / static_cast<int>(sharing)),
        .ignores_signals = ranks.is_started() && !ranks.is_first(),
        .restarts = restarts};
    if (job.is_first()) print_warnings(answer.warnings);
    if (auto const done = run_training(job, answer); !done) return done.error();
    if (auto const finished = ranks.finish(); !finished) return finished.error();
    if (request.is_merged && job.is_first()) {
        auto const merged = write_merged_model(input.loaded, input.data.tokenizer, answer);
        if (!merged) return merged.error();
    }
    if (request.svg && job.is_first()) {
        if (auto const drawn = write_train_picture(*request.svg, answer); !drawn) return drawn.error();
    }
    return std::optional(std::move(answer));
}

/// Takes `--mode distributed` as the ranks that it means: where no launcher has started any, this program does.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> choose_distributed(Arguments& arguments) {
    if (!arguments.mode || !equal_ignoring_case(*arguments.mode, "distributed")) return {};
    auto const launched = RunRanks::find(arguments);
    bool const is_launched = launched && launched->is_group() && arguments.ranks != "processes";
    if (!is_launched && !arguments.dp)
        return Error{ErrorCode::invalid_argument}
            .in("--mode distributed")
            .because("does not say how many ranks")
            .fix("add --dp N, or have a launcher start them");
    if (launched && !is_launched) arguments.ranks = "processes";
    return {};
}

}  // namespace

ExitCode run_train(Arguments const& given) {
    auto arguments = given;
    auto const failed = [&](Error const& error, Stage stage) { return report(error, stage, arguments.json); };
    if (arguments.config) {
        auto const taken = take_options_file(*arguments.config, *find_command("train"), arguments);
        if (!taken) return failed(taken.error(), Stage::arguments);
        let_flags_win(given, arguments);
    }
    auto const color = read_color(arguments);
    if (!color) return failed(color.error(), Stage::arguments);
    auto request = read_train_request(arguments);
    if (!request) return failed(request.error(), Stage::arguments);
    if (auto const chosen = choose_distributed(arguments); !chosen) return failed(chosen.error(), Stage::arguments);
    auto ranks = RunRanks::find(arguments);
    if (!ranks) return failed(ranks.error(), Stage::arguments);
    auto record = RestartRecord::find();
    if (record) record->apply(*request);
    resume_own_run(*request, ranks->is_first());
    auto const refuse = [&](Error const& error, Stage stage) {
        if (record && record->take_failure(error)) return static_cast<ExitCode>(RestartRecord::lost);
        return report_of_rank(with_way_on(error, *request, ranks->has_launcher()), stage, *ranks, arguments.json);
    };
    if (auto const fits = ranks->fit(arguments, *request); !fits) return refuse(fits.error(), Stage::arguments);
    for (auto const& checked : {check_picture_path(arguments), check_train_ranks(*request, *ranks)}) {
        if (!checked) return refuse(checked.error(), Stage::arguments);
    }
    for (auto const* const path : {&arguments.csv, &arguments.svg}) {
        if (!*path || !ranks->is_first()) continue;
        if (auto const checked = check_output_path(**path); !checked) return refuse(checked.error(), Stage::work);
    }
    // The first rank plans for all.
    if (request->is_dry_run && !ranks->is_first()) return ExitCode::done;
    if (request->max_restarts > 0 && !record && !request->is_dry_run) {
        auto const ended = run_with_restarts(*request, !ranks->is_group());
        return ended ? *ended : failed(ended.error(), Stage::work);
    }
    if (!request->fallback.empty())
        std::fprintf(stderr, "shardwise: trains on the host: %s\n", request->fallback.c_str());
    auto const done = answer_train(*request, *ranks, record ? &*record : nullptr, *color);
    if (!done) {
        // What the model or the data say of a flag is wrong usage, too.
        bool const is_flag =
            done.error().code() == ErrorCode::invalid_argument && done.error().subject().starts_with("--");
        return refuse(done.error(), is_flag ? Stage::arguments : Stage::work);
    }
    auto const& answer = *done;
    if (!answer || !ranks->is_first()) return ExitCode::done;
    if (record) record->finish();
    print_text(arguments.json ? train_json(*answer) : train_text(*answer));
    if (!answer->is_fitting) return ExitCode::does_not_fit;
    if (answer->stopped_by.starts_with("SIG")) return stopped_by(answer->signal);
    return ExitCode::done;
}

}  // namespace shardwise::cli
