// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/shell_line.hpp>
#include <shardwise/plan/read_plan.hpp>

#include <doctest/doctest.h>

#include "program.hpp"
#include "saved_plans.hpp"
#include "shell.hpp"
#include "skip.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

void check_refusal(std::vector<std::string> const& words, int status, std::string_view reason) {
    auto const ran = run(words);
    CHECK_MESSAGE(ran.status == status, ran.err);
    CHECK_MESSAGE(ran.says(reason), ran.err);
    CHECK(ran.out.empty());
}

/// kubernetes-validate, in the PATH or where scripts/setup.sh puts it; "" where it is not installed.
[[nodiscard]] std::string validator() {
    if (is_installed("kubernetes-validate")) return "kubernetes-validate";
    char const* const cache = std::getenv("XDG_CACHE_HOME");
    char const* const home = std::getenv("HOME");
    auto const folder = cache != nullptr ? std::string(cache) : std::string(home == nullptr ? "" : home) + "/.cache";
    auto const path = folder + "/shardwise/schemas/bin/kubernetes-validate";
    return is_installed(path) ? path : std::string();
}

}  // namespace

TEST_CASE("read_plan: what plan --json writes is read back, number for number") {
    for (auto const& words : {std::vector<std::string>{"llama-3-8b", "--devices", "2x(4xH100-80GB)", "--batch", "8"},
                              {"mixtral-8x7b", "--devices", "8xMI300X", "--ep", "4", "--objective", "throughput"},
                              {"llama-3-8b", "--devices", "8xH100-80GB", "--training", "adam", "--batch", "16"},
                              {"qwen3-32b", "--devices", "2xA100-40GB+2xH100-80GB", "--quant", "int4", "--kv-dtype", "fp8"}}) {
        CAPTURE(words[0]);
        auto all = words;
        all.insert(all.begin(), "plan");
        all.emplace_back("--json");
        auto const ran = run(all);
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        auto const plan = parse_plan(ran.out, "plan.json");
        REQUIRE_MESSAGE(plan, plan.error().message());
        Answer const answer(ran.out);
        CHECK(plan->model == words[0]);
        CHECK(plan->source.empty());
        CHECK(plan->parameters == answer.integer("model", "parameters"));
        CHECK(plan->devices == answer.text("request", "devices"));
        CHECK(plan->context == answer.integer("request", "context"));
        CHECK(plan->quant == answer.text("request", "quant"));
        CHECK(plan->kv_dtype == answer.text("request", "kv_dtype"));
        CHECK(plan->optimizer == answer.text("request", "training", "optimizer"));
        CHECK(plan->degrees.tp == answer.integer("plan", "tp"));
        CHECK(plan->degrees.pp == answer.integer("plan", "pp"));
        CHECK(plan->degrees.dp == answer.integer("plan", "dp"));
        CHECK(plan->degrees.ep == answer.integer("plan", "ep"));
        CHECK(plan->degrees.zero == answer.integer("plan", "zero"));
        CHECK(plan->degrees.micro_batches == answer.integer("plan", "micro_batches"));
        CHECK(plan->batch == answer.integer("plan", "batch"));
        CHECK(plan->step == answer.real("cost", "total"));
        REQUIRE(plan->stages.size() == answer.size("stages"));
        for (std::size_t i = 0; i < plan->stages.size(); ++i) {
            CHECK(plan->stages[i].layer_count == answer.integer("stages", i, "layers"));
            CHECK(plan->stages[i].seconds == answer.real("stages", i, "seconds"));
        }
        REQUIRE(plan->ranks.size() == answer.size("ranks"));
        for (std::size_t i = 0; i < plan->ranks.size(); ++i) {
            auto const& rank = plan->ranks[i];
            CHECK(rank.device.index == answer.integer("ranks", i, "device"));
            CHECK(rank.device_name == answer.text("ranks", i, "name"));
            CHECK(name_of(rank.kind) == answer.text("ranks", i, "kind"));
            CHECK(rank.node == answer.integer("ranks", i, "node"));
            CHECK(rank.place.ep == answer.integer("ranks", i, "ep"));
            CHECK(rank.terms.total().count() == answer.integer("ranks", i, "bytes"));
            CHECK(rank.terms.optimizer.count() == answer.integer("ranks", i, "optimizer"));
            CHECK(rank.capacity.count() == answer.integer("ranks", i, "capacity"));
        }
    }
}

TEST_CASE("launch: each launcher gets a plan's text, with the run as planned, flags added, or a command") {
    TemporaryFolder const folder;
    auto const plan = folder.write("plan.json", PlanText{}.text());
    for (auto const* const launcher : {"slurm", "mpirun", "torchrun", "kubernetes"}) {
        CAPTURE(launcher);
        auto const planned = run({"launch", launcher, "--plan", plan});
        CHECK_MESSAGE(planned.status == 0, planned.err);
        bool const is_line = std::string_view(launcher) != "kubernetes";
        CHECK(has(planned.out, is_line ? "shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16" : "\"/models/small\""));
        auto const flags = run({"launch", launcher, "--plan", plan, "--", "--prompt", "a b"});
        CHECK(has(flags.out, is_line ? "--kv-dtype bf16 --prompt 'a b'" : "- \"--prompt\"\n            - \"a b\"\n"));
        auto const command = run({"launch", launcher, "--plan", plan, "--", "python", "a b'c$(x)\ny"});
        CHECK(command.status == 0);
        CHECK_FALSE(has(command.out, "/models/small"));
        CHECK(has(command.out, is_line ? "python 'a b'\\''c$(x)\ny'" : R"("a b'c$$(x)\x0ay")"));
    }
    auto const named = run({"launch", "slurm", "--plan", plan, "--name", "night", "--cpus-per-task", "3", "--gpu-type",
                            "h100", "--hosts", "n1,n2"});
    CHECK(has(named.out, "--job-name=night\n"));
    CHECK(has(named.out, "--gpus-per-node=h100:2\n#SBATCH --cpus-per-task=3\n"));
    CHECK(has(named.out, "--nodelist=n1,n2\n"));
    CHECK(has(run({"launch", "kubernetes", "--plan", plan, "--image", "r/i:1"}).out, "image: \"r/i:1\""));
}

TEST_CASE("launch: what cannot be is refused by name, with the status of its kind") {
    TemporaryFolder const folder;
    auto const plan = folder.write("plan.json", PlanText{}.text());
    auto const write = [&](std::string const& text) { return folder.write("other.json", text); };
    check_refusal({"launch", "--plan", plan}, 2, "LAUNCHER: was not given");
    check_refusal({"launch", "slrm", "--plan", plan}, 2, "did you mean slurm?");
    check_refusal({"launch", "slurm"}, 2, "--plan: was not given");
    check_refusal({"launch", "slurm", "--plan", folder / "none"}, 1, "does not exist");
    check_refusal({"launch", "slurm", "--plan", write("{\"schema\":\"shardwise.map/1\"}")}, 1, "\"shardwise.map/1\"");
    check_refusal({"launch", "slurm", "--plan", write("{")}, 1, "other.json");
    check_refusal({"launch", "slurm", "--plan", write(PlanText{.per_node = 4}.text())}, 1, "got 4, expected at most 2");
    check_refusal({"launch", "slurm", "--plan", write(PlanText{.optimizer = "adam"}.text())}, 1, "does not train");
    check_refusal({"launch", "slurm", "--plan", plan, "--image", "x"}, 2, "--image: has no meaning for slurm");
    check_refusal({"launch", "mpirun", "--plan", plan, "--gpu-type", "x"}, 2, "--gpu-type: has no meaning for mpirun");
    check_refusal({"launch", "kubernetes", "--plan", plan, "--hosts", "a,b"}, 2, "--hosts: has no meaning");
    check_refusal({"launch", "slurm", "--plan", plan, "--hosts", "a,b,c"}, 2, "--hosts: are not as many");
    check_refusal({"launch", "slurm", "--plan", plan, "--hosts", "a,$(x)"}, 2, "--hosts");
    check_refusal({"launch", "slurm", "--plan", plan, "--gpu-type", "a b"}, 2, "--gpu-type");
    check_refusal({"launch", "slurm", "--plan", plan, "--gpu-type", ""}, 2, "--gpu-type: is empty");
    check_refusal({"launch", "slurm", "--plan", plan, "--name", "a\nb"}, 2, "--name");
    check_refusal({"launch", "slurm", "--plan", plan, "--cpus-per-task", "0"}, 2, "--cpus-per-task");
    check_refusal({"launch", "slurm", "--plan", plan, "--"}, 2, "is followed by no command");
    check_refusal({"launch", "slurm", "--plan", plan, "--", ""}, 2, "COMMAND: is empty");
    auto const full = run({"plan", "llama-3-70b", "--devices", "1xA100-40GB", "--json"});
    CHECK(full.status == 3);
    check_refusal({"launch", "slurm", "--plan", write(full.out)}, 3, "holds no plan");
}

TEST_CASE("launch kubernetes: kubernetes-validate accepts the manifests, and refuses one that is wrong") {
    auto const program = validator();
    if (program.empty()) {
        testing::note_absent_tool("kubernetes-validate (scripts/setup.sh installs it from PyPI)");
        return;
    }
    TemporaryFolder const folder;
    auto const check = [&](std::string const& text) {
        auto const path = folder.write("job.yaml", text);
        return run_in_shell(program + " --strict " + path);
    };
    PlanText one;
    one.devices = "4xMI300X";
    one.name = "MI300X";
    one.kind = "hip";
    one.per_node = 4;
    PlanText processors;
    processors.kind = "cpu";
    processors.source = "org/name";
    for (auto const& text : {PlanText{}, one, processors}) {
        auto const plan = folder.write("plan.json", text.text());
        auto const job =
            run({"launch", "kubernetes", "--plan", plan, "--cpus-per-task", "2", "--", "--prompt", "a b'c$(x)\ny"});
        REQUIRE_MESSAGE(job.status == 0, job.err);
        auto const ran = check(job.out);
        CHECK_MESSAGE(ran.status == 0, ran.out);
        auto wrong = job.out;
        wrong.replace(wrong.find("parallelism"), 11, "paralelism");
        auto const refused = check(wrong);
        CHECK(refused.status != 0);
        CHECK(has(refused.out, "paralelism"));
    }
}
