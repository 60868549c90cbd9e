// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "skip.hpp"
#include "slurm_cluster.hpp"
#include "small_llama.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// Makes a batch script of a plan of the model; `more` stands after --plan.
[[nodiscard]] std::string script_for(SmallLlama const& model, std::string const& name, std::vector<std::string> const& cut,
                                     std::vector<std::string> const& more = {}) {
    std::vector<std::string> words{"plan", model.folder.path(), "--json"};
    words.insert(words.end(), cut.begin(), cut.end());
    auto const plan = run(words);
    REQUIRE_MESSAGE(plan.status == 0, plan.err);
    words = {"launch", "slurm", "--plan", model.folder.write(name + ".json", plan.out)};
    words.insert(words.end(), more.begin(), more.end());
    auto const script = run(words);
    REQUIRE_MESSAGE(script.status == 0, script.err);
    return model.folder.write(name + ".sh", script.out);
}

/// What rank 0 printed: srun labels the lines.
[[nodiscard]] std::string lines_of_first(std::string const& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        auto const end = std::min(text.find('\n', at), text.size());
        if (text.compare(at, 3, "0: ") == 0) out += text.substr(at + 3, end - at - 3) + "\n";
        at = end + 1;
    }
    return out;
}

[[nodiscard]] bool has_meeting_folder(SmallLlama const& model) {
    for (auto const& entry : std::filesystem::directory_iterator(model.folder.path())) {
        if (entry.path().filename().string().rfind(".shardwise-slurm", 0) == 0) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("launch slurm: plans run on a real SLURM, on one node and on two, with the tokens of one machine") {
    SlurmCluster const cluster;
    if (!cluster.why_not().empty()) {
        testing::note_absent_tool(cluster.why_not());
        return;
    }
    SmallLlama const model;
    auto const& folder = model.folder.path();
    std::vector<std::string> const prompt{"--prompt-ids", "5,9,2", "--max-new-tokens", "6", "--deterministic", "--json"};
    std::vector<std::string> alone{"run", folder, "--kv-dtype", "bf16"};
    alone.insert(alone.end(), prompt.begin(), prompt.end());
    auto const expected = ids_of(run(alone).out);
    REQUIRE(!expected.empty());

    auto const one_node = script_for(model, "one", {"--devices", "2xH100-80GB", "--tp", "2", "--pp", "1"});
    auto const one = cluster.submit(one_node, prompt, folder);
    CHECK_MESSAGE(one.first == "COMPLETED", one.second);
    CHECK_MESSAGE(ids_of(lines_of_first(one.second)) == expected, one.second);

    auto const two_nodes = script_for(model, "two", {"--devices", "2x(2xH100-80GB)", "--tp", "2", "--pp", "2"});
    CHECK(cluster.run({"sbatch", "--test-only", two_nodes}, folder).status == 0);
    auto const two = cluster.submit(two_nodes, prompt, folder);
    if (two.second.find("is not built into") != std::string::npos) {
        testing::note_absent_tool("Gloo");
    } else {
        CHECK_MESSAGE(two.first == "COMPLETED", two.second);
        CHECK_MESSAGE(ids_of(lines_of_first(two.second)) == expected, two.second);
    }
    CHECK_FALSE(has_meeting_folder(model));

    // A rank that fails ends the others, and the job says so.
    auto const failing = cluster.submit(
        script_for(model, "fails", {"--devices", "2x(2xH100-80GB)", "--tp", "2", "--pp", "2"},
                   {"--", "sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS, \"$1\"; [ $SLURM_PROCID != 3 ] || exit 7; sleep 50",
                    "x", "a b'c$(x)\nd"}),
        {}, folder);
    CHECK(failing.first == "FAILED");
    CHECK_MESSAGE(failing.second.find("3: 3 of 4, a b'c$(x)\n3: d\n") != std::string::npos, failing.second);

    // What the cluster has not got is refused before anything starts.
    auto const refused = [&](std::string const& script) {
        auto const ran = cluster.run({"sbatch", "--test-only", script}, folder);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(ran.says("Requested node configuration is not available"), ran.err);
    };
    refused(script_for(model, "wide", {"--devices", "8xH100-80GB", "--tp", "1", "--pp", "1", "--dp", "8", "--batch", "8"},
                       {"--", "true"}));
    refused(script_for(model, "many", {"--devices", "3x(1xH100-80GB)", "--pp", "1", "--tp", "3"}));
    auto const typed = [&](std::string const& type) {
        auto const script = script_for(model, type, {"--devices", "1xH100-80GB"}, {"--gpu-type", type});
        return cluster.run({"sbatch", "--test-only", script}, folder).status;
    };
    CHECK(typed("h100") == 0);
    CHECK(typed("a100") == 1);
}
