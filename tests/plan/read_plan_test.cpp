// SPDX-License-Identifier: Apache-2.0
#include <shardwise/plan/read_plan.hpp>

#include "saved_plans.hpp"
#include "temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>

using namespace shardwise;
using shardwise::tests::PlanText;

namespace {

/// The plan with one text in place of another that is in it.
[[nodiscard]] std::string with(std::string text, std::string_view part, std::string_view other) {
    auto const at = text.find(part);
    REQUIRE_MESSAGE(at != std::string::npos, part);
    return text.replace(at, part.size(), other);
}

void check_refused(std::string const& text, ErrorCode code, std::string_view key) {
    auto const plan = parse_plan(text, "plan.json");
    REQUIRE_MESSAGE(!plan, key);
    CHECK_MESSAGE(plan.error().code() == code, plan.error().message());
    CHECK_MESSAGE(plan.error().subject() == "plan.json", plan.error().message());
    CHECK_MESSAGE(plan.error().place() == key, plan.error().message());
    CHECK_MESSAGE(!plan.error().advice().empty(), plan.error().message());
}

}  // namespace

TEST_CASE("read_plan: all that a plan says is read, from a file too") {
    PlanText text;
    text.quant = "int4";
    text.optimizer = "adam";
    testing::TemporaryFolder const folder;
    auto const path = folder.path() + "/plan.json";
    std::ofstream(path) << text.text();
    auto const plan = read_plan(path);
    REQUIRE(plan);
    CHECK(plan->model == "small");
    CHECK(plan->source == "/models/small");
    CHECK(plan->architecture == "LlamaForCausalLM");
    CHECK(plan->parameters == 1000);
    CHECK(plan->objective == "latency");
    CHECK(plan->devices == "2x(2xH100-80GB)");
    CHECK(plan->context == 4096);
    CHECK(plan->dtype.empty());
    CHECK(plan->quant == "int4");
    CHECK(plan->kv_dtype == "bf16");
    CHECK(plan->prefill_chunk == 8192);
    CHECK(plan->is_training());
    CHECK(plan->degrees == PlanDegrees{.tp = 2, .pp = 2});
    CHECK(plan->is_even);
    REQUIRE(plan->stages.size() == 2);
    CHECK(plan->stages[1].first_layer == 4);
    CHECK(plan->stages[1].has_head);
    REQUIRE(plan->ranks.size() == 4);
    auto const& last = plan->ranks[3];
    CHECK(last.place == RankPlace{.tp = 1, .pp = 1});
    CHECK(last.device == DeviceId::gpu(3));
    CHECK(last.kind == DeviceKind::cuda);
    CHECK(last.node == 1);
    CHECK(last.terms.optimizer == Bytes{5});
    CHECK(last.capacity == Bytes{70});
    CHECK(plan->step == 0.5);
    CHECK(read_plan(folder.path() + "/none.json").error().code() == ErrorCode::file_not_found);
}

TEST_CASE("read_plan: plans of writers that did not say a device's kind take it from its name") {
    auto const kind = [](std::string_view name, std::string_view device = "0") {
        auto text = PlanText{.devices = "1xH100-80GB", .name = std::string(name), .tp = 1, .pp = 1}.text();
        text = with(with(text, R"("kind":"cuda",)", ""), R"("device":0)", R"("device":)" + std::string(device));
        auto const plan = parse_plan(text, "plan.json");
        REQUIRE(plan);
        return plan->ranks[0].kind;
    };
    CHECK(kind("H100-80GB") == DeviceKind::cuda);
    CHECK(kind("MI300X") == DeviceKind::hip);
    CHECK(kind("something") == DeviceKind::cuda);
    CHECK(kind("M2-Ultra-192GB", "\"mps\"") == DeviceKind::metal);
    CHECK(kind("host", "\"cpu\"") == DeviceKind::cpu);
}

TEST_CASE("read_plan: another schema is refused by its name, a plan that does not fit with its reason") {
    auto const text = PlanText{}.text();
    for (std::string_view const other : {"shardwise.map/1", "shardwise.plan/2", "SHARDWISE.PLAN/1", ""}) {
        auto const plan = parse_plan(with(text, "shardwise.plan/1", other), "plan.json");
        REQUIRE(!plan);
        CHECK(plan.error().code() == ErrorCode::unsupported);
        auto const named = plan.error().message().find("\"" + std::string(other) + "\"");
        CHECK_MESSAGE(named != std::string::npos, plan.error().message());
    }
    check_refused(with(text, R"("schema":"shardwise.plan/1",)", ""), ErrorCode::missing_field, "schema");
    check_refused(with(text, R"("shardwise.plan/1")", "1"), ErrorCode::invalid_field, "schema");
    auto const full = with(text, R"("fits":true)", R"("fits":false,"reason":"rank 3 lacks 2 GiB")");
    check_refused(full, ErrorCode::out_of_memory, "");
    CHECK(parse_plan(full, "plan.json").error().message().find("rank 3 lacks 2 GiB") != std::string::npos);
}

TEST_CASE("read_plan: what is missing, of another type, out of range or contradicts the rest is named") {
    auto const text = PlanText{}.text();
    struct Change {
        std::string_view part;
        std::string_view other;
        ErrorCode code;
        std::string_view key;
    };
    constexpr auto field = ErrorCode::invalid_field;
    for (auto const& change : {
             Change{R"("name":"small",)", "", ErrorCode::missing_field, "model.name"},
             Change{R"("name":"small")", R"("name":7)", field, "model.name"},
             Change{R"("name":"small")", R"("name":"a\u0000b")", field, "model.name"},
             Change{R"("parameters":1000)", R"("parameters":1e3)", field, "model.parameters"},
             Change{R"("fits":true)", R"("fits":1)", field, "fits"},
             Change{R"("training":null)", R"("training":[])", ErrorCode::missing_field, "request.training.optimizer"},
             Change{R"("prefill_chunk":8192)", R"("prefill_chunk":0)", field, "request.prefill_chunk"},
             Change{R"("plan":{"tp":2)", R"("plan":{"tp":0)", field, "plan.tp"},
             Change{R"("plan":{"tp":2)", R"("plan":{"tp":9223372036854775807)", field, "plan.tp"},
             Change{R"("plan":{"tp":2)", R"("plan":{"tp":18446744073709551615)", field, "plan.tp"},
             Change{R"("plan":{"tp":2)", R"("plan":{"tp":4)", field, "ranks"},
             Change{R"("plan":{)", R"("plan":null,"x":{)", field, "plan"},
             Change{R"("first_layer":4)", R"("first_layer":5)", field, "stages.1.first_layer"},
             Change{R"("seconds":0.001)", R"("seconds":-1)", field, "stages.0.seconds"},
             Change{R"("rank":1)", R"("rank":2)", field, "ranks.1.rank"},
             Change{R"("node":0)", R"("node":-1)", field, "ranks.0.node"},
             Change{R"("device":1)", R"("device":0)", field, "ranks.1.device"},
             Change{R"("device":1)", R"("device":"disk")", field, "ranks.1.device"},
             Change{R"("kind":"cuda")", R"("kind":"tpu")", field, "ranks.0.kind"},
             Change{R"("tp":1,"pp":0)", R"("tp":0,"pp":0)", field, "ranks.1"},
             Change{R"("bytes":21)", R"("bytes":22)", field, "ranks.0.bytes"},
             Change{R"("weights":1)", R"("weights":9223372036854775807)", field, "ranks.0.weights"},
             Change{R"("total":0.5)", R"("total":"x")", field, "cost.total"},
         }) {
        check_refused(with(text, change.part, change.other), change.code, change.key);
    }
    CHECK(parse_plan(with(text, R"("fits":true)", R"("fits":true,"fits":true)"), "p").error().code() ==
          ErrorCode::malformed_file);
    CHECK(parse_plan("[]", "p").error().code() == ErrorCode::invalid_field);
}

TEST_CASE("read_plan: a plan cut at any byte, or with bytes changed, is refused or read, never a crash") {
    auto const text = PlanText{}.text();
    for (std::size_t size = 0; size < text.size(); ++size) {
        auto const plan = parse_plan(std::string_view(text).substr(0, size), "plan.json");
        REQUIRE(!plan);
        CHECK(plan.error().code() == ErrorCode::malformed_file);
    }
    std::mt19937 random(23);
    for (int i = 0; i < 3000; ++i) {
        auto changed = text;
        for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = "0129-.,:{}[]\"eatn\x80 "[random() % 19];
        auto const plan = parse_plan(changed, "plan.json");
        if (plan) CHECK(static_cast<std::int64_t>(plan->ranks.size()) == plan->degrees.ranks());
    }
}
