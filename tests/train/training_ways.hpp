// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

/// Training on ranks in many ways, each looked at in memory and traffic.
namespace shardwise::testing {

inline constexpr std::int64_t few_steps = 3;

struct Way {
    std::int32_t ranks = 1;
    ZeroStage zero = ZeroStage::none;
    std::int64_t micro_batch = 1;
    int threads = 1;
    Recompute recompute = Recompute::none;
    double dropout = 0.0;
    /// Of the ranks, those that share each layer.
    std::int32_t tp = 1;
    Dtype precision = Dtype::f32;
    /// And those that are stages.
    std::int32_t pp = 1;
    PipelineKind pipeline = PipelineKind::one_forward_one_backward;
    /// Where the optimizer's state lies in a file; empty: in memory.
    std::string offload_folder{};
    /// And weights and gradients there, too.
    bool offloads_all = false;
    /// At which buckets are closed; 0: by the sizes that there are without.
    std::int64_t bucket_bytes = 0;
    /// Whether passes are measured before the first step.
    bool is_measured = false;
    bool is_fast = false;

    [[nodiscard]] std::int32_t replica() const { return tp * pp; }
};

struct Outcome {
    std::vector<TrainedStep> steps;
    std::vector<float> weights;
    double valid = 0.0;

    friend bool operator==(Outcome const&, Outcome const&) = default;
};

[[nodiscard]] inline TrainOptions options_of(Way const& way) {
    return {.steps = few_steps,
            .clip = 0.5,
            .micro_batch = way.micro_batch,
            .recompute = way.recompute,
            .precision = way.precision,
            .dropout = way.dropout,
            .dropout_seed = 11,
            .schedule = {.learning_rate = 3e-3, .warm_up = 1, .total = few_steps, .floor = 0.1},
            .zero = way.zero,
            .buckets = way.bucket_bytes > 0 ? BucketLimits::with_cap(Bytes{way.bucket_bytes}) : BucketLimits{},
            .tp = way.tp,
            .pp = way.pp,
            .pipeline = way.pipeline,
            .offload_folder = way.offload_folder,
            .offloads_all = way.offloads_all,
            .is_fast = way.is_fast};
}

/// Of a rank with some leaves, how many buckets it exchanges in a step before the last backward pass ends: the least and the most.
[[nodiscard]] inline std::pair<std::int64_t, std::int64_t> early_buckets(Way const& way, TrainingProgram const& program,
                                                                         TrainOptions const& options,
                                                                         std::int64_t leaves) {
    auto const plan = shardwise::detail::BucketPlan::create(program, options.buckets);
    if (way.ranks == way.replica() || !plan.has_early()) return {0, 0};
    std::int64_t early = 0, all = 0;
    for (auto const& chunk : plan.chunks) {
        early += static_cast<std::int64_t>(chunk.early());
        all += static_cast<std::int64_t>(chunk.buckets.size());
    }
    if (way.zero >= ZeroStage::gradients && !way.is_fast) return {early * leaves, early * leaves};
    if (plan.chunks.size() == 1) return {early, early};
    // Of several chunks the last goes first, and where that ends first, all of it.
    auto const& last = plan.chunks.back();
    auto const least = way.pipeline == PipelineKind::interleaved ? last.buckets.size() : last.early();
    return {static_cast<std::int64_t>(least), all};
}

/// The weights of all ranks of a replica together, as one rank has them.
inline void put_weights(TrainedModel const& own, std::vector<float>& all) {
    // Each rank writes what is its own, and all the same where they do not share a parameter.
    auto const whole = TrainedModel::take(TrainingLayout::create(own.model()));
    auto const& layout = own.program.layout();
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        auto const& parameter = layout.parameters()[i];
        auto const* const from = own.weights.values(i).data();
        auto const* const halves = own.weights.halves(i).data();
        bool const is_half = own.weights.storage().is_half();
        auto const held = own.weights.shares()[i].own;
        parameter.for_each_run(held, [&](std::int64_t at, std::int64_t mine, std::int64_t count) {
            auto* const to = all.data() + whole.parameters()[parameter.number].begin + at;
            auto const first = mine - held.begin;
            for (std::int64_t k = 0; k < count; ++k)
                to[k] = is_half ? static_cast<float>(halves[first + k]) : from[first + k];
        });
    }
}

/// Three steps of a model on some ranks, looking at each rank's memory and traffic, and the loss of what they did not see.
template <class Rule>
[[nodiscard]] Outcome train(std::string const& config, CurveData const& data, std::int64_t batch, Rule const& rule,
                            Way const& way) {
    auto const options = options_of(way);
    Outcome out;
    std::mutex mutex;
    std::vector<std::vector<float>> replicas;
    auto const body = [&](Threads& thread) -> Result<> {
        bool const is_shared = way.zero == ZeroStage::weights;
        WeightStorage const storage(
            is_shared ? TensorPlace{way.ranks / way.replica(), thread.rank() / way.replica()} : TensorPlace{},
            shardwise::detail::weights_dtype<Rule>, options.weights_folder());
        TrainedModel own(config, way.threads, options.model_place(thread.rank()), storage);
        HostCommunicator comm(std::move(thread));
        TensorPlace const place{comm.size(), comm.rank()};
        CHECK(own.context.memory().current() == TrainingWeights::bytes(own.program.layout(), storage));
        auto const before = own.context.memory().current();
        auto trainer =
            Trainer<Rule>::create(own.context, comm, own.program, own.weights, rule, data.batches(batch), options);
        if (!trainer) return trainer.error();
        auto const& sizes = trainer->batches().options();
        auto const predicted = Trainer<Rule>::bytes(own.program, rule, sizes, options, place);
        REQUIRE(predicted);
        CHECK(own.context.memory().current() - before == *predicted);
        auto stream = own.context.make_stream();
        std::vector<TrainedStep> steps;
        if (way.is_measured) {
            auto const time = trainer->measure(stream);
            if (!time) return time.error();
            CHECK(time->count() > 0);
        }
        auto const early_before = trainer->gradients().early_buckets();
        while (true) {
            auto const taken = trainer->traffic().total();
            auto const step = trainer->step(stream);
            if (!step) return step.error();
            if (!*step) break;
            auto predicted_traffic = Trainer<Rule>::traffic(own.program, sizes, options, place);
            predicted_traffic += taken;
            CHECK(trainer->traffic().total() == predicted_traffic);
            if (auto const* const table = trainer->pipeline_table()) {
                auto const stage = own.program.place().pipeline.stage;
                auto const& row = table->ranks[static_cast<std::size_t>(stage)];
                auto const& record = *trainer->pipeline_record();
                CHECK(std::equal(row.begin(), row.end(), record.slots.begin(), record.slots.end()));
                CHECK(record.max_in_flight == max_in_flight(*table, stage));
                CHECK(record.max_waiting == max_waiting(*table, stage));
            }
            steps.push_back(**step);
        }
        // Those that do not end with the pass itself are exchanged beside it.
        auto const seen = trainer->gradients().early_buckets() - early_before;
        auto const early = early_buckets(way, own.program, options, trainer->gradients().count());
        CHECK(seen >= early.first * few_steps);
        CHECK(seen <= early.second * few_steps);
        CHECK((way.bucket_bytes == 0 || way.pp > 1 || early.first > 0));
        auto const* const layers = trainer->layers();
        bool const shares = is_shared && way.ranks > way.replica();
        if (layers != nullptr && (shares || way.offloads_all) && way.pp == 1 && !way.is_measured) {
            // A layer is fetched while the one before is computed, but for the first of a micro-batch. Ranks that share weights fetch them
            // for those that have one sequence more, too.
            auto const sequences =
                shares ? ceil_divide(batch, std::int64_t{way.ranks / way.replica()}) : trainer->gradients().count();
            auto const passes = ceil_divide(sequences, way.micro_batch);
            auto const& fetched = layers->taken();
            CHECK(fetched.first == few_steps * passes);
            CHECK(fetched.late == 0);
            CHECK(fetched.ahead > fetched.first);
        }
        bool const is_scaled = way.precision == Dtype::f16;
        CHECK(trainer->state() == TrainerPosition{few_steps, {}, is_scaled ? 65536.0 : 0.0, is_scaled ? few_steps : 0});
        CHECK(own.context.memory().current() - before == *predicted);
        auto const held_out = TrainedModel::take(
            Batches::create(*data.dataset, {600, 830}, {.context = golden_context - 3, .batch = 1, .shuffles = false}));
        auto const valid = trainer->validate(held_out, stream);
        if (!valid) return valid.error();
        CHECK(valid->tokens() == held_out.samples() * (golden_context - 3));
        if (comm.rank() == 0) {
            auto const whole = TrainedModel::take(TrainingLayout::create(own.model()));
            out = {steps, std::vector<float>(static_cast<std::size_t>(whole.weight_elements())), valid->mean()};
        }
        if (auto const all = barrier(comm); !all) return all;
        CHECK(steps == out.steps);
        CHECK(valid->mean() == out.valid);
        // Each replica's weights take the place of those before it, which have been looked at.
        for (std::int32_t replica = 0; replica < comm.size() / way.replica(); ++replica) {
            if (comm.rank() / way.replica() == replica) {
                std::lock_guard const lock(mutex);
                put_weights(own, out.weights);
            }
            if (auto const all = barrier(comm); !all) return all;
            // One replica's shares alone are no whole weights.
            if (comm.rank() == 0 && (!is_shared || replica + 1 == comm.size() / way.replica()))
                replicas.push_back(out.weights);
            if (auto const all = barrier(comm); !all) return all;
        }
        return {};
    };
    auto const done = run_threads(way.ranks, body);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    for (auto const& replica : replicas) CHECK(replica == replicas.front());
    return out;
}

/// What ways differ in. Counts above two are alike: what they have in common is that they do not divide evenly.
[[nodiscard]] inline std::vector<std::string> features_of(Way const& way) {
    auto const of = [](char const* name, std::int64_t value) { return name + std::to_string(value); };
    auto const few = [](std::int64_t count) { return std::min(count, std::int64_t{3}); };
    auto const offload = (way.offload_folder.empty() ? 0 : 1) + (way.offloads_all ? 1 : 0);
    return {of("dp ", few(way.ranks / way.replica())),
            of("zero ", static_cast<std::int64_t>(way.zero)),
            of("micro-batch ", few(way.micro_batch)),
            of("threads ", way.threads),
            of("recompute ", static_cast<std::int64_t>(way.recompute)),
            of("dropout ", way.dropout > 0 ? 1 : 0),
            of("tp ", few(way.tp)),
            of("precision ", static_cast<std::int64_t>(way.precision)),
            of("pp ", few(way.pp)),
            of("pipeline ", way.pp > 1 ? static_cast<std::int64_t>(way.pipeline) : -1),
            of("offload ", offload),
            of("buckets ", way.bucket_bytes > 0 ? 1 : 0),
            of("measured ", way.is_measured ? 1 : 0),
            of("fast ", way.is_fast ? 1 : 0)};
}

/// The ways of a case, or a sample of them, against the outcome that all must have.
class WaySample {
public:
    template <class Rule>
    void check(Outcome const& expected, std::string const& config, CurveData const& data, std::int64_t batch,
               Rule const& rule, Way const& way) {
        // Of pairs those of ways alone: each model and each optimizer is there, not each in every way.
        auto const model = std::to_string(std::hash<std::string>{}(config));
        if (!sample_.takes(features_of(way), {"model " + model, std::string("rule ") + typeid(Rule).name()})) return;
        CHECK(train(config, data, batch, rule, way) == expected);
    }

private:
    PairSample sample_{"trainer"};
};

}  // namespace shardwise::testing
