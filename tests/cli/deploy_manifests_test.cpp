// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "skip.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

using namespace shardwise::tests;

namespace {

constexpr auto canary = "canaryCANARY0123456789";

/// Python with kubernetes-validate and jsonschema, where scripts/setup.sh has put it; "" where it has not.
[[nodiscard]] std::string schemas_python() {
    char const* const cache = std::getenv("XDG_CACHE_HOME");
    char const* const home = std::getenv("HOME");
    auto const usual = std::string(home == nullptr ? "" : home) + "/.cache";
    auto const folder = cache != nullptr && *cache != '\0' ? std::string(cache) : usual;
    auto const python = folder + "/shardwise/schemas/bin/python";
    return ::access(python.c_str(), X_OK) == 0 ? python : std::string{};
}

/// Writes what `deploy` prints in each of the formats to NAME.FORMAT.
void write_manifests(TemporaryFolder const& folder, std::string const& name, std::vector<std::string> const& words,
                     std::vector<std::vector<std::string>> const& formats) {
    for (auto const& format : formats) {
        std::vector<std::string> all{SHARDWISE_PROGRAM, "deploy"};
        all.insert(all.end(), words.begin(), words.end());
        all.insert(all.end(), {"--dry-run", "--format"});
        all.insert(all.end(), format.begin(), format.end());
        auto const ran = run_command_line(all, {{"HF_TOKEN", canary}, {"MY_KEY", canary}, {"HF_HUB_CACHE", "/my hub/$x"}});
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        CHECK((ran.out + ran.err).find(canary) == std::string::npos);
        folder.write(name + "." + format.front(), ran.out);
    }
}

/// A value of letters that mean something to shells, to YAML, to compose and to Kubernetes.
[[nodiscard]] std::string odd_value(std::mt19937& random) {
    constexpr std::string_view letters = "ab $$$(){}'\"`\\#:-!&*?[]|>%@,=~\t\xC3\xA9";
    std::string value;
    for (auto length = random() % 16; length > 0; --length) value += letters[random() % (letters.size() - 2)];
    return value + (random() % 2 == 0 ? "\xC3\xA9" : "");
}

}  // namespace

TEST_CASE("deploy --format: manifests are what their schemas say, and mean what docker's line means") {
    auto const python = schemas_python();
    if (python.empty()) {
        shardwise::testing::note_absent_tool("kubernetes-validate and jsonschema (scripts/setup.sh)");
        return;
    }
    TemporaryFolder const folder;
    std::vector<std::vector<std::string>> const all{{"docker"}, {"compose"}, {"kubernetes"}};
    std::vector<std::vector<std::string>> const claims{{"docker"}, {"kubernetes", "--claims"}};
    write_manifests(folder, "vllm", {"vllm", "llama-3-8b", "--devices", "2xH100-80GB", "--env", "MY_KEY"}, all);
    write_manifests(folder, "amd", {"vllm", "llama-3-8b", "--devices", "2xMI300X", "--host-address", "::1"}, all);
    write_manifests(folder, "sglang", {"sglang", "llama-3-8b", "--devices", "2xH100-80GB"}, all);
    write_manifests(folder, "tgi", {"tgi", "llama-3-8b", "--devices", "1xH100-80GB", "--quant", "awq"}, all);
    write_manifests(folder, "tei", {"tei", "bert-base-uncased", "--devices", "cpu"}, all);
    write_manifests(folder, "llama", {"llama-server", "llama-3-8b", "--devices", "2xL4"}, all);
    write_manifests(folder, "cdi", {"vllm", "llama-3-8b", "--devices", "2xH100-80GB", "--cdi"}, {{"docker"}, {"compose"}});
    write_manifests(folder, "claims", {"vllm", "llama-3-8b", "--devices", "2xH100-80GB"}, claims);
    write_manifests(folder, "claims_amd", {"vllm", "llama-3-8b", "--devices", "2xMI300X"}, claims);
    for (auto const* const engine : {"vllm", "sglang"}) {
        std::vector<std::string> const words{engine, "llama-3-8b", "--devices", "2x(2xH100-80GB)", "--env", "A=$(B)"};
        write_manifests(folder, std::string("nodes_") + engine, words, {{"kubernetes"}});
        write_manifests(folder, std::string("nodes_claims_") + engine, words, {{"kubernetes", "--claims"}});
    }
    std::mt19937 random(24);
    for (int i = 0; i < 12; ++i) {
        auto const model = "odd" + std::to_string(i) + "/it's a $(MODEL) $$ {x}";
        folder.write(model + "/config.json", read_text(SHARDWISE_SOURCE_DIR "/tests/golden/deploy/config.json"));
        std::vector<std::string> words{"vllm", folder.path(model), "--devices", "1xL4"};
        for (int k = 0; k < 4; ++k) {
            words.emplace_back("--env");
            words.push_back("E" + std::to_string(k) + "=" + odd_value(random));
        }
        write_manifests(folder, "fuzz" + std::to_string(i), words, all);
    }
    auto const script = std::string(SHARDWISE_SOURCE_DIR) + "/tests/deploy/check_manifests.py";
    auto const checked = run_command_line({python, script, folder.path()});
    CHECK_MESSAGE(checked.status == 0, checked.err);
    CHECK_MESSAGE(checked.out == "43 manifests of Deployment, LeaderWorkerSet, ResourceClaimTemplate, Service, compose are what "
                                 "their schemas say\n",
                  checked.out);
}
