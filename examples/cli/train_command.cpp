// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/calibrate/product_rates.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/hardware/system/system_memory.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "load_model.hpp"
#include "options_file.hpp"
#include "program_signals.hpp"
#include "requests.hpp"
#include "svg_picture.hpp"
#include "text.hpp"
#include "train_adapter.hpp"
#include "train_picture.hpp"
#include "train_plan.hpp"
#include "train_run.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace shardwise::cli {

namespace {

/// A folder for tokens: OUT/tokens, or for a dry run one that is removed.
class TokenFolder {
public:
    /// Errors  file_unwritable
    [[nodiscard]] static Result<TokenFolder> make(TrainRequest const& request) {
        TokenFolder out;
        if (request.is_dry_run) {
            auto name = std::filesystem::temp_directory_path().string() + "/shardwise-XXXXXX";
            if (::mkdtemp(name.data()) == nullptr) return detail::unwritable(name, errno);
            out.path_ = name;
            out.is_removed_ = true;
            return out;
        }
        out.path_ = request.out + "/tokens";
        if (auto const code = detail::make_folders<FileCalls>(out.path_); code != 0)
            return detail::unwritable(request.out, code);
        return out;
    }
    TokenFolder(TokenFolder&& other) noexcept
        : path_(std::move(other.path_)), is_removed_(std::exchange(other.is_removed_, false)) {}
    TokenFolder& operator=(TokenFolder&&) = delete;
    ~TokenFolder() {
        std::error_code ignored;
        if (is_removed_) std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string const& path() const { return path_; }

private:
    TokenFolder() = default;

    std::string path_;
    bool is_removed_ = false;
};

/// A model that has a config.json to write into checkpoints.
[[nodiscard]] Result<LoadedModel> load_trained_model(TrainRequest const& request) {
    auto loaded = load_known_model(request.model);
    if (!loaded) return loaded;
    auto const kind = loaded->files ? loaded->files->source().kind : SourceKind::preset;
    if (kind == SourceKind::config || kind == SourceKind::safetensors) return loaded;
    return Error{ErrorCode::unsupported}
        .in(request.model)
        .because(kind == SourceKind::preset ? "is a preset, which has no config.json and no weights to train"
                                            : "is GGUF, which is not trained")
        .fix("name a folder of safetensors, or a config.json, whose model begins from scratch");
}

[[nodiscard]] std::string reason_of(TrainRequest const& request, TrainPlan const& plan) {
    auto out = plan.dp == 1 ? std::string("one rank") : counted(plan.dp, "data-parallel rank");
    if (plan.tp > 1)
        out = plan.dp == 1 ? counted(plan.tp, "tensor-parallel rank")
                           : out + " of " + counted(plan.tp, "tensor-parallel rank") + " each";
    out += " of " + counted(ceil_divide(request.batch, plan.dp), "sequence") + " a step";
    return out;
}

/// The weights that a run begins with.
[[nodiscard]] Result<TrainingWeights> begin_weights(HostContext& context, TensorPlace const& place,
                                                    TrainRequest const& request, LoadedModel& loaded) {
    if (request.is_from_scratch)
        return TrainingWeights::initialise(context, loaded.model, {.seed = request.seed}, place);
    auto const stored = StoredParameters::open(*loaded.files, loaded.model);
    if (!stored) return stored.error();
    auto const adapter = TrainedAdapter::create(loaded.model, request.low_rank);
    if (!adapter) return adapter.error();
    return TrainingWeights::load(context, *stored, place, *adapter, request.seed);
}

/// The program of each tensor-parallel rank.
///
/// Errors  invalid_argument for --tp beyond what the model can be shared by; as TrainingProgram
[[nodiscard]] Result<std::vector<TrainingProgram>> make_programs(TrainRequest const& request, Model const& model) {
    std::vector<TrainingProgram> out;
    for (std::int64_t rank = 0; rank < request.tp; ++rank) {
        auto program = TrainingProgram::create(model, {request.tp, rank}, request.low_rank);
        if (!program && program.error().subject() == "low-rank adapter") return Error{program.error()}.in("--lora");
        bool const is_flag = !program && program.error().code() == ErrorCode::invalid_argument && request.tp > 1;
        if (is_flag) return Error{program.error()}.in("--tp").at({});
        if (!program) return program.error();
        out.push_back(std::move(*program));
    }
    return out;
}

/// What every checkpoint has beside its weights; --tokenizer's files take the place of the model's.
[[nodiscard]] Result<CheckpointFiles> copied_files(LoadedModel const& loaded, TrainData const& data) {
    auto files = read_checkpoint_files(loaded.files->source());
    if (!files) return files;
    if (!data.tokenizer) return files;
    for (auto const& [name, text] : data.tokenizer->files) files->put(name, text);
    return files;
}

[[nodiscard]] Error does_not_fit(TrainAnswer const& answer) {
    std::string advice;
    for (auto const& fix : answer.fixes) advice += (advice.empty() ? "use " : ", or ") + fix.flags;
    Error error{ErrorCode::out_of_memory};
    error.in("training").needs(total_of(answer.ranks)).has(answer.budget);
    return error.fix(advice.empty() ? std::string("use a smaller model, or a machine with more memory") : advice);
}

/// Measures for a tenth of a second how fast products are here; nothing where that cannot be told.
[[nodiscard]] std::optional<TrainTime> expect_time(TrainRequest const& request, TrainPlan const& plan,
                                                   Model const& model) {
    HostContext context({.threads = request.threads});
    RateProbe const probe{.name = "products", .time = std::chrono::milliseconds(100)};
    auto const rate = measure_product(context, WeightFormat::f32, probe);
    if (!rate) return std::nullopt;
    return TrainTime{step_operations(request, plan, model), rate->operations};
}

/// Reads model and data, plans, and trains.
[[nodiscard]] Result<TrainAnswer> answer_train(TrainRequest request, ColorMode color) {
    auto loaded = load_trained_model(request);
    if (!loaded) return loaded.error();
    auto const& model = loaded->model;
    request.is_from_scratch = request.is_from_scratch || loaded->files->source().kind == SourceKind::config;
    if (request.low_rank.rank > 0 && request.is_from_scratch)
        return Error{ErrorCode::invalid_argument}
            .in("--lora")
            .because("changes a model that is trained already, and this one begins from scratch")
            .fix("name a folder of safetensors");
    if (request.threads == 0) request.threads = detail::default_threads();
    auto const programs = make_programs(request, model);
    if (!programs) return programs.error();
    if (request.tp > 1 && request.optimizer == OptimizerKind::adam8bit)
        return Error{ErrorCode::unsupported}
            .in("--optimizer adam8bit, --tp")
            .because("do not run together yet: tensor-parallel ranks would cut the blocks of its state")
            .fix("use adamw or sgd, or --dp");
    auto divisors = read_rope_divisors(*loaded->files);
    if (!divisors) return divisors.error();

    TrainAnswer answer;
    answer.model = loaded->name;
    answer.parameters = count_parameters(model.tree);
    auto const& layout = programs->front().layout();
    answer.trained = layout.adapter().empty() ? answer.parameters : layout.whole_elements();
    answer.warnings = loaded->warnings;
    auto& plan = answer.plan;
    plan.dp = request.dp;
    plan.tp = request.tp;
    auto const context = context_of(request, model);
    if (!context) return context.error();
    plan.context = *context;
    auto const folder = TokenFolder::make(request);
    if (!folder) return folder.error();
    auto data = read_train_data(request, *loaded->files, model.config.vocab_size, folder->path());
    if (!data) return data.error();
    auto batches = Batches::create(*data->learned, data->learned_tokens, batch_options_of(request, plan));
    if (!batches) return batches.error();
    if (auto const planned = plan_steps(request, batches->batches_per_epoch(), plan); !planned) return planned.error();
    answer.budget = read_system_memory(SystemFiles{}).available;
    if (auto const planned = plan_micro_batch(request, *programs, *divisors, answer.budget, plan); !planned)
        return planned.error();
    plan.reason = reason_of(request, plan);
    auto ranks = predict_memory(request, plan, *programs, *divisors);
    if (!ranks) return ranks.error();
    answer.ranks = *std::move(ranks);
    answer.request = request;
    answer.is_fitting = total_of(answer.ranks) <= answer.budget;
    if (!answer.is_fitting) answer.fixes = find_train_fixes(request, plan, *programs, *divisors, answer.budget);
    plan.traffic = predict_traffic(request, plan, *programs);
    if (request.is_dry_run) {
        answer.expected = expect_time(request, plan, model);
        answer.steps = plan.steps;
        answer.tokens = plan.steps * request.batch * plan.context;
        answer.stopped_by = "dry-run";
        return answer;
    }
    if (!answer.is_fitting) return does_not_fit(answer);
    auto files = copied_files(*loaded, *data);
    if (!files) return files.error();
    if (!layout.adapter().empty()) data->base_hash = put_adapter_config(*files, layout.adapter(), request.model);
    print_warnings(answer.warnings);
    TrainJob const job{.model = &model,
                       .programs = &*programs,
                       .data = &*data,
                       .batches = &*batches,
                       .files = &*files,
                       .divisors = *std::move(divisors),
                       .weights = [&](HostContext& own,
                                      TensorPlace const& place) { return begin_weights(own, place, request, *loaded); },
                       .color = color};
    if (auto const done = run_training(job, answer); !done) return done.error();
    if (request.svg) {
        if (auto const drawn = write_train_picture(*request.svg, answer); !drawn) return drawn.error();
    }
    return answer;
}

}  // namespace

ExitCode run_train(Arguments const& given) {
    auto arguments = given;
    auto const failed = [&](Error const& error, Stage stage) { return report(error, stage, arguments.json); };
    if (arguments.config) {
        auto const taken = take_options_file(*arguments.config, *find_command("train"), arguments);
        if (!taken) return failed(taken.error(), Stage::arguments);
    }
    auto const color = read_color(arguments);
    if (!color) return failed(color.error(), Stage::arguments);
    auto const request = read_train_request(arguments);
    if (!request) return failed(request.error(), Stage::arguments);
    if (auto const checked = check_picture_path(arguments); !checked) return failed(checked.error(), Stage::arguments);
    for (auto const* const path : {&arguments.csv, &arguments.svg}) {
        if (!*path) continue;
        if (auto const checked = check_output_path(**path); !checked) return failed(checked.error(), Stage::work);
    }
    auto const answer = answer_train(*request, *color);
    if (!answer) {
        // What the model or the data say of a flag is wrong usage, too.
        bool const is_flag =
            answer.error().code() == ErrorCode::invalid_argument && answer.error().subject().starts_with("--");
        return failed(answer.error(), is_flag ? Stage::arguments : Stage::work);
    }
    print_text(arguments.json ? train_json(*answer) : train_text(*answer));
    if (!answer->is_fitting) return ExitCode::does_not_fit;
    if (answer->stopped_by.starts_with("SIG")) return stopped_by(StopRequest::signal());
    return ExitCode::done;
}

}  // namespace shardwise::cli
