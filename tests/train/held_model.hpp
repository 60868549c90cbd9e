// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "pair_sample.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::testing {

[[nodiscard]] inline std::int32_t word_stride() {
    return sampled_count(1, 11);
}

/// What of a base is held in formats of its own: all that may be, products of layers alone, or nothing.
enum class Held : std::uint8_t { all, layers, none };

/// A checkpoint with a new adapter, whose base is held as it is or as `quant` packs it; or in float32.
struct HeldModel {
    ModelSource source;
    Checkpoint checkpoint;
    StoredParameters stored;
    LowRankOptions options{.rank = 4, .alpha = 8.0};
    HostContext context{HostOptions{.threads = 1}};
    std::optional<TrainingProgram> program;
    std::optional<TrainingWeights> weights;

    explicit HeldModel(std::string const& path, Optional<QuantScheme> const& quant = {}, Held what = Held::all)
        : source(TrainedModel::take(find_model(path, {}, HubCache(HubEnvironment{})))),
          checkpoint(TrainedModel::take(read_checkpoint(source))),
          stored(TrainedModel::take(StoredParameters::open(source, checkpoint.model))) {
        if (what != Held::none) options.held = TrainedModel::take(held_products(stored, quant));
        auto const readers = detail::parameter_readers(checkpoint.model);
        for (auto at = options.held.begin(); what == Held::layers && at != options.held.end();)
            at = readers.at(at->first).is_in_layer ? std::next(at) : options.held.erase(at);
        program.emplace(TrainedModel::take(TrainingProgram::create(checkpoint.model, {}, options)));
        weights.emplace(
            TrainedModel::take(TrainingWeights::load(context, stored, {}, program->layout().adapter(), 7, quant)));
        CHECK(context.memory().current() == TrainingWeights::bytes(program->layout()));
    }
    /// The loss of the last of some tokens for each word that may follow; in a sample for some of them.
    [[nodiscard]] std::vector<float> last_losses(std::vector<std::int32_t> const& ids,
                                                 std::int32_t stride = word_stride()) {
        auto const count = static_cast<std::int64_t>(ids.size());
        auto pass = TrainedModel::take(
            TrainingPass::create(context, *program, {.sequences = 1, .context = count}, stored.rope_divisors()));
        auto stream = context.make_stream();
        REQUIRE(pass.forward(*weights, {ids.data(), {1, count}}, stream));
        std::vector<float> out;
        for (std::int32_t word = 0; word < checkpoint.model.config.vocab_size; word += stride) {
            std::vector<std::int32_t> const targets(ids.size(), word);
            std::vector<float> losses(ids.size());
            REQUIRE(pass.losses(*weights, 0, {targets.data(), {count}}, {losses.data(), {count}}, stream));
            REQUIRE(stream.synchronize(soon()));
            out.push_back(losses.back());
        }
        return out;
    }
    [[nodiscard]] CurveData data() const {
        auto ids = golden_tokens(4 * golden_context + 1);
        for (auto& id : ids) id %= static_cast<std::int32_t>(checkpoint.model.config.vocab_size);
        return CurveData(checkpoint.model.config.vocab_size, ids);
    }
    [[nodiscard]] static TrainOptions how(std::int32_t tp = 1, std::int32_t pp = 1) {
        TrainOptions out{.steps = sampled_count(6, 3),
                         .micro_batch = 2,
                         .schedule = {.learning_rate = 3e-3, .warm_up = 2, .total = 20, .floor = 0.1}};
        out.tp = tp;
        out.pp = pp;
        return out;
    }
    /// Losses and norms of some steps with one batch.
    [[nodiscard]] std::vector<TrainedStep> train() {
        return TrainedModel::take(
            train_ranks(context, *program, *weights, AdamW{}, data().batches(), how(), 1, stored.rope_divisors()));
    }
    /// The same of tensor-parallel ranks, of one stage or several, each with its part of the base, in memory that is predicted.
    [[nodiscard]] std::vector<TrainedStep> train_over(std::int32_t ranks, Optional<QuantScheme> const& quant,
                                                      std::int32_t pp = 1) const {
        auto const& model = checkpoint.model;
        auto const& adapter = program->layout().adapter();
        std::vector<TrainedStep> out;
        auto const own_weights = [&](HostContext& own, TrainingPlace const& place) {
            return TrainingWeights::load(own, stored, place, adapter, 7, quant);
        };
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const& layout = trainer.weights().layout();
            // A part of the rows and one of the columns.
            auto const whole = program->layout().held_bytes();
            if (!quant && pp == 1 && !detail::is_packed(adapter.options().held.begin()->second.format))
                CHECK(layout.held_bytes() == whole * 2 / ranks);
            auto const own = TrainingProgram::create(model, layout.place(), adapter.options());
            if (!own) return own.error();
            auto const predicted =
                Trainer<AdamW>::bytes(*own, AdamW{}, trainer.batches().options(), how(ranks, pp),
                                      {trainer.comm().size(), trainer.comm().rank()}, stored.rope_divisors());
            if (!predicted) return predicted.error();
            CHECK(trainer.context().memory().current() == TrainingWeights::bytes(layout) + *predicted);
            auto steps = trainer.run(stream);
            if (!steps) return steps.error();
            if (trainer.comm().rank() == 0) out = *std::move(steps);
            return {};
        };
        HostContext first({.threads = 1});
        auto const done = train_ranks(first, model, own_weights, AdamW{}, data().batches(), how(ranks, pp), ranks * pp,
                                      body, stored.rope_divisors());
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
        return out;
    }
};

}  // namespace shardwise::testing
