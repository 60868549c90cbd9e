// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>
#include <shardwise/train/checkpoint/run_settings.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/trainer.hpp>

#include <doctest/doctest.h>

#include "../../executor/training/training_cases.hpp"
#include "../ranks.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// A small run that is trained on one rank, and its checkpoints.
namespace shardwise::testing {

inline constexpr std::int64_t run_context = 12;
inline constexpr std::int64_t run_steps = 20;

[[nodiscard]] inline std::string run_config(std::string_view dtype, std::int64_t layers = 1) {
    return R"({"vocab_size":97,"hidden_size":32,"intermediate_size":40,"num_attention_heads":4,)"
           R"("num_hidden_layers":)" +
           std::to_string(layers) + (layers > 1 ? R"(,"tie_word_embeddings":true,)" : ",") +
           R"("num_key_value_heads":2,"max_position_embeddings":64,"model_type":"llama","dtype":")" +
           std::string(dtype) + R"(","architectures":["LlamaForCausalLM"]})";
}

/// All files of a folder by their names; folders within are not looked at.
[[nodiscard]] inline std::map<std::string, std::string> files_of(std::string const& folder) {
    std::map<std::string, std::string> out;
    for (auto const& name : shardwise::detail::entries_of(folder)) {
        auto const text = read_text_file(folder + "/" + name, std::size_t{1} << 30U);
        if (text) out[name] = *text;
    }
    return out;
}

/// Flips a bit of a file.
inline void flip_bit(std::string const& path, std::size_t byte, unsigned bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(byte));
    auto const before = static_cast<unsigned char>(file.get());
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(static_cast<char>(before ^ (1U << bit)));
}

/// A model with its data and its trainer, ready for the first step.
template <class Rule>
struct SmallRun {
    std::string config;
    TrainedModel trained;
    Rule rule;
    std::optional<TokenDataset> dataset;
    std::optional<Batches> batches;
    std::optional<HostCommunicator> alone;
    std::optional<Trainer<Rule>> trainer;
    std::optional<CheckpointLayout> layout;
    CheckpointFiles files;
    RunSettings settings;

    explicit SmallRun(std::string_view dtype = "float32", Rule const& of = {}, std::int64_t layers = 1)
        : SmallRun(run_config(dtype, layers), of) {}
    SmallRun(std::string of, Rule const& by)
        : config(std::move(of)), trained(config, 1, {}, {{}, shardwise::detail::weights_dtype<Rule>}), rule(by) {
        std::string bytes;
        auto const vocabulary = trained.model().config.vocab_size;
        for (auto const id : golden_tokens(40 * run_context + 1)) bytes += {static_cast<char>(id % vocabulary), '\0'};
        std::vector<TokenFile> tokens;
        tokens.push_back(TrainedModel::take(TokenFile::open(trained.files.folder.write("run.u16", bytes))));
        dataset.emplace(TrainedModel::take(TokenDataset::create(std::move(tokens), vocabulary)));
        BatchOptions const batch{.context = run_context, .batch = 3, .seed = 5};
        batches.emplace(TrainedModel::take(Batches::create(*dataset, {0, dataset->tokens()}, batch)));
        TrainOptions const options{.steps = run_steps,
                                   .schedule = {.learning_rate = 3e-3, .warm_up = 3, .total = run_steps, .floor = 0.1}};
        alone.emplace(TrainedModel::take(ThreadsGroup::create(1)->join(0)));
        trainer.emplace(TrainedModel::take(
            Trainer<Rule>::create(trained.context, *alone, trained.program, trained.weights, rule, *batches, options)));
        layout.emplace(TrainedModel::take(CheckpointLayout::create(trained.model(), rule)));
        files = TrainedModel::take(read_checkpoint_files(trained.files.source));
        add_settings(settings, rule);
        add_settings(settings, options.schedule);
        add_settings(settings, batch);
        settings.add("clip", options.clip);
    }
    SmallRun(SmallRun const&) = delete;
    SmallRun& operator=(SmallRun const&) = delete;

    /// Runs the steps from `first` to before `end`; the losses.
    std::vector<double> train(std::int64_t first, std::int64_t end) {
        auto stream = trained.context.make_stream();
        std::vector<double> losses;
        TrainerPosition position;
        position.step = first;
        REQUIRE(trainer->restore(position));
        for (auto step = first; step < end; ++step) losses.push_back(TrainedModel::take(trainer->step(stream))->loss);
        return losses;
    }
    [[nodiscard]] TrainerState state(std::int64_t step) const {
        TrainerState out;
        out.step = out.updates = step;
        out.position = step * 3;
        out.tokens = out.position * run_context;
        out.seed = 5;
        out.settings = settings;
        return out;
    }
    [[nodiscard]] CheckpointTarget target(std::string const& out, std::int64_t keep = 2) const {
        return {.out = out, .layout = &*layout, .files = &files, .keep = keep};
    }
    template <class Calls = FileCalls>
    [[nodiscard]] Result<> save(std::string const& out, std::int64_t step, std::int64_t keep = 2) {
        auto const group = ThreadsGroup::create(1);
        auto comm = group->join(0);
        return save_checkpoint<Calls>(*comm, target(out, keep), state(step), trained.weights, trainer->optimizer());
    }
    [[nodiscard]] Result<ResumePoint> newest(std::string const& out) const {
        return newest_checkpoint(out, *layout, files, settings);
    }
    /// Takes weights and state of a checkpoint.
    void load(std::string const& folder) {
        auto const loaded = load_checkpoint(folder, *layout, trained.weights, trainer->optimizer());
        REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message()));
    }
    /// All weights and all of the optimizer's state.
    [[nodiscard]] std::string bits() {
        std::string out;
        for (std::size_t i = 0; i < trained.weights.layout().parameters().size(); ++i) {
            auto const values = trained.weights.values(i);
            out.append(reinterpret_cast<char const*>(values.data()),
                       static_cast<std::size_t>(values.elements()) * sizeof(float));
            for (std::size_t array = 0; array < trainer->optimizer().state(i).count; ++array) {
                auto const memory = trainer->optimizer().state_memory(i, array);
                out.append(reinterpret_cast<char const*>(memory.data()), memory.size());
            }
        }
        return out;
    }
};

/// Ranks of which `tp` neighbours share each layer, and `pp` stages the layers.
struct Ranks {
    std::int32_t all = 1;
    std::int32_t tp = 1;
    ZeroStage zero = ZeroStage::none;
    std::int32_t pp = 1;
    PipelineKind pipeline = PipelineKind::one_forward_one_backward;
};

/// Goes on from a checkpoint, or begins, takes the steps before `end` and saves: the files.
template <class Rule>
std::map<std::string, std::string> trained_by(SmallRun<Rule>& run, Ranks const& ranks, std::string const& from,
                                              std::int64_t first, std::int64_t end) {
    TemporaryFolder const out;
    auto const target = run.target(out.path());
    auto options = run.trainer->options();
    options.tp = ranks.tp;
    options.zero = ranks.zero;
    options.pp = ranks.pp;
    options.pipeline = ranks.pipeline;
    auto const body = [&](Threads& thread) -> Result<> {
        auto const replica = ranks.tp * ranks.pp;
        WeightStorage const storage(ranks.zero == ZeroStage::weights
                                        ? TensorPlace{ranks.all / replica, thread.rank() / replica}
                                        : TensorPlace{},
                                    shardwise::detail::weights_dtype<Rule>);
        TrainedModel own(run.config, 1, options.model_place(thread.rank()), storage);
        HostCommunicator comm(std::move(thread));
        auto trainer =
            Trainer<Rule>::create(own.context, comm, own.program, own.weights, run.rule, *run.batches, options);
        if (!trainer) return trainer.error();
        if (!from.empty()) {
            auto const loaded = load_checkpoint(from, *run.layout, own.weights, trainer->optimizer());
            if (!loaded) return loaded;
        }
        TrainerPosition position;
        position.step = first;
        if (auto const restored = trainer->restore(position); !restored) return restored;
        auto stream = own.context.make_stream();
        for (auto step = first; step < end; ++step) {
            if (auto const done = trainer->step(stream); !done) return done.error();
        }
        TensorPlace const place{comm.size(), comm.rank()};
        auto const parts = checkpoint_parts(*run.layout, own.weights, trainer->optimizer(), place);
        if (!parts) return parts.error();
        CHECK(CheckpointSaver<>::staging_bytes({parts->data(), parts->size()}) ==
              CheckpointSaver<>::staging_bytes(own.program.layout(), run.rule, place, ranks.zero != ZeroStage::none));
        return save_checkpoint(comm, target, run.state(end), own.weights, trainer->optimizer());
    };
    auto const done = run_threads(ranks.all, body);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    return files_of(out / checkpoint_name(end));
}

/// Trains four steps with a checkpoint after two and after four; the files of both.
template <class Run>
auto save_twice(Run& run, TemporaryFolder const& out) {
    run.train(0, 2);
    REQUIRE(run.save(out.path(), 2));
    auto two = files_of(out / "step-000002");
    run.train(2, 4);
    REQUIRE(run.save(out.path(), 4));
    return std::pair(std::move(two), files_of(out / "step-000004"));
}

}  // namespace shardwise::testing
