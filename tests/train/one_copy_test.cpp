// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/estimate_training.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "training_ways.hpp"

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("train_ranks: threads that train one copy of the weights give the bits of one rank, also after a restart") {
    CurveData const data;
    TemporaryFolder const folder;
    auto const config = golden_config("llama_tied");
    for (auto const& way : {Way{.ranks = 1}, Way{.ranks = 2},
                            Way{.ranks = 3, .zero = ZeroStage::gradients, .micro_batch = 2, .dropout = 0.1},
                            Way{.ranks = 3, .offload_folder = folder.path(), .offloads_all = true},
                            Way{.ranks = 5, .zero = ZeroStage::optimizer, .threads = 2, .precision = Dtype::bf16}}) {
        CAPTURE(way.ranks);
        auto alone = way;
        alone.ranks = 1, alone.zero = ZeroStage::none;
        auto const expected = train(config, data, 5, AdamW{}, alone);
        auto options = options_of(way);
        options.has_one_copy = true;
        TrainedModel model(config, way.threads, {}, WeightStorage({}, Dtype::f32, options.weights_folder()));
        auto const layout = TrainedModel::take(CheckpointLayout::create(model.model(), AdamW{}));
        CheckpointFiles const files;
        CheckpointTarget const target{
            .out = folder.path() + std::to_string(way.ranks), .layout = &layout, .files = &files};
        for (std::int64_t const first : {0, 2}) {
            // The second time around every weight is that of a checkpoint.
            if (first > 0) {
                for (std::size_t i = 0; i < model.program.layout().parameters().size(); ++i) {
                    auto const values = model.weights.values(i);
                    std::fill_n(values.data(), values.elements(), 7.0F);
                }
            }
            auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
                CHECK(&trainer.weights() == &model.weights);
                CHECK(trainer.owns_weights() == (trainer.comm().rank() == 0));
                if (first > 0) {
                    auto const loaded = load_checkpoint(target.out + "/" + checkpoint_name(first), layout,
                                                        trainer.weights(), trainer.optimizer(), trainer.owns_weights());
                    if (!loaded) return loaded;
                    if (auto const done = trainer.restore({.step = first}); !done) return done;
                }
                TensorPlace const place{trainer.comm().size(), trainer.comm().rank()};
                auto const sizes = trainer.batches().options();
                auto const estimate = estimate_training(model.program, AdamW{}, sizes, options, place);
                if (!estimate) return estimate.error();
                CHECK((estimate->weights == Bytes{}) == (place.rank > 0 || way.offloads_all));
                for (auto number = first; number < few_steps; ++number) {
                    auto traffic = trainer.traffic().total();
                    auto const step = trainer.step(stream);
                    if (!step) return step.error();
                    traffic += Trainer<AdamW>::traffic(model.program, sizes, options, place);
                    CHECK(trainer.traffic().total() == traffic);
                    CHECK(**step == expected.steps[static_cast<std::size_t>(number)]);
                    if (number + 1 != 2) continue;
                    TrainerState state;
                    state.step = 2;
                    auto const saved =
                        save_checkpoint(trainer.comm(), target, state, trainer.weights(), trainer.optimizer());
                    if (!saved) return saved;
                }
                return {};
            };
            auto const done = train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(5),
                                          options, way.ranks, body);
            REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
            auto const* const weights = model.weights.data();
            CHECK(std::vector<float>(weights, weights + model.program.layout().weight_elements()) == expected.weights);
        }
    }
    // Ranks that have weights of their own would each change a share of them.
    auto options = options_of({});
    options.has_one_copy = true;
    auto const body = [&](Threads& thread) -> Result<> {
        TrainedModel own(config);
        HostCommunicator comm(std::move(thread));
        auto const made =
            Trainer<AdamW>::create(own.context, comm, own.program, own.weights, AdamW{}, data.batches(5), options);
        return made ? Result<>{} : made.error();
    };
    auto const refused = run_threads(2, body);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::collective_mismatch);
    options.tp = 2;
    CHECK_FALSE(options.check());
}
