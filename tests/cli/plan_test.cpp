// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <set>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// The names of the cost terms, in the order of the reports.
constexpr char const* cost_terms[] = {"compute",       "memory", "tensor_parallel", "expert_parallel", "pipeline",
                                      "data_parallel", "bubble", "optimizer",       "overhead"};

[[nodiscard]] std::int64_t product(Answer const& answer) {
    return answer.integer("plan", "tp") * answer.integer("plan", "pp") * answer.integer("plan", "dp") *
           answer.integer("plan", "ep");
}

/// What holds of every plan: as many ranks as degrees say, each on a device of its own that has room for it; layers
/// follow each other; the terms add up; no runner-up is better.
void check_plan(Answer const& answer) {
    REQUIRE(answer.text("schema") == "shardwise.plan/1");
    auto const ranks = answer.size("ranks");
    CHECK(static_cast<std::int64_t>(ranks) == product(answer));
    std::set<std::int64_t> devices;
    for (std::size_t i = 0; i < ranks; ++i) {
        devices.insert(answer.integer("ranks", i, "device"));
        CHECK(answer.integer("ranks", i, "bytes") <= answer.integer("ranks", i, "capacity"));
        std::int64_t sum = 0;
        for (auto const* term : {"weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"})
            sum += answer.integer("ranks", i, term);
        CHECK(sum == answer.integer("ranks", i, "bytes"));
    }
    CHECK(devices.size() == ranks);
    CHECK(static_cast<std::int64_t>(answer.size("stages")) == answer.integer("plan", "pp"));
    std::int64_t next = 0;
    for (std::size_t i = 0; i < answer.size("stages"); ++i) {
        CHECK(answer.integer("stages", i, "first_layer") == next);
        next += answer.integer("stages", i, "layers");
    }
    double sum = 0.0;
    for (auto const* term : cost_terms) {
        CHECK(answer.real("cost", term) >= 0.0);
        sum += answer.real("cost", term);
    }
    CHECK(sum == doctest::Approx(answer.real("cost", "total")));
    CHECK(answer.real("cost", "tokens_per_second") > 0.0);
    CHECK(answer.size("reasons") > 0);
    for (std::size_t i = 0; i < answer.size("alternatives"); ++i) {
        CHECK(answer.real("alternatives", i, "loss") >= 0.0);
        CHECK(!answer.text("alternatives", i, "reason").empty());
    }
}

}  // namespace

TEST_CASE("plan: cuts a model over a node and says what each rank holds, what time goes to and why") {
    auto const ran = run({"plan", "llama-3-70b", "--devices", "8xH100-80GB", "--context", "8192", "--json"});
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    Answer const answer(ran.out);
    check_plan(answer);
    CHECK(answer.integer("stages", answer.size("stages") - 1, "first_layer") +
              answer.integer("stages", answer.size("stages") - 1, "layers") ==
          80);
    CHECK(answer.text("tp_plan", "model.layers.*.self_attn.q_proj") == "colwise");
    CHECK(answer.text("tp_plan", "model.layers.*.mlp.down_proj") == "rowwise");
    CHECK(answer.real("cost", "prefill", "total") > answer.real("cost", "total"));
}

TEST_CASE("plan: ranks hold what estimate says of the same degrees") {
    for (auto const* model : {"llama-3-8b", "mixtral-8x7b"}) {
        auto const ran =
            run({"plan", model, "--devices", "4xA100-80GB", "--batch", "8", "--context", "2048", "--json"});
        CAPTURE(ran.err);
        REQUIRE(ran.status == 0);
        Answer const plan(ran.out);
        check_plan(plan);
        auto const degree = [&](char const* name) { return std::to_string(plan.integer("plan", name)); };
        auto const replicas = plan.integer("plan", "dp") * plan.integer("plan", "ep");
        auto const batch = std::to_string((8 + replicas - 1) / replicas);
        auto const estimated = run({"estimate", model, "--tp", degree("tp"), "--pp", degree("pp"), "--dp", degree("dp"),
                                    "--ep", degree("ep"), "--batch", batch, "--micro-batches", degree("micro_batches"),
                                    "--context", "2048", "--json"});
        REQUIRE(estimated.status == 0);
        Answer const estimate(estimated.out);
        REQUIRE(estimate.size("devices") == plan.size("ranks"));
        if (plan.integer("plan", "pp") > 1) continue;
        for (std::size_t i = 0; i < plan.size("ranks"); ++i) {
            CHECK(plan.integer("ranks", i, "bytes") == estimate.integer("devices", i, "total"));
            CHECK(plan.integer("ranks", i, "tp") == estimate.integer("devices", i, "rank", "tp"));
            CHECK(plan.integer("ranks", i, "ep") == estimate.integer("devices", i, "rank", "ep"));
        }
    }
}

TEST_CASE("plan: what does not fit exits 3 with changes that do help") {
    auto const ran = run({"plan", "llama-3-70b", "--devices", "1xA100-80GB", "--json"});
    CHECK(ran.status == 3);
    Answer const answer(ran.out);
    CHECK(answer.is_null("plan"));
    CHECK(!answer.text("reason").empty());
    REQUIRE(answer.size("fix") >= 2);
    auto const text = run({"plan", "llama-3-70b", "--devices", "1xA100-80GB"});
    CHECK(text.status == 3);
    CHECK(text.out.find("does not fit") != std::string::npos);
    for (std::size_t i = 0; i < answer.size("fix"); ++i) {
        auto const kind = answer.text("fix", i, "kind");
        CAPTURE(kind);
        CHECK(text.out.find(answer.text("fix", i, "text")) != std::string::npos);
        if (kind == "quant")
            CHECK(run({"plan", "llama-3-70b", "--devices", "1xA100-80GB", "--quant", answer.text("fix", i, "quant")})
                      .status == 0);
        if (kind == "devices") {
            auto const count = std::to_string(1 + answer.integer("fix", i, "devices")) + "xA100-80GB";
            CHECK(run({"plan", "llama-3-70b", "--devices", count}).status == 0);
        }
    }
}

TEST_CASE("plan: mxfp4 packs nothing of a model without experts, and the warning says so") {
    auto const dense = run({"plan", "llama-3-8b", "--devices", "2xA100-80GB", "--quant", "mxfp4"});
    CHECK(dense.status == 0);
    CHECK(dense.err.find("mxfp4 packs the weights of experts only") != std::string::npos);
    auto const experts = run({"plan", "mixtral-8x7b", "--devices", "2xA100-80GB", "--quant", "mxfp4"});
    CHECK(experts.status == 0);
    CHECK(experts.err.find("mxfp4") == std::string::npos);
}

TEST_CASE("plan: an encoder reads whole sequences in a pass, and decodes no token") {
    auto const ran = run({"plan", "bert-base", "--devices", "2xT4"});
    CHECK(ran.status == 0);
    CHECK(ran.out.find("one pass") != std::string::npos);
    CHECK(ran.out.find("read: ") != std::string::npos);
    CHECK(ran.out.find("token,") == std::string::npos);
    CHECK(ran.out.find("decoded") == std::string::npos);
    auto const json = run({"plan", "bert-base", "--devices", "2xT4", "--batch", "4", "--context", "256", "--json"});
    Answer const answer(json.out);
    CHECK(answer.is_null("cost", "prefill"));
    CHECK(answer.real("cost", "tokens_per_second") == doctest::Approx(4.0 * 256.0 / answer.real("cost", "total")));
}

TEST_CASE("plan: fixes of a large cluster are the same every time") {
    std::string const devices = "128x(8xT4)";
    auto const first =
        run({"plan", "llama-3.1-405b", "--devices", devices, "--batch", "65536", "--context", "4096", "--json"});
    CHECK(first.status == 3);
    CHECK(Answer(first.out).size("fix") >= 2);
    CHECK(
        run({"plan", "llama-3.1-405b", "--devices", devices, "--batch", "65536", "--context", "4096", "--json"}).out ==
        first.out);
}

TEST_CASE("plan: training shows its own terms, and ZeRO's stage is searched unless it is given") {
    auto const ran = run({"plan", "llama-3-8b", "--devices", "8xA100-80GB", "--training", "adam", "--batch", "32",
                          "--context", "2048", "--json"});
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    Answer const answer(ran.out);
    check_plan(answer);
    CHECK(answer.text("request", "training", "optimizer") == "adam");
    CHECK(answer.is_null("cost", "prefill"));
    CHECK(answer.integer("ranks", std::size_t{0}, "optimizer") > 0);
    auto const fixed = run({"plan", "llama-3-8b", "--devices", "8xA100-80GB", "--training", "adam", "--zero", "3",
                            "--batch", "32", "--context", "2048", "--json"});
    CHECK(Answer(fixed.out).integer("plan", "zero") == 3);
}

TEST_CASE("plan: throughput without a batch chooses one, and the same batch given makes the same plan") {
    auto const chosen = run({"plan", "llama-3-8b", "--devices", "2xL4", "--objective", "throughput", "--json"});
    REQUIRE(chosen.status == 0);
    Answer const answer(chosen.out);
    check_plan(answer);
    auto const batch = answer.integer("plan", "batch");
    CHECK(batch > 1);
    CHECK(answer.integer("request", "batch") == batch);
    auto const given = run({"plan", "llama-3-8b", "--devices", "2xL4", "--objective", "throughput", "--batch",
                            std::to_string(batch), "--json"});
    CHECK(given.out == chosen.out);
    auto const text = run({"plan", "llama-3-8b", "--devices", "2xL4", "--objective", "throughput"});
    CHECK(text.out.find("chosen, because none was given") != std::string::npos);
}

TEST_CASE("plan: cpu and disk are left out with a warning; alone they are no devices to plan on") {
    auto const ran = run({"plan", "gpt2", "--devices", "1xT4+cpu:64GiB+disk"});
    CHECK(ran.status == 0);
    CHECK(ran.says("cpu and disk are left out"));
    auto const none = run({"plan", "gpt2", "--devices", "cpu:64GiB"});
    CHECK(none.status == 4);
    CHECK(none.says("--devices"));
}

TEST_CASE("plan --svg: draws what was planned, and devices where nothing fits") {
    TemporaryFolder const folder;
    CHECK(run({"plan", "gpt2", "--devices", "2xT4", "--svg", folder.path("fits.svg")}).status == 0);
    CHECK(read_text(folder.path("fits.svg")).find("gpt2") != std::string::npos);
    CHECK(run({"plan", "llama-3-70b", "--devices", "2xT4", "--svg", folder.path("none.svg")}).status == 3);
    CHECK(read_text(folder.path("none.svg")).find("does not fit") != std::string::npos);
}

TEST_CASE("plan: --utilization says how much of each device may be used, --prefill-chunk how prompts are computed") {
    auto const plan = [](std::vector<std::string> more, std::string const& devices = "2xL4") {
        more.insert(more.begin(), {"plan", "llama-3-8b", "--devices", devices, "--objective", "throughput", "--context",
                                   "4096", "--json"});
        return run(more);
    };
    constexpr auto whole = 23034LL << 20U;
    auto const check = [&](std::vector<std::string> const& more, std::int64_t capacity) {
        auto const ran = plan(more);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.integer("ranks", 0U, "capacity") == capacity);
        CHECK(answer.integer("ranks", 0U, "total") == whole);
        CHECK(answer.integer("ranks", 0U, "bytes") <= capacity);
        return answer.integer("plan", "batch");
    };
    auto const most = check({}, 22220667617);  // 0.92 * 23034 MiB = 22220667617.28
    CHECK(most > check({"--utilization", "0.5"}, whole / 2));
    CHECK(most <= check({"--utilization", "1"}, whole));
    // Whole prompts of 4096 tokens leave less for caches.
    CHECK(most > check({"--prefill-chunk", "none"}, 22220667617));
    CHECK(Answer(plan({}).out).integer("request", "prefill_chunk") == 8192);
    CHECK(Answer(plan({}, "2xgpu:20GiB").out).integer("ranks", 0U, "capacity") == 20LL << 30U);
    CHECK(run({"plan", "llama-3-8b", "--devices", "1xL4"}).out.find("; utilization 0.92\n") != std::string::npos);
    for (auto const* wrong : {"0", "-0.5", "1.01", "nan", "x", ""}) {
        auto const ran = plan({"--utilization", wrong});
        CHECK(ran.status == 2);
        CHECK(ran.err.find("--utilization") != std::string::npos);
    }
}

TEST_CASE("plan: a plan for the fewest devices leaves devices free") {
    auto const ran = run({"plan", "llama-3-8b", "--devices", "8xA100-80GB", "--objective", "devices", "--json"});
    REQUIRE(ran.status == 0);
    Answer const answer(ran.out);
    check_plan(answer);
    CHECK(answer.size("ranks") == 1);
}

TEST_CASE("plan: the report names degrees, devices, terms and runners-up") {
    auto const ran = run({"plan", "llama-3-8b", "--devices", "2xRTX4090", "--batch", "4"});
    REQUIRE(ran.status == 0);
    for (auto const* text : {"on 2xRTX4090", "objective latency", "RTX4090  ", "weights", "memory", "total",
                             "tokens per second", "runners-up", "slower"}) {
        CAPTURE(text);
        CHECK(ran.out.find(text) != std::string::npos);
    }
    CHECK(run({"plan", "llama-3-8b", "--devices", "2xRTX4090", "--color", "always"}).out.find("\x1b[") !=
          std::string::npos);
}

TEST_CASE("plan: wrong usage exits 2 and unknown devices exit 4, by name") {
    CHECK(run({"plan", "llama-3-8b"}).status == 2);
    CHECK(run({"plan", "--devices", "1xL4"}).status == 2);
    auto const objective = run({"plan", "llama-3-8b", "--devices", "1xL4", "--objective", "latence"});
    CHECK(objective.status == 2);
    CHECK(objective.says("did you mean latency?"));
    auto const device = run({"plan", "llama-3-8b", "--devices", "2xH1000", "--json"});
    CHECK(device.status == 4);
    CHECK(Answer(device.out).text("error", "code") == "no_such_device");
    CHECK(run({"plan", "llama-3-8b", "--devices", "1xL4", "--zero", "1"}).status == 2);
    CHECK(run({"plan", "lama-3-8b", "--devices", "1xL4"}).status == 1);
}
