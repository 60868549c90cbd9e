// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/train/train_ranks.hpp>

#include "../support/temporary_folder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// A small model that the ranks of any communicator train together; it needs no test framework, and so runs under mpirun, too.
namespace shardwise::testing {

/// A llama of four layers and the tokens that it is trained on.
class SmallTraining {
public:
    [[nodiscard]] Result<> open() {
        auto const config =
            folder_.write("config.json", R"({"model_type":"llama","architectures":["LlamaForCausalLM"],)"
                                         R"("hidden_size":16,"intermediate_size":24,"num_hidden_layers":4,)"
                                         R"("num_attention_heads":2,"num_key_value_heads":1,"vocab_size":61,)"
                                         R"("tie_word_embeddings":true,"max_position_embeddings":64,)"
                                         R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"torch_dtype":"float32"})");
        auto const source = find_model(config, {}, HubCache(HubEnvironment{}));
        if (!source) return source.error();
        auto read = read_checkpoint(*source);
        if (!read) return read.error();
        checkpoint_.emplace(*std::move(read));
        std::string bytes;
        for (std::int32_t i = 0; i < 20 * 6 * context + 1; ++i) bytes += {static_cast<char>(i * i % 61), '\0'};
        std::vector<TokenFile> files;
        auto file = TokenFile::open(folder_.write("ids.u16", bytes));
        if (!file) return file.error();
        files.push_back(*std::move(file));
        auto dataset = TokenDataset::create(std::move(files), checkpoint_->model.config.vocab_size);
        if (!dataset) return dataset.error();
        dataset_.emplace(*std::move(dataset));
        return {};
    }
    /// Trains two steps and tells their losses; `look(trainer, stream)` comes before and after them.
    template <Communicator C, class Look>
    [[nodiscard]] Result<std::vector<double>> train(C& comm, ZeroStage zero, Look const& look) const {
        HostContext host({.threads = 1});
        auto const program = TrainingProgram::create(checkpoint_->model);
        if (!program) return program.error();
        auto weights = TrainingWeights::initialise(host, checkpoint_->model, {.seed = 1});
        if (!weights) return weights.error();
        auto const batches = Batches::create(*dataset_, {0, dataset_->tokens()}, {.context = context, .batch = 6});
        if (!batches) return batches.error();
        TrainOptions const options{.steps = 3,
                                   .schedule = {.learning_rate = 3e-3, .total = 3},
                                   .zero = zero,
                                   .buckets = BucketLimits::with_cap(Bytes{4000})};
        auto trainer = Trainer<AdamW, C>::create(host, comm, *program, *weights, AdamW{}, *batches, options);
        if (!trainer) return trainer.error();
        auto stream = host.make_stream();
        std::vector<double> losses;
        for (int i = 0; i < 2; ++i) {
            auto const step = trainer->step(stream);
            if (!step) return step.error();
            losses.push_back((*step)->loss);
        }
        if (auto const done = look(*trainer, stream); !done) return done.error();
        return losses;
    }

private:
    static constexpr std::int64_t context = 12;

    TemporaryFolder folder_;
    std::optional<Checkpoint> checkpoint_;
    std::optional<TokenDataset> dataset_;
};

/// Trains over the ranks of a communicator that one thread of a rank uses at a time: buckets are exchanged beside backward passes, the
/// losses are those of one rank, and a rank that fails while some of its buckets are under way ends the step on all. The group has failed
/// then.
///
/// Errors  what differs, or the communicator's
template <Communicator C>
[[nodiscard]] Result<> check_training(C& comm, ZeroStage zero) {
    auto const differs = [](std::string const& what) { return Error{ErrorCode::invalid_argument}.because(what); };
    SmallTraining training;
    if (auto const opened = training.open(); !opened) return opened;
    std::vector<double> alone;
    auto const ran = run_threads(1, [&](Threads& own) -> Result<> {
        auto losses = training.train(own, ZeroStage::none, [](auto&, auto&) { return Result<>{}; });
        if (!losses) return losses.error();
        alone = *std::move(losses);
        return {};
    });
    if (!ran) return ran;
    auto const ranks = comm.size();
    auto const losses = training.train(comm, zero, [&](auto& trainer, HostStream& stream) -> Result<> {
        if (trainer.gradients().early_buckets() < 2) return differs("has exchanged no bucket beside a backward pass");
        bool const is_faulty = trainer.comm().rank() == ranks - 1;
        auto const before = trainer.gradients().early_buckets();
        // In the stream of this thread.
        trainer.phases().on_begin([&trainer, before, is_faulty](TrainingPhase phase, std::int64_t) -> Result<> {
            bool const has_sent = trainer.gradients().early_buckets() > before;
            if (!is_faulty || phase != TrainingPhase::bucket || !has_sent) return {};
            return Error{ErrorCode::file_unwritable}.in("loss.csv").because("the disk is full");
        });
        auto const step = trainer.step(stream);
        if (trainer.gradients().early_buckets() == before) return differs("had no bucket under way as it failed");
        if (step) return differs("took a step that a rank failed in");
        auto const text = step.error().message();
        bool const is_told = text.find("rank " + std::to_string(ranks - 1)) != std::string::npos &&
                             text.find("loss.csv: the disk is full") != std::string::npos;
        return is_told ? Result<>{} : Result<>{differs("was told: " + text)};
    });
    if (!losses) return losses.error();
    return *losses == alone ? Result<>{} : Result<>{differs("has other losses than one rank")};
}

}  // namespace shardwise::testing
