// SPDX-License-Identifier: Apache-2.0
#include "train_plan.hpp"

#include <shardwise/backend/host/products.hpp>
#include <shardwise/calibrate/host_timer.hpp>
#include <shardwise/calibrate/product_rates.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/cost/block_work.hpp>
#include <shardwise/train/choose_training.hpp>
#include <shardwise/train/detail/check_cut.hpp>
#include <shardwise/train/estimate_training.hpp>

#include "choices.hpp"
#include "estimate_answer.hpp"
#include "text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

namespace shardwise::cli {

namespace {

constexpr std::int64_t validations = 10;
/// wsd falls in the last fifth of a run.
constexpr std::int64_t wsd_parts = 5;

[[nodiscard]] std::int64_t max_sequences(TrainRequest const& request, TrainPlan const& plan) {
    return ceil_divide(request.batch, plan.dp);
}

}  // namespace

void set_micro_batch(TrainRequest const& request, std::int64_t size, TrainPlan& plan) {
    plan.micro_batch = size;
    plan.micro_batches = ceil_divide(max_sequences(request, plan), size);
}

TrainOptions train_options_of(TrainRequest const& request, TrainPlan const& plan) {
    TrainOptions options;
    options.steps = plan.steps;
    options.clip = request.clip;
    options.micro_batch = plan.micro_batch;
    options.recompute = request.recompute;
    options.precision = request.precision;
    options.dropout = request.dropout;
    options.dropout_seed = request.seed;
    options.schedule = plan.schedule;
    options.zero = static_cast<ZeroStage>(request.zero);
    options.has_one_copy = plan.has_one_copy;
    if (request.bucket_mb) options.buckets = BucketLimits::with_cap(Bytes{*request.bucket_mb << 20U});
    options.tp = static_cast<std::int32_t>(plan.tp);
    options.pp = static_cast<std::int32_t>(plan.pp);
    options.pipeline = request.pipeline;
    if (request.offload != Offload::none) options.offload_folder = request.out;
    options.offloads_all = request.offload == Offload::all;
    options.is_fast = request.is_fast;
    options.check_every = request.check_gradients;
    options.max_skipped = request.max_skipped;
    options.timeout = request.timeout;
    return options;
}

std::string reason_of(TrainRequest const& request, TrainPlan const& plan) {
    auto out = plan.dp == 1 ? std::string("one rank") : counted(plan.dp, "data-parallel rank");
    if (plan.tp > 1)
        out = plan.dp == 1 ? counted(plan.tp, "tensor-parallel rank")
                           : out + " of " + counted(plan.tp, "tensor-parallel rank") + " each";
    if (plan.pp > 1) out += (plan.tp > 1 ? " in each of " : plan.dp > 1 ? " of " : " in ") + counted(plan.pp, "stage");
    out += " of " + counted(ceil_divide(request.batch, plan.dp), "sequence") + " a step";
    if (request.is_auto && request.zero > 0 && !request.pins.zero)
        out += "; ZeRO " + std::to_string(request.zero) + ", the fastest that fits";
    return out;
}

std::string exchange_of(TrainRequest const& request, TrainPlan const& plan,
                        std::vector<TrainingProgram> const& programs, bool has_one_thread) {
    if (plan.dp == 1) return {};
    auto const options = train_options_of(request, plan);
    if (has_one_thread && !options.is_replicated())
        return "after backward passes: over MPI and Gloo one thread of a rank at a time exchanges, and passes with " +
               std::string(plan.tp > 1   ? "--tp"
                           : plan.pp > 1 ? "--pp"
                                         : "--zero 3") +
               " do so, too";
    bool const has_early = std::any_of(programs.begin(), programs.end(), [&](TrainingProgram const& program) {
        return detail::BucketPlan::create(program, options.buckets).has_early();
    });
    return has_early ? "beside backward passes"
                     : "after backward passes: none of these buckets is whole before a pass ends (--bucket-mb)";
}

Result<> check_cuts(TrainRequest const& request, std::vector<TrainingProgram> const& programs) {
    for (auto const& program : programs) {
        auto const cut =
            with_rule(request, [&](auto const& rule) { return detail::check_cut(rule, program.layout()); });
        if (!cut)
            return Error{cut.error()}.in("--optimizer " + std::string(train_optimizer_name(request.optimizer)) +
                                         ", --tp");
    }
    return {};
}

BatchOptions batch_options_of(TrainRequest const& request, TrainPlan const& plan) {
    return {.context = plan.context, .batch = request.batch, .shuffles = true, .seed = request.seed};
}

Result<std::int64_t> context_of(TrainRequest const& request, Model const& model) {
    auto const most = model.config.max_positions;
    if (!request.context) return BatchOptions::default_context(most);
    if (most <= 0 || *request.context <= most) return *request.context;
    return Error{ErrorCode::invalid_argument}
        .in("--context")
        .because("goes beyond the positions that the model has")
        .got(*request.context)
        .at_most(most);
}

Result<> plan_steps(TrainRequest const& request, std::int64_t batches_per_epoch, TrainPlan& plan) {
    auto const of_epochs = std::floor(static_cast<double>(batches_per_epoch) * request.epochs);
    constexpr double most = 1e15;
    plan.steps = request.steps ? *request.steps : static_cast<std::int64_t>(std::min(of_epochs, most));
    if (plan.steps < 1)
        return Error{ErrorCode::invalid_argument}
            .in("--epochs")
            .because("is less than one step of the data")
            .fix("give more, or --steps");
    plan.schedule = request.schedule;
    plan.schedule.total = plan.steps;
    if (plan.schedule.warm_up > plan.steps)
        return Error{ErrorCode::invalid_argument}
            .in("--warmup")
            .because("takes longer than the whole run")
            .got(plan.schedule.warm_up)
            .at_most(plan.steps);
    if (plan.schedule.kind == ScheduleKind::wsd)
        plan.schedule.decay = std::min(plan.steps / wsd_parts, plan.steps - plan.schedule.warm_up);
    plan.valid_every = request.valid_every.value_or(ceil_divide(plan.steps, validations));
    return {};
}

WeightStorage storage_of(TrainRequest const& request, TrainPlan const& plan, std::int64_t rank) {
    return {request.zero == 3 ? TensorPlace{plan.dp, rank / plan.replica()} : TensorPlace{},
            request.kahan_sum ? Dtype::bf16 : Dtype::f32,
            request.offload == Offload::all ? request.out : std::string()};
}

bool saves_beside(TrainRequest const& request, TrainPlan const& plan) {
    // A copy would take the memory that offloading saves.
    return request.save_every && *request.save_every < plan.steps && request.offload != Offload::all;
}

Result<std::vector<TrainRankMemory>> predict_memory(TrainRequest const& request, TrainPlan const& plan,
                                                    std::vector<TrainingProgram> const& programs,
                                                    RopeDivisors const& divisors) {
    std::vector<TrainRankMemory> out;
    for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
        TensorPlace const place{plan.ranks(), rank};
        auto const& program = programs[static_cast<std::size_t>(rank % plan.replica())];
        auto const estimate = with_rule(request, [&](auto const& rule) {
            return estimate_training(program, rule, batch_options_of(request, plan), train_options_of(request, plan),
                                     place, saves_beside(request, plan), divisors);
        });
        if (!estimate) return estimate.error();
        out.push_back({estimate->total(), {}});
    }
    return out;
}

std::string training_refusal(LoadedModel const& loaded, EstimateRequest const& request, bool has_adapter) {
    auto const& plan = *request.training;
    if (request.parallel.ep > 1 || request.parallel.sequence_parallel)
        return "it has data- and tensor-parallel ranks and stages alone";
    if (plan.attention == AttentionKind::eager && plan.recompute == Recompute::none)
        return "its attention never keeps the matrix of probabilities";
    bool const is_gguf = loaded.files && loaded.files->source().kind == SourceKind::gguf;
    if (!has_adapter && (request.quant || loaded.model.config.quant || is_gguf))
        return "packed weights and GGUF files are trained with an adapter alone";
    return {};
}

TrainOptions train_options_of(EstimateRequest const& request) {
    auto const& plan = *request.training;
    TrainOptions options;
    options.micro_batch = micro_batch_of(request).batch;
    options.zero = static_cast<ZeroStage>(plan.zero);
    options.recompute = plan.recompute;
    options.tp = static_cast<std::int32_t>(request.parallel.tp);
    options.pp = static_cast<std::int32_t>(request.parallel.pp);
    // Where the state's file lies changes no size.
    if (plan.offload != Offload::none) options.offload_folder = ".";
    options.offloads_all = plan.offload == Offload::all;
    // Without a dtype layers compute in fp32, whatever dtype the checkpoint has.
    options.precision = request.dtype.value_or(Dtype::f32);
    return options;
}

std::optional<TrainedEstimate> estimate_trained(LoadedModel const& loaded, EstimateRequest const& request,
                                                std::int64_t context, LowRankOptions const& low_rank) {
    if (!request.training || request.training->convention != MemoryConvention::shardwise) return std::nullopt;
    auto const& model = loaded.model;
    auto const& plan = *request.training;
    auto const& degrees = request.parallel;
    TrainedEstimate out;
    auto const refuse = [&](std::string reason) {
        out.refusal = std::move(reason);
        out.ranks.clear();
        return out;
    };
    if (auto reason = training_refusal(loaded, request, low_rank.rank > 0); !reason.empty())
        return refuse(std::move(reason));
    auto const options = train_options_of(request);
    if (auto const checked = options.check(); !checked) return refuse(checked.error().message());
    // A batch that passes whole fills the pipeline once.
    auto const filled = request.micro_batches > 0 ? 1 : degrees.pp;
    BatchOptions const batch{.context = context, .batch = request.batch * degrees.dp * filled};
    auto const replica = degrees.tp * degrees.pp;
    std::vector<TrainingProgram> programs;
    for (std::int64_t rank = 0; rank < replica; ++rank) {
        auto program = TrainingProgram::create(model, options.model_place(rank), low_rank);
        if (!program) return refuse(program.error().message());
        programs.push_back(std::move(*program));
    }
    auto const& layout = programs.front().layout();
    out.parameters = layout.adapter().empty() ? count_parameters(model.tree) : layout.whole_elements();
    for (std::int64_t rank = 0; rank < degrees.dp * replica; ++rank) {
        auto const& program = programs[static_cast<std::size_t>(rank % replica)];
        auto const count = [&](auto const& rule) -> Result<TrainingEstimate> {
            if (auto const cut = detail::check_cut(rule, program.layout()); !cut) return cut.error();
            return estimate_training(program, rule, batch, options, {degrees.dp * replica, rank},
                                     !options.offloads_all);
        };
        auto const estimate = with_counted_rule(plan.optimizer, count);
        if (!estimate) return refuse(estimate.error().message());
        out.ranks.push_back(*estimate);
    }
    return out;
}

void count_as_trained(TrainedEstimate const& trained, Parallelism const& parallel, MemoryEstimate& estimate) {
    if (!trained.refusal.empty() || trained.ranks.size() != estimate.devices.size()) return;
    estimate.terms = {};
    estimate.host = Bytes{};
    for (auto& device : estimate.devices) {
        auto const& at = device.place;
        // The trainer's ranks: tensor-parallel ones next to each other, then stages, then replicas.
        auto const& rank = trained.ranks[static_cast<std::size_t>((at.dp * parallel.pp + at.pp) * parallel.tp + at.tp)];
        auto const& parts = rank.trainer;
        device.terms = {.weights = rank.weights + parts.gathered,
                        .activations = parts.activations + parts.batch + parts.stages,
                        .gradients = parts.gradients,
                        .optimizer = parts.optimizer,
                        .overhead = rank.staging};
        device.communication = Bytes{};
        device.phases = {device.terms.activations, device.terms.activations};
        // Offloaded states lie in files.
        device.host = Bytes{};
        estimate.terms += device.terms;
    }
    estimate.total = estimate.terms.total();
    // Tables of frequencies and positions are among the activations.
    estimate.transient_buffers = Bytes{};
    AssumptionSet kept;
    for (auto const assumption : estimate.assumptions) {
        bool const is_of_others =
            assumption == Assumption::runtime_overhead || assumption == Assumption::mixed_precision_copy ||
            assumption == Assumption::blocked_attention || assumption == Assumption::saved_by_operators ||
            assumption == Assumption::working_layer || assumption == Assumption::transient_buffers ||
            assumption == Assumption::whole_prefill || assumption == Assumption::chunked_prefill;
        if (!is_of_others) kept.insert(assumption);
    }
    kept.insert(Assumption::counted_as_trained);
    estimate.assumptions = kept;
}

CollectiveTraffic predict_traffic(TrainRequest const& request, TrainPlan const& plan,
                                  std::vector<TrainingProgram> const& programs) {
    CollectiveTraffic sum;
    for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
        TensorPlace const place{plan.ranks(), rank};
        auto const& program = programs[static_cast<std::size_t>(rank % plan.replica())];
        sum += with_rule(request, [&](auto const& rule) {
            return Trainer<std::decay_t<decltype(rule)>>::traffic(program, batch_options_of(request, plan),
                                                                  train_options_of(request, plan), place);
        });
    }
    return sum;
}

double step_operations(TrainRequest const& request, TrainPlan const& plan, Model const& model) {
    Step const step{.batch = request.batch,
                    .new_tokens = plan.context,
                    .context = plan.context,
                    .dtype = Dtype::f32,
                    .kv_dtype = Dtype::f32,
                    .is_training = true};
    double sum = 0.0;
    for (auto const& block : model.program.blocks())
        sum += static_cast<double>(block.count) * block_work(model.program.body(block), step).flops;
    // Of each product of the forward pass, the backward pass has two; of a frozen one that of its inputs alone.
    return (request.low_rank.rank > 0 ? 2.0 : 3.0) * sum;
}

std::optional<TrainTime> expect_time(TrainRequest const& request, TrainPlan const& plan, Model const& model) {
    HostContext context({.threads = request.threads});
    RateProbe const probe{.name = "products", .time = std::chrono::milliseconds(100)};
    HostTimer timer(context);
    auto const rate = measure_product(timer, WeightFormat::f32, probe);
    if (!rate) return std::nullopt;
    auto const machines = plan.per_machine > 0 ? ceil_divide(plan.ranks(), plan.per_machine) : 1;
    return TrainTime{step_operations(request, plan, model), rate->operations, machines};
}

Bytes fullest_of(TrainPlan const& plan, std::vector<TrainRankMemory> const& ranks) {
    Bytes most{};
    Bytes sum{};
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (plan.per_machine > 0 && static_cast<std::int64_t>(rank) % plan.per_machine == 0) sum = Bytes{0};
        sum = sum + ranks[rank].predicted;
        most = std::max(most, sum);
    }
    return most;
}

Result<> plan_micro_batch(TrainRequest const& request, std::vector<TrainingProgram> const& programs,
                          RopeDivisors const& divisors, Bytes budget, TrainPlan& plan) {
    auto const all = max_sequences(request, plan);
    auto const most = max_micro_batch(request.batch, plan.dp, plan.pp);
    if (request.micro_batch) {
        set_micro_batch(request, std::min(*request.micro_batch, all), plan);
        return {};
    }
    auto const found = largest(most, [&](std::int64_t size) -> Result<bool> {
        auto tried = plan;
        set_micro_batch(request, size, tried);
        auto const ranks = predict_memory(request, tried, programs, divisors);
        if (!ranks) return ranks.error();
        return fullest_of(plan, *ranks) <= budget;
    });
    if (!found) return found.error();
    set_micro_batch(request, std::max<std::int64_t>(1, *found), plan);
    return {};
}

Result<> replan_micro_batch(std::vector<TrainingProgram> const& programs, RopeDivisors const& divisors,
                            std::int64_t size, TrainAnswer& answer) {
    set_micro_batch(answer.request, size, answer.plan);
    auto ranks = predict_memory(answer.request, answer.plan, programs, divisors);
    if (!ranks) return ranks.error();
    answer.ranks = *std::move(ranks);
    answer.plan.traffic = predict_traffic(answer.request, answer.plan, programs);
    return {};
}

}  // namespace shardwise::cli
