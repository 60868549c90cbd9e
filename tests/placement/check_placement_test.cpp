// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/device_map.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace shardwise;

namespace {

/// Answers what it was given, right or wrong.
struct Fixed {
    std::string_view name = "fixed";
    Placement answer;

    constexpr Result<Placement> operator()(ModuleSequence const&, Budgets const&) const { return answer; }
};

/// One layer on two devices.
struct Case {
    Model model;
    ModuleSequence modules;
    Budgets budgets;
    Placement answer;

    Case() {
        auto config = presets::llama_3_8b;
        config.layers = 1;
        model = describe(config).value();
        modules = build_sequence(model, {});
        budgets = budgets_for(presets::two_rtx4090, model, {});
        answer.device_of.assign(modules.units.size(), 0);
    }
    Result<MapPlan> plan() const { return DeviceMap<Fixed>{Fixed{.answer = answer}}.plan(modules, budgets); }
    std::string refusal() const {
        auto const found = plan();
        if (found) return "accepted";
        CHECK(found.error().code() == ErrorCode::invalid_argument);
        CHECK(!DeviceMap<Fixed>{Fixed{.answer = answer}}.place(modules, budgets).has_value());
        CHECK(!DeviceMap<Fixed>{Fixed{.answer = answer}}.fits(modules, budgets).has_value());
        return found.error().message();
    }
};

}  // namespace

TEST_CASE("A strategy's answer that is no placement is refused, with the strategy's name and the unit's") {
    Case c;
    REQUIRE(c.modules.units.size() == 4);
    REQUIRE(c.modules.units[1].path == "model.layers.0");
    CHECK(c.refusal() == "accepted");
    for (std::int32_t const index : {7, 2, -1, INT32_MIN, INT32_MAX}) {
        c.answer.device_of[1] = index;
        CHECK(c.refusal() == "fixed: model.layers.0: the strategy gives this unit a device that no budget has (got " +
                                 std::to_string(index) + "); give an index from 0 to the number of budgets less 1");
    }
    c.answer.device_of = {0};
    CHECK(c.refusal() == "fixed: model.layers.0: the strategy gives no device for this unit and those after it (got 1, expected 4); "
                         "give one index for each unit, in the order of the units");
    c.answer.device_of = {};
    CHECK(c.refusal().find("fixed: model.embed_tokens: the strategy gives no device") == 0);
    c.answer.device_of = {0, 0, 0, 0, 0};
    CHECK(c.refusal().find("fixed: the strategy gives devices for more units than there are (got 5, expected 4)") == 0);
}

TEST_CASE("A placement may go back to an earlier device, but not with a certificate of contiguous ones") {
    Case c;
    c.answer.device_of = {0, 1, 0, 1};
    auto const plan = c.plan();
    REQUIRE(plan.has_value());
    CHECK(plan->fits);
    c.answer.certificate = Certificate{};
    CHECK(c.refusal().find("fixed: model.norm: the strategy certifies a contiguous placement, and this unit returns to an earlier "
                           "device (got 0, expected at least 1)") == 0);
    c.answer.device_of = {0, 1, 1, 1};
    CHECK(c.refusal() == "accepted");
}

TEST_CASE("A placement that overfills a device does not fit: the plan names the strategy, the unit, the device and the bytes") {
    Case c;
    auto& first = c.budgets[0];
    // All but the head: the head is the unit that is too much.
    c.answer.device_of = {0, 0, 0, 1};
    first.capacity = used_bytes(c.modules, c.budgets, c.answer)[0];
    CHECK(c.plan()->fits);
    c.answer.device_of = {0, 0, 0, 0};
    auto const plan = c.plan();
    REQUIRE(plan.has_value());
    CHECK(!plan->fits);
    REQUIRE(plan->shortfall.has_value());
    CHECK(plan->shortfall->device == DeviceId::gpu(0));
    CHECK(plan->shortfall->missing == used_bytes(c.modules, c.budgets, c.answer)[0] - first.capacity);
    REQUIRE(plan->reason.has_value());
    CHECK(plan->reason->code() == ErrorCode::out_of_memory);
    CHECK(plan->reason->message().find("fixed: lm_head needs ") == 0);
    CHECK(!DeviceMap<Fixed>{Fixed{.answer = c.answer}}.fits(c.modules, c.budgets).value());
}

TEST_CASE("check_fit: a strategy that overfills a device has not found a place") {
    struct AllOnTheFirst {
        std::string_view name = "all_on_the_first";
        Result<Placement> operator()(ModuleSequence const& modules, Budgets const&) const {
            Placement placement;
            placement.device_of.assign(modules.units.size(), 0);
            return placement;
        }
    };
    CHECK(check_fit<AllOnTheFirst>(presets::llama_3_8b, presets::two_rtx4090).value());
    CHECK(!check_fit<AllOnTheFirst>(presets::llama_3_70b, presets::eight_h100_80gb).value());
}
