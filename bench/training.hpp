// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/train_ranks.hpp>

#include "train_report.hpp"
#include "turns.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

/// Whole steps of ours, as bench_train times them.
namespace bench {

using namespace shardwise;

inline constexpr int threads = 2;

/// Takes `calls` steps after one that does not count, and keeps the time of the shortest, by rank 0's clock.
///
/// Units  seconds
/// Errors those of a step
template <class Trainer>
[[nodiscard]] Result<> time_steps(Trainer& trainer, HostStream& stream, int calls, double& shortest) {
    for (int i = 0; i <= calls; ++i) {
        std::optional<Error> error;
        auto const seconds = time_once([&] {
            if (auto const done = trainer.step(stream); !done) error = done.error();
        });
        if (error) return *error;
        if (i > 0 && trainer.comm().rank() == 0) shortest = std::min(shortest, seconds);
    }
    return {};
}

/// A model that is trained on words that are drawn.
class Training {
public:
    Training(std::string config, std::int64_t vocabulary, std::int64_t batch, std::int64_t context)
        : folder_(std::filesystem::temp_directory_path() / ("bench_train_" + std::to_string(::getpid()))),
          batch_(batch),
          context_(context) {
        std::filesystem::create_directories(folder_);
        auto const path = folder_ / "config.json";
        std::ofstream(path) << config;
        auto const source = take(find_model(path.string(), {}, HubCache(HubEnvironment{})));
        checkpoint_.emplace(take(read_checkpoint(source)));
        std::string ids;
        std::uint32_t state = 7;
        for (std::int64_t i = 0; i < batch * context * 64 + 1; ++i) {
            state = state * 1664525U + 1013904223U;
            auto const id = static_cast<std::uint16_t>((state >> 8U) % static_cast<std::uint32_t>(vocabulary));
            ids += {static_cast<char>(id & 0xFFU), static_cast<char>(id >> 8U)};
        }
        std::ofstream(folder_ / "ids.u16", std::ios::binary) << ids;
        std::vector<TokenFile> files;
        files.push_back(take(TokenFile::open((folder_ / "ids.u16").string())));
        dataset_.emplace(take(TokenDataset::create(std::move(files), vocabulary)));
    }
    Training(Training const&) = delete;
    Training& operator=(Training const&) = delete;
    ~Training() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    [[nodiscard]] Model const& model() const { return checkpoint_->model; }
    [[nodiscard]] Batches batches(std::int64_t batch) const {
        return take(Batches::create(*dataset_, {0, dataset_->tokens()}, {.context = context_, .batch = batch}));
    }

    /// Seconds of the shortest of some steps, by ranks of one thread each, or by one of all threads.
    [[nodiscard]] double step(int calls, std::int32_t ranks, Dtype precision = Dtype::f32, bool is_fast = false) const {
        double best = 1e30;
        HostContext context({.threads = threads / ranks});
        auto const program = take(TrainingProgram::create(checkpoint_->model));
        auto weights = take(TrainingWeights::initialise(context, checkpoint_->model, {}));
        auto const batches =
            take(Batches::create(*dataset_, {0, dataset_->tokens()}, {.context = context_, .batch = batch_}));
        TrainOptions options{
            .steps = calls + 1, .micro_batch = batch_ / ranks, .schedule = {.learning_rate = 3e-4, .total = calls + 1}};
        options.precision = precision;
        options.is_fast = is_fast;
        auto const body = [&](auto& trainer, HostStream& stream) { return time_steps(trainer, stream, calls, best); };
        auto const done = train_ranks(context, program, weights, AdamW{}, batches, options, ranks, body);
        if (!done) stop(done.error().message());
        return best;
    }

    /// The same by processes of one thread each, over memory that they share; this one is rank 0.
    [[nodiscard]] double step_in_processes(int calls, std::int32_t ranks) const {
        auto const key = "bench-train-" + std::to_string(::getpid());
        std::vector<pid_t> others;
        for (std::int32_t rank = 1; rank < ranks; ++rank) {
            others.push_back(::fork());
            if (others.back() == 0) ::_exit(step_as_rank(key, rank, ranks, calls) < 0.0 ? 1 : 0);
        }
        auto const best = step_as_rank(key, 0, ranks, calls);
        for (auto const process : others) {
            int status = 0;
            if (::waitpid(process, &status, 0) != process || status != 0) stop("a rank of a process of its own failed");
        }
        return best;
    }

    struct Saved {
        /// How much longer the steps took beside which a checkpoint was written.
        double factor = 0.0;
        /// Seconds until it was.
        double total = 0.0;
        double bytes = 0.0;
    };
    /// Steps of one rank without a checkpoint, and as many beside one.
    [[nodiscard]] Saved save(int steps) const {
        HostContext context({.threads = threads});
        auto const program = take(TrainingProgram::create(checkpoint_->model));
        auto weights = take(TrainingWeights::initialise(context, checkpoint_->model, {}));
        auto const batches =
            take(Batches::create(*dataset_, {0, dataset_->tokens()}, {.context = context_, .batch = batch_}));
        TrainOptions const options{
            .steps = 2 * steps + 2, .micro_batch = batch_, .schedule = {.learning_rate = 3e-4, .total = 2 * steps + 2}};
        auto const layout = take(CheckpointLayout::create(checkpoint_->model, AdamW{}));
        CheckpointFiles const files;
        Saved out;
        auto const body = [&](auto& trainer, HostStream& stream) -> Result<> {
            auto parts = checkpoint_parts(layout, trainer.weights(), trainer.optimizer());
            if (!parts) return parts.error();
            Span<CheckpointPart const> const all(parts->data(), parts->size());
            auto saver = CheckpointSaver<>::create(
                context, {.out = (folder_ / "saved").string(), .layout = &layout, .files = &files}, all);
            if (!saver) return saver.error();
            out.bytes = static_cast<double>(CheckpointSaver<>::staging_bytes(all).count());
            std::optional<Error> error;
            auto const note = [&](Result<> const& done) {
                if (!done && !error) error = done.error();
            };
            auto const run = [&](bool polls) {
                for (int i = 0; i < steps; ++i) {
                    if (auto const stepped = trainer.step(stream); !stepped) note(stepped.error());
                    if (polls) note(saver->poll(trainer.comm()));
                }
            };
            // The first steps fill caches.
            for (int i = 0; i < 2; ++i) {
                if (auto const stepped = trainer.step(stream); !stepped) return stepped.error();
            }
            auto const alone = time_once([&] { run(false); });
            TrainerState state;
            state.step = state.updates = 2 + steps;
            auto const made = folder_ / "saved" / checkpoint_name(state.step);
            std::atomic<bool> is_over = false;
            std::thread watch([&] {
                out.total = time_once([&] {
                    while (!std::filesystem::exists(made) && !is_over)
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                });
            });
            auto const beside = time_once([&] {
                note(saver->start(trainer.comm(), state, all));
                run(true);
            });
            note(saver->finish(trainer.comm()));
            is_over = true;
            watch.join();
            if (error) return *error;
            out.factor = beside / alone;
            return {};
        };
        auto const done = train_ranks(context, program, weights, AdamW{}, batches, options, 1, body);
        if (!done) stop(done.error().message());
        std::filesystem::remove_all(folder_ / "saved");
        return out;
    }

private:
    /// Of a process: seconds of rank 0's shortest step.
    [[nodiscard]] double step_as_rank(std::string const& key, std::int32_t rank, std::int32_t ranks, int calls) const {
        double best = rank == 0 ? 1e30 : 0.0;
        auto comm = take(SharedMemory::join(key, rank, ranks));
        HostContext context({.threads = 1});
        auto const program = take(TrainingProgram::create(checkpoint_->model));
        auto weights = take(TrainingWeights::initialise(context, checkpoint_->model, {}));
        auto const all = batches(batch_);
        TrainOptions const options{
            .steps = calls + 1, .micro_batch = batch_ / ranks, .schedule = {.learning_rate = 3e-4, .total = calls + 1}};
        auto trainer =
            take(Trainer<AdamW, SharedMemory>::create(context, comm, program, weights, AdamW{}, all, options));
        auto stream = context.make_stream();
        if (auto const done = time_steps(trainer, stream, calls, best); !done) stop(done.error().message());
        return best;
    }

    std::filesystem::path folder_;
    std::int64_t batch_;
    std::int64_t context_;
    std::optional<Checkpoint> checkpoint_;
    std::optional<TokenDataset> dataset_;
};

}  // namespace bench
