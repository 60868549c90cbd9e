// SPDX-License-Identifier: Apache-2.0
#include "train_choice.hpp"

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/train/choose_training.hpp>

#include "text.hpp"
#include "train_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string flags_of(TrainingWay const& way) {
    std::string out;
    auto const add = [&](std::string const& flag, std::int64_t value) {
        out += (out.empty() ? "" : " ") + flag + " " + std::to_string(value);
    };
    if (way.dp > 1) add("--dp", way.dp);
    if (way.tp > 1) add("--tp", way.tp);
    if (way.pp > 1) add("--pp", way.pp);
    if (way.zero != ZeroStage::none) add("--zero", static_cast<std::int64_t>(way.zero));
    return out.empty() ? "one rank" : out;
}

[[nodiscard]] Error by_flag(Error const& error) {
    auto const flag = error.place() == "dp" || error.place() == "tp" || error.place() == "pp"
                          ? "--" + std::string(error.place())
                          : std::string("--mode auto");
    return Error{error}.in(flag).at({});
}

[[nodiscard]] Result<TrainingChoice> search_ways(TrainRequest const& request, TrainPlan const& plan, Model const& model,
                                                 RopeDivisors const& divisors, TrainingMachines const& machines,
                                                 TrainingPins const& pins) {
    return with_rule(request, [&](auto const& rule) {
        return TrainingSearch(model, rule, batch_options_of(request, plan), train_options_of(request, plan), machines,
                              pins, request.low_rank, saves_beside(request, plan), divisors)
            .run();
    });
}

/// What would be faster, and what it takes.
[[nodiscard]] std::string better_of(TrainingChoice const& found, Bytes memory) {
    if (!found.is_fitting || !found.faster) return {};
    auto const part = found.faster->seconds / found.way.seconds;
    auto const more = found.faster->fullest - memory;
    return flags_of(*found.faster) + " would take " + decimals(part, 2) + " of the time, and needs " + to_text(more) +
           " more on a machine";
}

}  // namespace

bool needs_choice(TrainRequest const& request) {
    return request.is_auto && (request.free_ranks > 0 || (request.dp > 1 && !request.pins.zero));
}

TrainChoice fall_back(RunRanks& ranks, TrainRequest& request, std::string const& why) {
    TrainChoice out;
    out.has_left = !ranks.is_first();
    if (out.has_left)
        std::fprintf(stderr, "shardwise: rank %d: leaves the training to rank 0: %s\n", ranks.rank(), why.c_str());
    else
        std::fprintf(stderr, "shardwise: trains on one rank: %s\n", why.c_str());
    ranks.leave();
    request.free_ranks = 0;
    request.dp = request.tp = request.pp = 1;
    request.fallback = why;
    return out;
}

Result<TrainChoice> choose_ranks(RunRanks& ranks, TrainRequest& request, TrainPlan const& plan, Model const& model,
                                 RopeDivisors const& divisors, Bytes memory) {
    bool const is_free = request.free_ranks > 0;
    auto const all = request.ranks();
    TrainChoice out;
    out.per_machine = is_free ? std::max<std::int64_t>(1, ranks.local_ranks()) : 0;
    TrainingMachines const machines{.ranks = all,
                                    .per_machine = is_free ? out.per_machine : all,
                                    .are_threads = ranks.kind() == RankKind::threads,
                                    .memory = memory};
    auto pins = request.pins;
    if (!is_free) {
        pins.dp = request.dp;
        pins.tp = request.tp;
        pins.pp = request.pp;
    }
    Result<> went;
    std::array<std::int64_t, 5> numbers{};
    std::string why;
    if (ranks.is_first()) {
        auto const found = search_ways(request, plan, model, divisors, machines, pins);
        if (found) {
            auto const& way = found->way;
            numbers = {way.dp, way.tp, way.pp, static_cast<std::int64_t>(way.zero), 0};
            out.better = better_of(*found, memory);
            if (!found->is_fitting)
                why = "no way to share the training over " + counted(all, "rank") + " fits: a machine would need " +
                      to_text(way.fullest) + " and has " + to_text(memory);
        } else {
            went = by_flag(found.error());
            why = went.error().message();
            bool const has_pins = pins.dp || pins.tp || pins.pp;
            if (is_free && !has_pins && found.error().code() == ErrorCode::invalid_argument)
                went = Error{ErrorCode::invalid_argument}
                           .in(counted(all, "rank"))
                           .because(
                               "have no way to share the training: no product of --dp, --tp and --pp that batch and "
                               "model allow makes so many")
                           .fix("start another number of ranks, or write --mode auto, which then trains on one");
        }
        if (!why.empty() && request.may_fall_back && is_free && all > 1) {
            auto const alone = search_ways(request, plan, model, divisors, {.memory = memory},
                                           {.zero = ZeroStage::none, .micro_batch = pins.micro_batch});
            if (alone && alone->is_fitting) {
                numbers.back() = 1;
                went = {};
            }
        }
    }
    if (auto* const world = ranks.world(); world != nullptr) {
        if (auto const agreed = agree_on(*world, went); !agreed) return agreed.error();
        auto const count = static_cast<std::int64_t>(numbers.size());
        auto const told = broadcast(*world, TensorView<std::int64_t, 1, Host>(numbers.data(), {count}), 0);
        if (!told) return told.error();
    }
    if (!went) return went.error();
    if (numbers.back() == 1)
        return fall_back(ranks, request, ranks.is_first() ? why : "no way to share it over all ranks fits");
    request.free_ranks = 0;
    request.dp = numbers[0];
    request.tp = numbers[1];
    request.pp = numbers[2];
    request.zero = static_cast<std::int32_t>(numbers[3]);
    return out;
}

Result<> check_train_ranks(TrainRequest const& request, RunRanks const& ranks) {
    if (request.dp > request.batch && request.free_ranks == 0)
        return Error{ErrorCode::invalid_argument}
            .in("--dp, --batch")
            .because("give each rank less than one sequence of a step")
            .got(request.dp)
            .at_most(request.batch)
            .fix("use fewer ranks or a larger batch");
    if (request.min_ranks > request.ranks())
        return Error{ErrorCode::invalid_argument}
            .in("--min-ranks")
            .because("is more than there are ranks")
            .got(request.min_ranks)
            .at_most(request.ranks());
    if (request.max_restarts > 0 && (ranks.has_launcher() || ranks.kind() == RankKind::mpi))
        return Error{ErrorCode::unsupported}
            .in("--max-restarts")
            .because("is of ranks that this program starts, and a launcher has started these")
            .fix("have the launcher start them again: shardwise launch --max-restarts, torchrun --max-restarts");
    if ((ranks.is_group() || request.max_restarts > 0) && request.model == "-")
        return Error{ErrorCode::unsupported}
            .in("-")
            .because("is read once, and each process that trains reads the model")
            .fix("name a file, or use --ranks threads");
    return {};
}

}  // namespace shardwise::cli
