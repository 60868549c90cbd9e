// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/checkpoint/trainer_state.hpp>
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/schedule.hpp>
#include <shardwise/train/sgd.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adds what an optimizer computes with.
inline void add_settings(RunSettings& out, AdamW const& rule) {
    out.add("optimizer", rule.name).add("beta1", rule.beta1).add("beta2", rule.beta2);
    out.add("epsilon", rule.epsilon).add("weight_decay", rule.weight_decay);
}
inline void add_settings(RunSettings& out, Adam8bit const& rule) {
    out.add("optimizer", rule.name).add("beta1", rule.beta1).add("beta2", rule.beta2);
    out.add("epsilon", rule.epsilon).add("weight_decay", rule.weight_decay);
}
inline void add_settings(RunSettings& out, Sgd const& rule) {
    out.add("optimizer", rule.name).add("momentum", rule.momentum).add("is_nesterov", rule.is_nesterov);
    out.add("weight_decay", rule.weight_decay);
}

template <class Rule>
void add_settings(RunSettings& out, KahanSum<Rule> const& compensated) {
    add_settings(out, compensated.rule);
    out.add("kahan_sum", true);
}

/// Adds what the learning rate of every step follows from. The number of all steps belongs to it only where the rate falls towards the
/// last one: with the other schedules a run may become longer.
inline void add_settings(RunSettings& out, Schedule const& schedule) {
    bool const has_end = schedule.kind != ScheduleKind::constant && schedule.kind != ScheduleKind::inverse_sqrt;
    out.add("schedule", name_of(schedule.kind)).add("learning_rate", schedule.learning_rate);
    out.add("warm_up", schedule.warm_up).add("floor", schedule.floor);
    if (has_end) out.add("steps", schedule.total);
    if (schedule.kind == ScheduleKind::wsd) out.add("decay", schedule.decay);
}

/// Adds which samples a batch has. The data themselves are the caller's to add: by their hashes, not their paths.
inline void add_settings(RunSettings& out, BatchOptions const& batch) {
    out.add("context", batch.context).add("batch", batch.batch).add("shuffles", batch.shuffles).add("seed", batch.seed);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
