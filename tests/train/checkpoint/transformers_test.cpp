// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>

#include <doctest/doctest.h>

#include "../../executor/training/training_cases.hpp"
#include "skip.hpp"

#include <cstdlib>
#include <string>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Saves a model of a config, in shards of at most so many bytes.
void save_model(std::string const& config, std::string const& out, std::int64_t shard) {
    TrainedModel trained(config);
    List<OptimizedParameter> parameters;
    for (std::size_t i = 0; i < trained.weights.layout().parameters().size(); ++i)
        parameters.push_back({trained.weights.layout().parameters()[i].name, trained.weights.values(i), true});
    auto optimizer =
        TrainedModel::take(ShardedOptimizer<AdamW>::create(trained.context, AdamW{}, std::move(parameters)));
    auto const layout = TrainedModel::take(CheckpointLayout::create(trained.model(), AdamW{}, shard));
    auto const files = TrainedModel::take(read_checkpoint_files(trained.files.source));
    TrainerState state;
    state.step = 4;
    auto const group = ThreadsGroup::create(1);
    auto comm = group->join(0);
    CheckpointTarget const target{.out = out, .layout = &layout, .files = &files};
    auto const saved = save_checkpoint(*comm, target, state, trained.weights, optimizer);
    REQUIRE_MESSAGE(saved, (saved ? "" : saved.error().message()));
}

}  // namespace

TEST_SUITE("long") {
    TEST_CASE("save_checkpoint: transformers loads the folder of every family as it is, in each dtype and in shards") {
        auto const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr) SHARDWISE_SKIP("SHARDWISE_PYTHON names no Python with torch and transformers");
        auto const run = std::string(python);
        if (std::system((run + " -c 'import torch, transformers' > /dev/null 2>&1").c_str()) != 0)
            SHARDWISE_SKIP("SHARDWISE_PYTHON has no torch or no transformers");
        TemporaryFolder const folder;
        std::string command = run + " " SHARDWISE_SOURCE_DIR "/scripts/check_checkpoint.py";
        std::size_t number = 0;
        for (auto const& one : golden_trainings()) {
            auto const* const dtype = number % 3 == 0 ? "float32" : number % 3 == 1 ? "bfloat16" : "float16";
            auto config = one.config;
            config.insert(1, "\"torch_dtype\":\"" + std::string(dtype) + "\",");
            auto const out = folder / one.name;
            save_model(config, out, number % 4 == 1 ? 20'000 : CheckpointLayout::shard_bytes);
            command += " " + out + "/step-000004";
            ++number;
        }
        CHECK(number > 10);
        CHECK(std::system(command.c_str()) == 0);
    }
}
