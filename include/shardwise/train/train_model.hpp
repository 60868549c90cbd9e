// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/sha256.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/token_dataset.hpp>
#include <shardwise/train/tokenize_file.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How train_model trains. Its defaults are those of `shardwise train`, but for the steps.
struct TrainModelOptions {
    std::int64_t steps = 100;
    /// Tokens of a sequence; 0: as many as the model has positions, at most 1,024.
    std::int64_t context = 0;
    /// Sequences of a step, of all ranks together.
    std::int64_t batch = 8;
    /// It falls to a tenth along a cosine.
    double learning_rate = 3e-4;
    AdamW optimizer{};
    /// Data-parallel threads, which train one copy of the weights. The results do not depend on them.
    std::int32_t ranks = 1;
    /// Of each rank.
    int threads = 1;
    /// Of the order of sequences.
    std::uint64_t seed = 0;
    /// Called on rank 0 after each step; an error ends the run.
    std::function<Result<>(TrainedStep const&)> after{};
};

namespace detail {

/// Text is tokenised into `folder`.
[[nodiscard]] inline Result<TokenDataset> read_training_data(OpenCheckpoint& files, CheckpointFiles const& copied,
                                                             std::vector<std::string> const& paths,
                                                             std::int64_t vocabulary, std::string const& folder) {
    TokenizeOptions how{.end = {}, .folder = folder, .tokenizer_hash = {}};
    std::optional<LoadedTokenizer> tokenizer;
    std::vector<TokenFile> opened;
    for (auto const& path : paths) {
        bool const is_text = !TokenFile::has_name_of_one(path);
        if (is_text && !tokenizer) {
            auto loaded = load_tokenizer(files);
            if (!loaded) return loaded.error();
            auto const ends = end_tokens(files);
            if (!ends) return ends.error();
            tokenizer.emplace(*std::move(loaded));
            Sha256 hash;
            for (auto const& file : copied.files) hash.add(file.name + "\n" + sha256_hex(file.text) + "\n");
            how.tokenizer_hash = hash.hex();
            how.chat_template = tokenizer->chat_template;
            how.special_tokens = tokenizer->special_tokens;
            how.end = tokenizer->tokenizer.end_of_sequence();
            if (!how.end && !ends->empty()) how.end = ends->front();
        }
        auto file = is_text ? tokenize_file(path, tokenizer->tokenizer, how) : TokenFile::open(path);
        if (!file) return file.error();
        opened.push_back(*std::move(file));
    }
    auto data = TokenDataset::create(std::move(opened), vocabulary);
    if (!data) return data;
    if (auto const known = data->check(); !known) return known.error();
    return data;
}

}  // namespace detail

/// Trains all weights of a model on files, over ranks that are threads, and leaves a checkpoint `OUT/step-000100`: a model for every
/// command and for transformers. `model` is a folder of safetensors with config.json and tokenizer.json, or `org/name` in the Hugging Face
/// cache; `data` are texts, JSON lines or token ids, as `shardwise train` takes them (docs/how-to/train.md). What each step gave, in order.
///
/// `shardwise train` does more: restarts, checkpoints on the way, validation, other optimizers and ways to share the work, all of which
/// are pieces of this library (docs/how-to/train-a-model.md).
///
/// Memory  the weights once, and for each rank Trainer::bytes with micro-batches of one sequence
/// Errors  as the readers of models, tokenizers and data; unsupported for what has no gradient and for packed weights; file_unwritable,
///         also where `out` holds checkpoints or another run writes there; as Trainer
[[nodiscard]] inline Result<std::vector<TrainedStep>> train_model(std::string const& model,
                                                                  std::vector<std::string> const& data,
                                                                  std::string const& out,
                                                                  TrainModelOptions const& options = {}) {
    auto source = find_model(model, {}, HubCache(HubEnvironment::current()));
    if (!source) return source.error();
    OpenCheckpoint files(*std::move(source));
    auto const checkpoint = read_checkpoint<Architectures>(files);
    if (!checkpoint) return checkpoint.error();
    if (checkpoint->not_described) return *checkpoint->not_described;
    auto const copied = read_checkpoint_files(files.source());
    if (!copied) return copied.error();
    auto const program = TrainingProgram::create(checkpoint->model);
    if (!program) return program.error();
    auto const stored = StoredParameters::open(files, checkpoint->model);
    if (!stored) return stored.error();
    auto const layout = CheckpointLayout::create(checkpoint->model, options.optimizer);
    if (!layout) return layout.error();
    auto const lock = RunFolderLock::take(out);
    if (!lock) return lock.error();
    if (!list_checkpoints(out).empty())
        return Error{ErrorCode::file_unwritable}
            .in(out)
            .because("holds checkpoints, which may be of another run")
            .fix("name a new folder");
    auto const tokens = out + "/tokens";
    if (auto const code = detail::make_folders<FileCalls>(tokens); code != 0) return detail::unwritable(tokens, code);
    auto const& config = checkpoint->model.config;
    auto const dataset = detail::read_training_data(files, *copied, data, config.vocab_size, tokens);
    if (!dataset) return dataset.error();
    BatchOptions sizes{.context = options.context, .batch = options.batch, .seed = options.seed};
    if (sizes.context == 0) sizes.context = BatchOptions::default_context(config.max_positions);
    auto const batches = Batches::create(*dataset, {0, dataset->tokens()}, sizes);
    if (!batches) return batches.error();
    HostContext context({.threads = options.threads});
    auto weights = TrainingWeights::load(context, *stored);
    if (!weights) return weights.error();
    TrainOptions how{.steps = options.steps};
    how.schedule = {.learning_rate = options.learning_rate, .total = options.steps, .floor = 0.1};
    how.has_one_copy = options.ranks > 1;
    CheckpointTarget const target{.out = out, .layout = &*layout, .files = &*copied};
    std::vector<TrainedStep> steps;
    auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        bool const is_first = trainer.comm().rank() == 0;
        auto const done = trainer.run(stream, [&](TrainedStep const& step) -> Result<> {
            return is_first && options.after ? options.after(step) : Result<>{};
        });
        if (!done) return done.error();
        TrainerState state;
        state.seed = options.seed;
        state.step = options.steps;
        state.position = options.steps * options.batch;
        for (auto const& step : *done) {
            state.tokens += step.tokens;
            state.updates += step.is_skipped() ? 0 : 1;
            if (step.is_skipped()) state.skipped.push_back(step.number);
        }
        if (is_first) steps = *done;
        return save_checkpoint(trainer.comm(), target, state, trainer.weights(), trainer.optimizer());
    };
    auto const trained = train_ranks(context, *program, *weights, options.optimizer, *batches, how, options.ranks, body,
                                     stored->rope_divisors());
    if (!trained) return trained.error();
    return steps;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
