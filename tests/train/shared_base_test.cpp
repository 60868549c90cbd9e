// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/training/weight_shares.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "../executor/written_model.hpp"
#include "held_model.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// How ranks train an adapter, and share its base or hold it in files.
struct Way {
    std::int32_t dp = 1;
    std::int32_t tp = 1;
    std::int32_t pp = 1;
    bool is_shared = false;
    bool is_offloaded = false;
    Recompute recompute = Recompute::none;
    std::int64_t micro_batch = 2;
};

/// Steps of ranks that hold what they say of the base, in the memory and with the traffic that are predicted.
std::vector<TrainedStep> train_over(HeldModel const& single, Way const& way, Optional<QuantScheme> const& quant) {
    TemporaryFolder const folder;
    auto const& adapter = single.program->layout().adapter();
    auto options = HeldModel::how(way.tp, way.pp);
    options.micro_batch = way.micro_batch;
    options.recompute = way.recompute;
    if (way.is_shared) options.zero = ZeroStage::weights;
    options.offloads_all = way.is_offloaded;
    if (way.is_offloaded) options.offload_folder = folder.path();
    auto const own_weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
        return TrainingWeights::load(own, single.stored, place, adapter, 7, quant, storage);
    };
    std::mutex mutex;
    std::vector<TrainedStep> out;
    std::int64_t largest_share = 0;
    auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        auto const& layout = trainer.weights().layout();
        auto const& storage = trainer.weights().storage();
        TensorPlace const place{trainer.comm().size(), trainer.comm().rank()};
        auto const own = TrainingProgram::create(single.checkpoint.model, layout.place(), adapter.options());
        if (!own) return own.error();
        auto const& divisors = single.stored.rope_divisors();
        auto const predicted =
            Trainer<AdamW>::bytes(*own, AdamW{}, trainer.batches().options(), options, place, divisors);
        if (!predicted) return predicted.error();
        auto const weights = TrainingWeights::bytes(layout, storage);
        CHECK(trainer.context().memory().current() == weights + *predicted);
        CHECK(storage.shares.ranks == (way.is_shared ? way.dp : 1));
        CHECK(storage.is_mapped() == way.is_offloaded);
        // No rank has a base of its own, and what it has beside its share are two layers.
        CHECK(trainer.weights().held().products().empty());
        auto traffic = trainer.traffic().total();
        auto steps = trainer.run(stream);
        if (!steps) return steps.error();
        for (std::size_t i = 0; i < steps->size(); ++i)
            traffic += Trainer<AdamW>::traffic(*own, trainer.batches().options(), options, place);
        // Asking whether steps are left.
        CHECK(trainer.traffic().total().bytes == traffic.bytes);
        CHECK(trainer.context().memory().peak() == weights + *predicted);
        std::lock_guard const lock(mutex);
        largest_share = std::max(largest_share, weights.count());
        if (trainer.comm().rank() == 0) out = *std::move(steps);
        return {};
    };
    HostContext first({.threads = 1});
    auto const done = train_ranks(first, single.checkpoint.model, own_weights, AdamW{}, single.data().batches(),
                                  options, way.dp * way.tp * way.pp, body, single.stored.rope_divisors());
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    auto const whole = TrainingWeights::bytes(single.program->layout()).count();
    if (way.is_offloaded && way.tp == 1) CHECK(largest_share == 0);
    // Shares begin at whole blocks of 256 elements, which are many for models as small as these.
    if (way.is_shared && !way.is_offloaded && way.tp * way.pp == 1)
        CHECK(largest_share <= whole / way.dp + 4 * 256 * static_cast<std::int64_t>(single.options.held.size() + 40));
    return out;
}

struct Base {
    std::string path;
    Optional<QuantScheme> quant{};
};

}  // namespace

TEST_CASE(
    "train_ranks: data-parallel ranks that share the base of an adapter, or hold it in files, give the bits of one, in "
    "the predicted memory and traffic") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/";
    FormulaModel const floats(
        R"({"model_type":"llama","vocab_size":601,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64})");
    auto const q8 = parse_quant_scheme("Q8_0-pure");
    REQUIRE(q8);
    for (auto const& base : {Base{floats.folder.path()}, Base{floats.folder.path(), *q8}, Base{root + "packed/nf4"},
                             Base{root + "gguf/llama-q8_0.gguf"}, Base{root + "gguf/gpt2-q8_0.gguf"},
                             Base{root + "gguf/phi3-q8_0.gguf"}, Base{root + "gguf/falcon_groups-bf16.gguf"}}) {
        CAPTURE(base.path);
        HeldModel single(base.path, base.quant);
        auto const expected = single.train();
        std::size_t number = 0;
        for (auto const& way : {Way{.dp = 2, .is_shared = true}, Way{.is_offloaded = true},
                                Way{.dp = 3, .is_shared = true, .recompute = Recompute::full, .micro_batch = 1},
                                Way{.dp = 2, .tp = 2, .is_shared = true}, Way{.tp = 2, .is_offloaded = true},
                                Way{.dp = 2, .pp = 2, .is_shared = true, .recompute = Recompute::selective},
                                Way{.dp = 2, .pp = 2, .is_shared = true, .is_offloaded = true}}) {
            // In a sample one base goes all ways, and the others the first two.
            bool const goes_all = base.path.ends_with("llama-q8_0.gguf") || sampled_count(1, 0) == 1;
            if (number++ >= 2 && !goes_all) continue;
            // Some of these models have one layer.
            if (way.pp > single.checkpoint.model.config.layers) continue;
            CAPTURE(way.dp);
            CAPTURE(way.tp);
            CAPTURE(way.pp);
            CAPTURE(way.is_shared);
            CAPTURE(way.is_offloaded);
            CHECK(train_over(single, way, base.quant) == expected);
        }
    }
}
