// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/batches.hpp>
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/slow_ranks.hpp>
#include <shardwise/train/trainer.hpp>

#include "console.hpp"
#include "program_signals.hpp"
#include "train_answer.hpp"
#include "train_begin.hpp"
#include "train_data.hpp"
#include "train_group.hpp"
#include "train_plan.hpp"
#include "train_report.hpp"
#include "train_restarts.hpp"
#include "train_run.hpp"
#include "train_settings.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

/// A rank of a run. Only the first one tells and writes what is not a checkpoint.
template <OptimizerRule Rule>
class TrainRank {
public:
    TrainRank(TrainJob const& job, TrainAnswer& answer, Trainer<Rule>& trainer, HostStream& stream,
              CheckpointTarget const& target, ResumePoint const& from)
        : job_(job), answer_(answer), trainer_(trainer), stream_(stream), target_(target), from_(from) {}

    [[nodiscard]] Result<> run() {
        auto const begun = begin();
        if (!begun) return end_group(trainer_.comm(), begun.error());
        auto const done = take_steps();
        // One rank alone can still end the checkpoint that is in flight.
        if (!done && saver_ && trainer_.comm().size() == 1) (void)saver_->finish(trainer_.comm());
        return done;
    }

private:
    [[nodiscard]] static double seconds_since(std::chrono::steady_clock::time_point begin) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    [[nodiscard]] bool is_first() { return trainer_.comm().rank() == 0; }

    [[nodiscard]] Result<> take_steps() {
        while (true) {
            if (StopRequest::signal() != 0) trainer_.request_stop();
            auto const done = trainer_.step(stream_);
            if (!done) return done.error();
            if (!*done) break;
            if (auto const taken = take(**done); !taken) return taken;
            if (auto const saved = save_beside(); !saved) return saved;
        }
        auto const saved = save_last();
        return saved ? finish() : saved;
    }

    /// Goes on from a checkpoint, and opens what is written.
    [[nodiscard]] Result<> begin() {
        auto const& request = answer_.request;
        state_ = from_.state;
        state_.seed = request.seed;
        state_.settings = settings_of(request, answer_.plan, *job_.data);
        // Losses of other data are not compared.
        if (state_.valid_data != job_.data->valid_hash) {
            state_.valid_data = job_.data->valid_hash;
            state_.valid_loss = state_.best_valid_loss = {};
        }
        if (!from_.is_beginning()) {
            auto const loaded = load_checkpoint(from_.folder, *target_.layout, trainer_.weights(), trainer_.optimizer(),
                                                trainer_.owns_weights());
            if (!loaded) return loaded;
            auto const* const skipped = state_.skipped.data();
            List<std::int64_t> const list(skipped, skipped + state_.skipped.size());
            TrainerPosition position{.step = state_.step, .skipped = list};
            if (auto const& scaler = state_.scaler) {
                position.loss_scale = scaler->scale;
                position.good_steps = scaler->good_steps;
            }
            if (auto const restored = trainer_.restore(position); !restored) return restored;
        }
        auto samples = validation_batches(request, *job_.data, answer_.plan.context);
        if (!samples) return samples.error();
        samples_ = *std::move(samples);
        if (saves_beside(request, answer_.plan)) {
            auto parts = checkpoint_parts(*target_.layout, trainer_.weights(), trainer_.optimizer(),
                                          {trainer_.comm().size(), trainer_.comm().rank()});
            if (!parts) return parts.error();
            parts_ = *std::move(parts);
            auto saver = CheckpointSaver<>::create(trainer_.context(), target_, {parts_.data(), parts_.size()});
            if (!saver) return saver.error();
            saver_.emplace(*std::move(saver));
        }
        auto const late = state_.owes_validation ? validate() : Result<std::optional<double>>(std::nullopt);
        if (!late) return late.error();
        has_late_validation_ = late->has_value();
        if (!is_first()) return {};
        for (auto const number : state_.skipped) answer_.skipped.push_back({number + 1, {}});
        if (job_.restarts != nullptr) job_.restarts->begin(state_.step);
        auto report =
            TrainReport::begin(request, answer_.plan.steps, answer_.plan.valid_every, state_.step, *late, job_.color);
        if (!report) return report.error();
        report_.emplace(*std::move(report));
        return {};
    }

    /// Counts a step, validates where that is due, and tells of it.
    [[nodiscard]] Result<> take(TrainedStep const& step) {
        auto const& request = answer_.request;
        auto const tokens = step.tokens;
        state_.step = step.number + 1;
        state_.position += request.batch;
        state_.tokens += tokens;
        if (step.is_skipped()) {
            state_.skipped.push_back(step.number);
            ++state_.skipped_in_row;
        } else {
            ++state_.updates;
            state_.skipped_in_row = 0;
            state_.last_loss = step.loss;
            if (!state_.first_loss) state_.first_loss = step.loss;
        }
        if (auto const position = trainer_.state(); position.loss_scale > 0.0)
            state_.scaler = TrainerState::Scaler{position.loss_scale, position.good_steps};
        TrainRow row{.step = state_.step,
                     .tokens = state_.tokens,
                     .loss = step.loss,
                     .valid_loss = {},
                     .valid_seconds = 0.0,
                     .learning_rate = step.learning_rate,
                     .norm = step.norm,
                     .is_skipped = step.is_skipped(),
                     .tokens_per_second = static_cast<double>(tokens) / std::max(step.times.step, 1e-9),
                     .times = step.times};
        bool const is_due = state_.step % answer_.plan.valid_every == 0 || state_.step == answer_.plan.steps;
        if (samples_ && is_due) {
            auto const start = std::chrono::steady_clock::now();
            auto const mean = validate();
            if (!mean) return mean.error();
            row.valid_seconds = seconds_since(start);
            row.valid_loss = *mean;
        }
        if (auto const watched = watch_pace(step.times); !watched) return watched;
        if (!is_first()) return {};
        if (job_.restarts != nullptr) job_.restarts->take_step();
        if (step.is_skipped()) answer_.skipped.push_back({state_.step, step.skipped});
        answer_.times += step.times;
        ++answer_.steps_here;
        answer_.tokens_here += tokens;
        auto const told = report_->take(row);
        if (told && step.is_skipped()) report_->warn("a step was skipped: " + step.skipped);
        return told ? told : Result<>(end_group(trainer_.comm(), told.error()));
    }

    /// The loss on held-out data; nothing where a signal ends it, or there are none. A run that goes on from here does it again then.
    [[nodiscard]] Result<std::optional<double>> validate() {
        state_.owes_validation = false;
        if (!samples_) return std::optional<double>();
        auto const mean = trainer_.validate(*samples_, stream_, [] { return StopRequest::signal() != 0; });
        if (!mean) return mean.error();
        state_.owes_validation = !*mean;
        if (state_.owes_validation) return std::optional<double>();
        auto const loss = (*mean)->mean();
        state_.valid_loss = loss;
        if (!state_.best_valid_loss || loss < *state_.best_valid_loss) state_.best_valid_loss = loss;
        return std::optional(loss);
    }

    /// What each rank has to do of a sequence.
    [[nodiscard]] List<RankWork> works() const {
        auto const& programs = *job_.programs;
        List<RankWork> out;
        for (std::int64_t rank = 0; rank < answer_.plan.ranks(); ++rank)
            out.push_back(work_of(programs[static_cast<std::size_t>(rank % answer_.plan.replica())]));
        return out;
    }
    /// Names ranks that hold up the others; each once.
    [[nodiscard]] Result<> watch_pace(StepTimes const& times) {
        auto& comm = trainer_.comm();
        auto const traffic = comm.traffic();
        auto const sequences =
            split_units(answer_.request.batch, answer_.plan.dp, comm.rank() / answer_.plan.replica()).size();
        auto const own = times.data + times.compute + times.optimizer;
        auto const slow = pace_.take(comm, own / static_cast<double>(std::max<std::int64_t>(1, sequences)));
        comm.traffic() = traffic;
        if (!slow) return slow.error();
        for (auto const rank : *slow) {
            if (!is_first() || std::find(slow_.begin(), slow_.end(), rank) != slow_.end()) continue;
            slow_.push_back(rank);
            answer_.warnings.push_back("rank " + std::to_string(rank) +
                                       " took more than twice the median of ranks with the same "
                                       "work, of each sequence, in ten steps in a row, until step " +
                                       std::to_string(state_.step));
            report_->warn(answer_.warnings.back());
        }
        return {};
    }

    /// Calls `save`, whose time a step waits for; what ranks tell each other meanwhile is no traffic of training.
    template <class Save>
    [[nodiscard]] Result<> saving(Save const& save) {
        auto const start = std::chrono::steady_clock::now();
        auto const traffic = trainer_.comm().traffic();
        auto& phases = trainer_.phases();
        if (auto const begun = phases.begin(TrainingPhase::checkpoint); !begun) return begun;
        auto const saved = save();
        trainer_.comm().traffic() = traffic;
        if (is_first()) answer_.checkpoint_seconds += seconds_since(start);
        return saved ? saved : Result<>(phases.name(saved.error()));
    }
    /// Begins a checkpoint where one is due, and ends one that is written.
    [[nodiscard]] Result<> save_beside() {
        auto const& every = answer_.request.save_every;
        bool const is_due = every && state_.step % *every == 0 && state_.step < answer_.plan.steps;
        if (!saver_ && !is_due) return {};
        if (!saver_) {
            auto const saved = save_now();
            return saved || !may_go_on(saved.error()) ? saved : Result<>();
        }
        auto const saved = saving([&] {
            auto const looked = saver_->poll(trainer_.comm());
            if (!looked || !is_due) return looked;
            return saver_->start(trainer_.comm(), state_, {parts_.data(), parts_.size()});
        });
        if (!saved || !saver_->failure()) return saved;
        return may_go_on(*saver_->failure()) ? Result<>() : Result<>(*saver_->failure());
    }
    /// Waits for the one that is in flight, and writes the last one where it was not.
    [[nodiscard]] Result<> save_last() {
        if (saver_) {
            auto const ended = saving([&] { return saver_->finish(trainer_.comm()); });
            if (!ended && !may_go_on(ended.error())) return ended;
            auto const& saved = saver_->saved();
            if (!saved.empty() && saved.back() == state_.step) return {};
        }
        // A checkpoint that the run went on from may lie elsewhere.
        if (state_.step == from_.state.step && !has_late_validation_ && from_.is_in(target_.out)) {
            // Who wrote it may have been ended before older ones went.
            return is_first() ? prune_checkpoints(target_.out, state_.step, target_.keep) : Result<>();
        }
        return save_now();
    }
    [[nodiscard]] Result<> save_now() {
        return saving([&] {
            return save_checkpoint(trainer_.comm(), target_, state_, trainer_.weights(), trainer_.optimizer());
        });
    }

    /// Where a disk is full training goes on: older checkpoints are whole, and the next one may find space again.
    [[nodiscard]] bool may_go_on(Error const& error) {
        if (error.code() != ErrorCode::file_unwritable) return false;
        if (is_first() && !has_warned_) {
            has_warned_ = true;
            answer_.warnings.push_back(error.message() + "; training goes on without this checkpoint");
            report_->warn(answer_.warnings.back());
        }
        return true;
    }

    [[nodiscard]] Result<> finish() {
        auto const rank = static_cast<std::size_t>(trainer_.comm().rank());
        answer_.ranks[rank].peak = trainer_.context().memory().peak();
        answer_.traffic[rank] = trainer_.traffic();
        if (!is_first()) return {};
        answer_.steps = state_.step;
        answer_.tokens = state_.tokens;
        answer_.first_loss = optional(state_.first_loss);
        answer_.last_loss = optional(state_.last_loss);
        answer_.valid_loss = optional(state_.valid_loss);
        answer_.best_valid_loss = optional(state_.best_valid_loss);
        answer_.owes_validation = state_.owes_validation;
        answer_.rows = report_->rows();
        return report_->end();
    }
    [[nodiscard]] static std::optional<double> optional(Optional<double> const& value) {
        return value ? std::optional(*value) : std::nullopt;
    }

    TrainJob const& job_;
    TrainAnswer& answer_;
    Trainer<Rule>& trainer_;
    HostStream& stream_;
    CheckpointTarget const& target_;
    ResumePoint const& from_;
    TrainerState state_;
    std::optional<Batches> samples_;
    std::optional<TrainReport> report_;
    /// What this rank writes of every checkpoint; empty, and no saver, where there is only the last one.
    std::vector<CheckpointPart> parts_;
    std::optional<CheckpointSaver<>> saver_;
    SlowRanks pace_{works()};
    std::vector<std::int32_t> slow_;
    bool has_warned_ = false;
    /// Of the step that the run went on from: the state is another one though no step is taken.
    bool has_late_validation_ = false;
};

}  // namespace shardwise::cli
