// SPDX-License-Identifier: Apache-2.0
#include "train_run.hpp"

#include <shardwise/hardware/system/process_memory.hpp>
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>
#include <shardwise/train/train_ranks.hpp>

#include "program_signals.hpp"
#include "train_begin.hpp"
#include "train_group.hpp"
#include "train_plan.hpp"
#include "train_rank.hpp"
#include "train_restarts.hpp"
#include "train_settings.hpp"
#include "train_tune.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string stop_name(int signal) {
    return signal == SIGTERM ? "SIGTERM" : signal == SIGHUP ? "SIGHUP" : "SIGINT";
}

/// Trains the ranks of this process: all, as threads, or one. `body(trainer, stream)` is called on each.
template <OptimizerRule Rule, class Body>
[[nodiscard]] Result<> train_here(Rule const& rule, TrainJob const& job, TrainRequest const& request,
                                  TrainPlan const& plan, Body const& body) {
    auto const options = train_options_of(request, plan);
    auto const ranks = static_cast<std::int32_t>(plan.ranks());
    HostContext context({.threads = job.threads});
    auto const replica = plan.replica();
    if (job.world == nullptr && (replica > 1 || !storage_of(request, plan, 0).is_direct()))
        return train_ranks(context, *job.model, job.weights, rule, *job.batches, options, ranks, body, job.divisors);
    auto const number = job.world == nullptr ? 0 : job.world->rank();
    auto weights = job.weights(context, options.model_place(number), storage_of(request, plan, number));
    auto const& program = (*job.programs)[static_cast<std::size_t>(number % replica)];
    if (job.world == nullptr) {
        if (!weights) return weights.error();
        return train_ranks(context, program, *weights, rule, *job.batches, options, ranks, body, job.divisors);
    }
    if (auto const read = agree_on(*job.world, weights ? Result<>{} : Result<>{weights.error()}); !read) return read;
    // What ranks told each other before is no traffic of training.
    job.world->traffic().clear();
    return train_in_group(*job.world, context, program, *weights, rule, *job.batches, options, body, job.divisors);
}

template <OptimizerRule Rule>
[[nodiscard]] Result<> run_with(Rule const& rule, TrainJob const& job, TrainAnswer& answer) {
    auto const& request = answer.request;
    auto const layout = CheckpointLayout::create(*job.model, rule, CheckpointLayout::shard_bytes,
                                                 job.programs->front().layout().adapter());
    if (!layout) return layout.error();
    std::optional<RunFolderLock> lock;
    auto from = job.is_first() ? open_folder(job, answer, *layout, lock) : Result<ResumePoint>(ResumePoint{});
    if (job.world != nullptr) {
        auto const same = agree_on_settings(*job.world, settings_of(request, answer.plan, *job.data));
        if (!same) return same;
        from = share_begin(*job.world, from);
    }
    if (!from) return from.error();
    if (job.is_first()) mark_own_run(request, true);
    print_warnings(from->warnings);
    answer.warnings.insert(answer.warnings.end(), from->warnings.begin(), from->warnings.end());
    CheckpointTarget const target{.out = request.out, .layout = &*layout, .files = job.files, .keep = request.keep};
    answer.traffic.resize(answer.ranks.size());
    std::optional<StopRequest> stop;
    if (job.ignores_signals) {
        for (auto const signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
    } else {
        stop.emplace({SIGINT, SIGTERM, SIGHUP});
    }
    // A limit of files' sizes is an error of a write, as a full disk is.
    std::signal(SIGXFSZ, SIG_IGN);
    if (request.is_tuned) {
        auto const measure = [&](TrainPlan const& plan, auto const& body) {
            return train_here(rule, job, request, plan, body);
        };
        if (auto const tuned = tune_micro_batch<Rule>(job, answer, measure); !tuned) return tuned;
    }
    auto const body = [&](Trainer<Rule>& trainer, HostStream& stream) {
        return TrainRank<Rule>(job, answer, trainer, stream, target, *from).run();
    };
    if (auto const memory = read_process_memory()) answer.program = memory->resident;
    if (auto const done = train_here(rule, job, request, answer.plan, body); !done) return done;
    if (auto const memory = read_process_memory()) answer.process_peak = memory->peak;
    answer.signal = StopRequest::signal();
    if (job.world != nullptr) {
        if (auto const shared = share_end(*job.world, answer); !shared) return shared;
    }
    if (!job.is_first()) return {};
    mark_own_run(request, false);
    if (job.restarts != nullptr) answer.restarts = job.restarts->restarts();
    for (auto const step : list_checkpoints(request.out))
        answer.checkpoints.insert(answer.checkpoints.begin(), request.out + "/" + checkpoint_name(step));
    bool const is_finished = answer.steps >= answer.plan.steps && !answer.owes_validation;
    answer.stopped_by = is_finished ? "steps" : stop_name(answer.signal);
    auto const folder = request.out + "/" + checkpoint_name(answer.steps) + "/";
    // The last file is the optimizer's.
    std::vector<std::string> weights;
    for (std::size_t i = 0; i + 1 < layout->files().size(); ++i) weights.push_back(folder + layout->files()[i].file());
    auto const hash = sha256_of_files(weights);
    if (!hash) return hash.error();
    answer.weights_hash = *hash;
    return {};
}

}  // namespace

Result<> run_training(TrainJob const& job, TrainAnswer& answer) {
    return with_rule(answer.request, [&](auto const& rule) { return run_with(rule, job, answer); });
}

Result<> check_checkpoints(TrainRequest const& request, Model const& model, TrainedAdapter const& adapter,
                           CheckpointFiles const& files) {
    return with_rule(request, [&](auto const& rule) -> Result<> {
        auto const layout = CheckpointLayout::create(model, rule, CheckpointLayout::shard_bytes, adapter);
        if (!layout) return layout.error();
        return list_checkpoints(request.out).empty() ? check_checkpoint_space(request.out, *layout, files) : Result<>{};
    });
}

}  // namespace shardwise::cli
