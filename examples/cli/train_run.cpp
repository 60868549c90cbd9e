// SPDX-License-Identifier: Apache-2.0
#include "train_run.hpp"

#include <shardwise/train/checkpoint/resume_checkpoint.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/train_ranks.hpp>

#include "train_plan.hpp"
#include "train_report.hpp"
#include "train_settings.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

/// The signal that came; 0: none.
volatile std::sig_atomic_t stop_signal = 0;

/// SIGINT and SIGTERM come as a number as long as this lives; a second one ends the program.
class StopSignals {
public:
    StopSignals() {
        stop_signal = 0;
        auto const handle = [](int signal) {
            stop_signal = signal;
            std::signal(SIGINT, SIG_DFL);
            std::signal(SIGTERM, SIG_DFL);
        };
        std::signal(SIGINT, +handle);
        std::signal(SIGTERM, +handle);
    }
    StopSignals(StopSignals const&) = delete;
    StopSignals& operator=(StopSignals const&) = delete;
    ~StopSignals() {
        std::signal(SIGINT, SIG_DFL);
        std::signal(SIGTERM, SIG_DFL);
    }
};

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

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
        auto const& plan = answer_.plan;
        while (true) {
            if (is_first() && stop_signal != 0) trainer_.request_stop();
            auto const start = std::chrono::steady_clock::now();
            auto const done = trainer_.step(stream_);
            if (!done) return done.error();
            if (!*done) break;
            auto const seconds = seconds_since(start);
            if (auto const taken = take(**done, seconds); !taken) return taken;
            bool const is_due = answer_.request.save_every && state_.step % *answer_.request.save_every == 0;
            if (is_due && state_.step < plan.steps) {
                if (auto const saved = save(); !saved && !may_go_on(saved.error())) return saved;
            }
        }
        // A checkpoint that the run went on from may lie elsewhere.
        if (state_.step > from_.state.step || from_.folder != target_.out + "/" + checkpoint_name(state_.step)) {
            if (auto const saved = save(); !saved) return saved;
        }
        return finish();
    }

private:
    [[nodiscard]] bool is_first() { return trainer_.comm().rank() == 0; }

    /// Goes on from a checkpoint, and opens what is written.
    [[nodiscard]] Result<> begin() {
        auto const& request = answer_.request;
        state_ = from_.state;
        state_.seed = request.seed;
        state_.settings = settings_of(request, answer_.plan, *job_.data);
        if (!from_.is_beginning()) {
            auto const loaded =
                load_checkpoint(from_.folder, *target_.layout, trainer_.weights(), trainer_.optimizer());
            if (!loaded) return loaded;
            auto const* const skipped = state_.skipped.data();
            List<std::int64_t> const list(skipped, skipped + state_.skipped.size());
            if (auto const restored = trainer_.restore({state_.step, list}); !restored) return restored;
        }
        if (auto const* const dataset = job_.data->validation()) {
            auto samples = Batches::create(*dataset, job_.data->validated_tokens,
                                           {.context = answer_.plan.context, .batch = 1, .shuffles = false});
            if (!samples) return samples.error();
            samples_.emplace(*std::move(samples));
        }
        if (!is_first()) return {};
        auto report = TrainReport::begin(request, answer_.plan.steps, state_.step, job_.color);
        if (!report) return report.error();
        report_.emplace(*std::move(report));
        return {};
    }

    /// Counts a step, validates where that is due, and tells of it.
    [[nodiscard]] Result<> take(TrainedStep const& step, double seconds) {
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
        TrainRow row{.step = state_.step,
                     .tokens = state_.tokens,
                     .loss = step.loss,
                     .valid_loss = {},
                     .learning_rate = step.learning_rate,
                     .norm = step.norm,
                     .is_skipped = step.is_skipped(),
                     .seconds = seconds,
                     .tokens_per_second = static_cast<double>(tokens) / std::max(seconds, 1e-9)};
        bool const is_due = state_.step % answer_.plan.valid_every == 0 || state_.step == answer_.plan.steps;
        if (samples_ && is_due) {
            auto const mean = trainer_.validate(*samples_, stream_);
            if (!mean) return mean.error();
            row.valid_loss = mean->mean();
            state_.valid_loss = mean->mean();
            if (!state_.best_valid_loss || mean->mean() < *state_.best_valid_loss)
                state_.best_valid_loss = mean->mean();
        }
        if (!is_first()) return {};
        if (step.is_skipped()) answer_.skipped.push_back({state_.step, step.skipped});
        answer_.step_seconds += seconds;
        ++answer_.steps_here;
        answer_.tokens_here += tokens;
        auto const told = report_->take(row);
        return told ? told : Result<>(end_group(trainer_.comm(), told.error()));
    }

    [[nodiscard]] Result<> save() {
        auto const start = std::chrono::steady_clock::now();
        auto const saved = save_checkpoint(trainer_.comm(), target_, state_, trainer_.weights(), trainer_.optimizer());
        if (is_first()) answer_.checkpoint_seconds += seconds_since(start);
        return saved;
    }

    /// Where a disk is full training goes on: older checkpoints are whole, and the last one may find space again.
    [[nodiscard]] bool may_go_on(Error const& error) {
        if (error.code() != ErrorCode::file_unwritable) return false;
        if (is_first() && !has_warned_) {
            has_warned_ = true;
            answer_.warnings.push_back(error.message() + "; training goes on without this checkpoint");
            print_warnings({answer_.warnings.back()});
        }
        return true;
    }

    [[nodiscard]] Result<> finish() {
        auto const rank = static_cast<std::size_t>(trainer_.comm().rank());
        answer_.ranks[rank].peak = trainer_.context().memory().peak();
        answer_.traffic[rank] = trainer_.comm().traffic();
        if (!is_first()) return {};
        answer_.steps = state_.step;
        answer_.tokens = state_.tokens;
        answer_.first_loss = optional(state_.first_loss);
        answer_.last_loss = optional(state_.last_loss);
        answer_.valid_loss = optional(state_.valid_loss);
        answer_.best_valid_loss = optional(state_.best_valid_loss);
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
    bool has_warned_ = false;
};

/// Where the run begins, by --resume.
[[nodiscard]] Result<ResumePoint> find_begin(TrainJob const& job, TrainAnswer const& answer,
                                             CheckpointLayout const& layout) {
    auto const& request = answer.request;
    auto const settings = settings_of(request, answer.plan, *job.data);
    if (auto const cleaned = remove_leftovers(request.out); !cleaned) return cleaned.error();
    if (!request.resume) {
        if (!holds_run(request.out, *job.files, settings)) return ResumePoint{};
        return newest_checkpoint(request.out, layout, *job.files, settings);
    }
    if (equal_ignoring_case(*request.resume, "none")) return ResumePoint{};
    if (equal_ignoring_case(*request.resume, "auto"))
        return newest_checkpoint(request.out, layout, *job.files, settings);
    return resume_from(*request.resume, layout, *job.files, settings);
}

template <OptimizerRule Rule>
[[nodiscard]] Result<> run_with(Rule const& rule, TrainJob const& job, TrainAnswer& answer) {
    auto const& request = answer.request;
    auto const layout = CheckpointLayout::create(*job.model, rule);
    if (!layout) return layout.error();
    auto const from = find_begin(job, answer, *layout);
    if (!from) return from.error();
    print_warnings(from->warnings);
    answer.warnings.insert(answer.warnings.end(), from->warnings.begin(), from->warnings.end());
    if (auto const space = check_checkpoint_space(request.out, *layout, *job.files); !space) return space;
    CheckpointTarget const target{.out = request.out, .layout = &*layout, .files = job.files, .keep = request.keep};
    HostContext context({.threads = std::max(1, request.threads / static_cast<int>(answer.plan.dp))});
    auto weights = job.weights(context);
    if (!weights) return weights.error();
    answer.traffic.resize(answer.ranks.size());
    StopSignals const signals;
    auto const body = [&](Trainer<Rule>& trainer, HostStream& stream) {
        return TrainRank<Rule>(job, answer, trainer, stream, target, *from).run();
    };
    auto const done =
        train_ranks(context, *job.program, *weights, rule, *job.batches, train_options_of(request, answer.plan),
                    static_cast<std::int32_t>(answer.plan.dp), body, job.divisors);
    if (!done) return done;
    for (auto const step : list_checkpoints(request.out))
        answer.checkpoints.insert(answer.checkpoints.begin(), request.out + "/" + checkpoint_name(step));
    bool const is_finished = answer.steps >= answer.plan.steps;
    answer.stopped_by = is_finished ? "steps" : stop_signal == SIGTERM ? "SIGTERM" : "SIGINT";
    auto const last = request.out + "/" + checkpoint_name(answer.steps) + "/" + layout->files().front().file();
    auto const hash = sha256_of_file(last);
    if (!hash) return hash.error();
    answer.weights_hash = *hash;
    return {};
}

}  // namespace

Result<> run_training(TrainJob const& job, TrainAnswer& answer) {
    return with_rule(answer.request, [&](auto const& rule) { return run_with(rule, job, answer); });
}

int train_signal() {
    return stop_signal;
}

}  // namespace shardwise::cli
