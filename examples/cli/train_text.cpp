// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/text.hpp>

#include "choices.hpp"
#include "text.hpp"
#include "train_answer.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string line(std::string_view name, std::string const& value) {
    return padded(std::string(name), 12) + value + "\n";
}

[[nodiscard]] std::string losses(TrainAnswer const& answer) {
    if (!answer.last_loss) return {};
    auto out = decimals(answer.first_loss.value_or(*answer.last_loss), 4) + " at first, " +
               decimals(*answer.last_loss, 4) + " at last";
    if (answer.valid_loss) out += "; validation " + decimals(*answer.valid_loss, 4);
    if (answer.best_valid_loss && answer.best_valid_loss != answer.valid_loss)
        out += ", " + decimals(*answer.best_valid_loss, 4) + " at best";
    return line("loss", out);
}

[[nodiscard]] std::string memory(TrainAnswer const& answer) {
    Bytes most{};
    std::optional<Bytes> peak;
    for (auto const& rank : answer.ranks) {
        most = rank.predicted > most ? rank.predicted : most;
        if (rank.peak && (!peak || *rank.peak > *peak)) peak = rank.peak;
    }
    auto out = to_text(most) + " predicted";
    if (peak) out += ", " + to_text(*peak) + " at most taken";
    if (answer.ranks.size() > 1) out += ", a rank";
    return line("memory", out);
}

/// Of each rank where they differ.
[[nodiscard]] std::string memory_of_ranks(TrainAnswer const& answer) {
    auto const& ranks = answer.ranks;
    bool const are_alike = std::all_of(ranks.begin(), ranks.end(),
                                       [&](auto const& rank) { return rank.predicted == ranks.front().predicted; });
    if (are_alike) return {};
    std::string out;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        out += line(i == 0 ? "by rank" : "", std::to_string(i) + ": " + to_text(ranks[i].predicted));
    return out;
}

/// What else shapes a run, where it is not the default.
[[nodiscard]] std::string extras_of(TrainAnswer const& answer) {
    auto const& request = answer.request;
    // Of a stage that was chosen the reason tells.
    bool const is_chosen = request.is_auto && !request.pins.zero;
    std::string out;
    if (request.recompute != Recompute::none) out += ", recompute " + std::string(recompute_word(request.recompute));
    if (request.zero > 0 && !is_chosen) out += ", ZeRO " + std::to_string(request.zero);
    if (answer.plan.pp > 1) out += ", " + std::string(pipeline_words[static_cast<std::size_t>(request.pipeline)]);
    if (request.precision != Dtype::f32) out += ", " + std::string(traits(request.precision).short_name);
    if (request.offload != Offload::none)
        out += ", offload " + std::string(words_of<offload_choices>[static_cast<std::size_t>(request.offload)]);
    return out;
}

[[nodiscard]] std::string traffic(TrainAnswer const& answer) {
    auto const& step = answer.plan.traffic;
    if (step.messages == 0) return {};
    return line("traffic", to_text(Bytes{step.bytes}) + " a step, in " + counted(step.messages, "message"));
}

[[nodiscard]] std::string expected(TrainAnswer const& answer) {
    if (!answer.expected) return {};
    auto const step = answer.expected->seconds();
    return line("time", "at least " + duration(step) + " a step, " +
                            duration(step * static_cast<double>(answer.plan.steps)) + " in all: products at " +
                            decimals(answer.expected->operations_per_second / 1e9, 0) + " GFLOP/s");
}

[[nodiscard]] std::string percent(double share) {
    return decimals(100.0 * share, 0) + " %";
}

}  // namespace

std::string train_text(TrainAnswer const& answer) {
    auto const& plan = answer.plan;
    auto out = line("model", answer.model + ", " + grouped(answer.parameters) + " parameters");
    out += line("plan", plan.reason + "; micro-batch " + std::to_string(plan.micro_batch) + ", context " +
                            std::to_string(plan.context));
    out.insert(out.size() - 1, extras_of(answer));
    if (!plan.better.empty()) out += line("faster", plan.better);
    if (answer.request.is_dry_run) {
        if (!plan.exchange.empty()) out += line("gradients", "exchanged " + plan.exchange);
        out += line("steps", grouped(plan.steps));
        out += traffic(answer) + expected(answer) + memory(answer) + memory_of_ranks(answer);
        if (answer.is_fitting) return out + line("fits", "yes, in " + to_text(answer.budget));
        out += line("fits", "no: there are " + to_text(answer.budget));
        for (auto const& fix : answer.fixes) out += line("it would", fix.flags + " takes " + to_text(fix.bytes));
        return out;
    }
    out += line("steps",
                grouped(answer.steps) + " of " + grouped(plan.steps) + ", " + grouped(answer.tokens) + " tokens" +
                    (answer.skipped.empty()
                         ? ""
                         : "; " + counted(static_cast<std::int64_t>(answer.skipped.size()), "step") + " skipped"));
    out += losses(answer) + memory(answer);
    if (auto const seconds = answer.times.step; answer.steps_here > 0 && seconds > 0.0) {
        auto const rate = static_cast<std::int64_t>(static_cast<double>(answer.tokens_here) / seconds);
        auto step = duration(seconds / static_cast<double>(answer.steps_here)) + " a step";
        if (plan.ranks() > 1) step += ", " + percent(answer.times.exposed / seconds) + " of it communication";
        out += line("speed", grouped(rate) + " tokens per second, " + step);
    }
    if (!answer.checkpoints.empty()) out += line("checkpoint", answer.checkpoints.back());
    if (!answer.merged.empty()) out += line("merged model", answer.merged);
    return out;
}

}  // namespace shardwise::cli
