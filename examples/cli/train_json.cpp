// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/train/buckets.hpp>

#include "choices.hpp"
#include "train_answer.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::cli {

namespace {

template <class T>
void write_optional(JsonWriter& json, std::string_view key, std::optional<T> const& value) {
    json.key(key);
    value ? json.value(*value) : json.value(nullptr);
}

[[nodiscard]] std::string_view mode_of(TrainAnswer const& answer) {
    if (answer.plan.replica() > 1) return "hybrid";
    if (answer.plan.dp == 1) return "single";
    return answer.ranks_are == RankKind::threads ? "data_parallel" : "distributed";
}

void write_plan(JsonWriter& json, TrainAnswer const& answer) {
    auto const& plan = answer.plan;
    json.key("plan").begin_object().member("mode", mode_of(answer));
    json.member("dp", plan.dp).member("tp", plan.tp).member("pp", plan.pp);
    json.member("zero", answer.request.zero);
    json.member("micro_batch", plan.micro_batch).member("micro_batches", plan.micro_batches);
    json.member("reason", plan.reason);
    write_optional(json, "exchange", plan.exchange.empty() ? std::nullopt : std::optional(plan.exchange));
    write_optional(json, "better", plan.better.empty() ? std::nullopt : std::optional(plan.better));
    auto const& fallback = answer.request.fallback;
    write_optional(json, "fallback", fallback.empty() ? std::nullopt : std::optional(fallback));
    json.end_object();
}

/// MiB.
constexpr std::int64_t default_bucket_mb = BucketLimits{}.cap.count() >> 20U;

/// The options of an adapter; null where none is trained.
void write_low_rank(JsonWriter& json, TrainRequest const& request) {
    auto const& low_rank = request.low_rank;
    bool const is_trained = low_rank.rank > 0;
    write_optional(json, "lora", is_trained ? std::optional(low_rank.rank) : std::nullopt);
    write_optional(json, "lora_alpha", is_trained ? std::optional(low_rank.alpha) : std::nullopt);
    json.key("lora_targets");
    if (is_trained) {
        json.begin_array();
        for (auto const& target : low_rank.targets) json.value(target);
        json.end_array();
    } else {
        json.value(nullptr);
    }
    write_optional(json, "lora_dropout", is_trained ? std::optional(low_rank.dropout) : std::nullopt);
    json.member("merge", request.is_merged).key("quant");
    request.quant ? json.value(name_of(*request.quant).view()) : json.value(nullptr);
}

/// All options, those that were not given too.
void write_options(JsonWriter& json, TrainAnswer const& answer) {
    auto const& request = answer.request;
    auto const& plan = answer.plan;
    bool const is_sgd = request.optimizer == OptimizerKind::sgd;
    json.key("options").begin_object().key("data").begin_array();
    for (auto const& path : request.data) json.value(path);
    json.end_array().member("out", request.out).member("from_scratch", request.is_from_scratch);
    write_optional(json, "tokenizer", request.tokenizer);
    write_optional(json, "valid", request.valid);
    write_optional(json, "valid_part", request.valid_part);
    bool const has_validation = request.valid || request.valid_part;
    write_optional(json, "valid_every", has_validation ? std::optional(plan.valid_every) : std::nullopt);
    json.member("context", plan.context).member("batch", request.batch);
    json.member("micro_batch", plan.micro_batch).member("tune", request.is_tuned).member("steps", plan.steps);
    write_optional(json, "epochs", request.steps ? std::nullopt : std::optional(request.epochs));
    json.member("optimizer", train_optimizer_name(request.optimizer)).member("lr", plan.schedule.learning_rate);
    auto const of = [is_sgd](bool is_for_sgd, double value) {
        return is_sgd == is_for_sgd ? std::optional(value) : std::nullopt;
    };
    write_optional(json, "beta1", of(false, request.adamw.beta1));
    write_optional(json, "beta2", of(false, request.adamw.beta2));
    write_optional(json, "epsilon", of(false, request.adamw.epsilon));
    json.member("weight_decay", is_sgd ? request.sgd.weight_decay : request.adamw.weight_decay);
    write_optional(json, "momentum", of(true, request.sgd.momentum));
    json.member("schedule", name_of(plan.schedule.kind)).member("warmup", plan.schedule.warm_up);
    json.member("min_lr", plan.schedule.floor * plan.schedule.learning_rate).member("clip", request.clip.value_or(0.0));
    json.member("precision", traits(request.precision).short_name)
        .member("kahan_sum", request.kahan_sum)
        .member("recompute", recompute_word(request.recompute))
        .member("dropout", request.dropout);
    json.member("seed", static_cast<std::int64_t>(request.seed)).member("mode", mode_of(answer));
    json.member("dp", plan.dp)
        .member("tp", plan.tp)
        .member("pp", plan.pp)
        .member("zero", request.zero)
        .member("offload", words_of<offload_choices>[static_cast<std::size_t>(request.offload)]);
    json.member("pipeline", pipeline_words[static_cast<std::size_t>(request.pipeline)]);
    json.member("bucket_mb", request.bucket_mb.value_or(default_bucket_mb));
    // What these ask for is so without them, too; the order of gradients follows from the model.
    json.member("find_unused", true).member("no_static_graph", false).member("no_bucket_view", true);
    json.member("no_fallback", request.has_no_fallback);
    json.member("fast", request.is_fast)
        .member("ranks", rank_kind_choices[static_cast<std::size_t>(answer.ranks_are)].word);
    json.member("threads", request.threads).member("devices", "cpu");
    write_optional(json, "save_every", request.save_every);
    json.member("keep", request.keep);
    json.member("resume", request.resume.value_or("auto"));
    json.member("timeout", static_cast<std::int64_t>(request.timeout.count()))
        .member("max_restarts", request.max_restarts);
    json.member("min_ranks", request.min_ranks).member("max_skipped", request.max_skipped);
    json.member("check_gradients", request.check_gradients);
    write_low_rank(json, request);
    write_optional(json, "csv", request.csv);
    write_optional(json, "svg", request.svg);
    json.end_object();
}

/// Means of the steps that were taken; null where there was none.
void write_timing(JsonWriter& json, TrainAnswer const& answer) {
    auto const steps = static_cast<double>(answer.steps_here);
    auto const write = [&](std::string_view key, double value) {
        write_optional(json, key, steps > 0.0 ? std::optional(value) : std::nullopt);
    };
    auto const& times = answer.times;
    json.key("timing").begin_object();
    write("step_s", times.step / steps);
    write("tokens_per_s", static_cast<double>(answer.tokens_here) / (times.step > 0.0 ? times.step : 1.0));
    write("compute_s", times.compute / steps);
    write("communication_s", times.communication / steps);
    write("exposed_communication_s", times.exposed / steps);
    write("optimizer_s", times.optimizer / steps);
    write("data_s", times.data / steps);
    write("checkpoint_s", answer.checkpoint_seconds);
    json.end_object();
}

void write_communication(JsonWriter& json, TrainAnswer const& answer) {
    CollectiveTraffic total;
    for (auto const& rank : answer.traffic) {
        total.messages += rank.total().messages;
        total.bytes += rank.total().bytes;
    }
    json.key("communication").begin_object();
    json.member("bytes", total.bytes).member("messages", total.messages).key("by_collective").begin_object();
    for (std::size_t i = 0; i < collective_kinds; ++i) {
        auto const kind = static_cast<CollectiveKind>(i);
        CollectiveTraffic sum;
        for (auto const& rank : answer.traffic) {
            sum.messages += rank.of(kind).messages;
            sum.bytes += rank.of(kind).bytes;
        }
        if (sum.messages == 0) continue;
        json.key(name_of(kind)).begin_object();
        json.member("bytes", sum.bytes).member("messages", sum.messages).end_object();
    }
    json.end_object().member("step_bytes", answer.plan.traffic.bytes);
    json.member("step_messages", answer.plan.traffic.messages).end_object();
}

void write_expected(JsonWriter& json, TrainAnswer const& answer) {
    json.key("expected");
    if (!answer.expected) {
        json.value(nullptr);
        return;
    }
    auto const& time = *answer.expected;
    json.begin_object().member("step_flops", time.operations).member("flops_per_s", time.operations_per_second);
    json.member("step_s", time.seconds()).member("total_s", time.seconds() * static_cast<double>(answer.plan.steps));
    json.end_object();
}

}  // namespace

std::string train_json(TrainAnswer const& answer) {
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.train/1").member("model", answer.model);
    json.key("parameters").begin_object().member("total", answer.parameters);
    json.member("trained", answer.trained).end_object();
    write_plan(json, answer);
    json.member("steps", answer.steps).member("tokens", answer.tokens).key("loss").begin_object();
    write_optional(json, "first", answer.first_loss);
    write_optional(json, "last", answer.last_loss);
    write_optional(json, "valid", answer.valid_loss);
    write_optional(json, "best_valid", answer.best_valid_loss);
    json.end_object().key("weights_hash");
    answer.weights_hash.empty() ? json.value(nullptr) : json.value(answer.weights_hash);
    write_timing(json, answer);
    write_communication(json, answer);
    json.key("memory").begin_object().key("ranks").begin_array();
    for (auto const& rank : answer.ranks) {
        json.begin_object().member("predicted", rank.predicted);
        write_optional(json, "peak", rank.peak);
        json.end_object();
    }
    json.end_array();
    if (answer.program) {
        auto predicted = *answer.program;
        for (std::size_t i = 0; i < answer.ranks.size() && (i == 0 || answer.ranks_are == RankKind::threads); ++i)
            predicted = predicted + answer.ranks[i].predicted;
        json.key("process").begin_object().member("program", *answer.program).member("predicted", predicted);
        write_optional(json, "peak", answer.process_peak);
        json.end_object();
    }
    json.end_object().key("skipped_steps").begin_array();
    for (auto const& step : answer.skipped) {
        json.begin_object().member("step", step.step).key("cause");
        step.cause.empty() ? json.value(nullptr) : json.value(step.cause);
        json.end_object();
    }
    json.end_array().key("restarts").begin_array();
    for (auto const& restart : answer.restarts) {
        json.begin_object();
        write_optional(json, "step", restart.step);
        json.member("ranks", restart.ranks).member("cause", restart.cause);
        write_optional(json, "seconds", restart.seconds);
        json.end_object();
    }
    json.end_array().key("checkpoints").begin_array();
    for (auto const& folder : answer.checkpoints) json.value(folder);
    json.end_array();
    if (!answer.merged.empty()) json.member("merged", answer.merged);
    json.member("stopped_by", answer.stopped_by);
    if (answer.request.is_dry_run) {
        json.member("fits", answer.is_fitting).member("budget", answer.budget).key("fix").begin_array();
        for (auto const& fix : answer.fixes)
            json.begin_object().member("flags", fix.flags).member("bytes", fix.bytes).end_object();
        json.end_array();
        write_expected(json, answer);
    }
    write_options(json, answer);
    json.key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

}  // namespace shardwise::cli
