// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/closest_cut.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace shardwise;

namespace {

/// The fullest rank of even stages.
double fullest(CutMemory const& memory, LayerSlots const& slots, PlanDegrees const& degrees) {
    double most = 0.0;
    for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
        auto const begin = slots.size() * stage / degrees.pp;
        auto const end = slots.size() * (stage + 1) / degrees.pp;
        for (auto const& rank : memory.ranks) {
            auto const terms = rank.stage_memory(rank.sum(slots, begin, end), stage, degrees.dp, degrees.zero);
            most = std::max(most, static_cast<double>(terms.total().count()));
        }
    }
    return most;
}

struct Passed {
    int cuts = 0;
    /// Of those, which a quarter less memory refuses.
    int refused = 0;
};

/// Asks the check about even stages on devices that are just large enough for them.
Passed check_jobs(ModelConfig const& config, EstimateRequest const& job) {
    auto const model = *describe(config);
    auto const parts = find_parts(model, depends_on_layer(job));
    auto const slots = find_slots(model, parts, depends_on_layer(job));
    CutMemories memories(model, job, parts, slots);
    CapacityCheck check(model, job, slots, memories);
    Passed passed;
    for (auto const tp : {1, 3, 8}) {
        for (auto const pp : {1, 2, 7}) {
            for (auto const dp : {1, 4}) {
                for (std::int32_t zero = 0; zero <= (job.training && dp > 1 ? 3 : 0); ++zero) {
                    PlanDegrees degrees{.tp = tp, .pp = pp, .dp = dp, .ep = config.experts > 0 ? 2 : 1, .zero = zero};
                    auto const batch = rank_batch(job.batch, degrees);
                    for (auto const micro_batches : micro_batch_counts(batch, pp, job.training.has_value())) {
                        degrees.micro_batches = micro_batches;
                        auto const most = fullest(memories.of(degrees), slots, degrees);
                        HeldBytes held;
                        check.weigh(degrees, held);
                        auto const* bytes = check.slot_bytes(degrees, ceil_divide(batch, micro_batches));
                        auto const fits = [&](double capacity) {
                            return check.may_fit(held, degrees, bytes,
                                                 [capacity](std::int64_t) { return StageLimit{.bytes = capacity}; });
                        };
                        CHECK(fits(most));
                        for (double const share : {0.5, 0.75, 0.95, 1.0, 1.5, 4.0})
                            CHECK(check.may_fit_alike(held, degrees, bytes, share * most) == fits(share * most));
                        // What is found without a layout is no more.
                        auto const* least = check.slot_bytes(degrees, ceil_divide(batch, micro_batches), false);
                        for (std::size_t kind = 0; kind < slots.kinds.size(); ++kind) {
                            CHECK(least[kind].at_work <= bytes[kind].at_work);
                            CHECK(least[kind].kept == bytes[kind].kept);
                        }
                        CHECK(check.may_hold(held, degrees, static_cast<double>(pp) * most));
                        CHECK(!fits(held.whole / static_cast<double>(2 * pp)));
                        ++passed.cuts;
                        passed.refused += fits(0.75 * most) ? 0 : 1;
                    }
                }
            }
        }
    }
    return passed;
}

}  // namespace

TEST_CASE("CapacityCheck: lets stages pass that fit, under every convention, and refuses most that lack a quarter") {
    for (auto const& config : {presets::llama_3_8b, presets::mixtral_8x7b}) {
        for (auto const convention :
             {MemoryConvention::shardwise, MemoryConvention::zero, MemoryConvention::megatron_paper}) {
            EstimateRequest job;
            job.batch = 32;
            job.training = TrainingPlan{.convention = convention};
            auto const passed = check_jobs(config, job);
            CHECK(2 * passed.refused > passed.cuts);
        }
        EstimateRequest job;
        job.batch = 32;
        auto const passed = check_jobs(config, job);
        CHECK(2 * passed.refused > passed.cuts);
    }
}

TEST_CASE("CapacityCheck: gives a stage no more slots than its time allows") {
    auto const model = *describe(presets::llama_3_8b);
    EstimateRequest const job;
    auto const parts = find_parts(model, false);
    auto const slots = find_slots(model, parts, false);
    CutMemories memories(model, job, parts, slots);
    CapacityCheck check(model, job, slots, memories);
    PlanDegrees const degrees{.pp = 4};
    HeldBytes held;
    check.weigh(degrees, held);
    std::vector<double> const seconds(slots.kinds.size(), 1.0);
    auto const fits = [&](double most) {
        return check.may_fit(held, degrees, check.slot_bytes(degrees, 1), [&](std::int64_t) {
            return StageLimit{1e15, seconds.data(), most};
        });
    };
    REQUIRE(slots.size() == 32);
    CHECK(fits(8.0));
    CHECK(!fits(7.9));
}
