// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/tp_plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace {

using namespace shardwise;
using Styles = std::map<std::string, std::string>;

/// What transformers 4.57.6 has, by family (scripts/golden/tp_plans.py); "styles" holds the styles that it knows.
std::map<std::string, Styles> golden_plans() {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/tp_plans.tsv");
    std::map<std::string, Styles> plans;
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string family;
        std::string name;
        std::string style;
        if (line[0] == '#' || !std::getline(fields, family, '\t') || !std::getline(fields, name, '\t')) continue;
        std::getline(fields, style, '\t');
        plans[family][name] = style;
    }
    return plans;
}

Styles styles_of(ModelConfig const& config) {
    auto const model = describe(config);
    REQUIRE(model.has_value());
    Styles styles;
    for (auto const& entry : tp_plan_of(*model)) styles[entry.name] = entry.style;
    return styles;
}

/// "colwise" of "local_colwise" and "colwise_rep".
std::string direction(std::string style) {
    if (style.substr(0, 6) == "local_") style.erase(0, 6);
    auto const gathered = style.rfind("_rep");
    return gathered == std::string::npos ? style : style.substr(0, gathered);
}

}  // namespace

TEST_CASE("tp_plan_of: equals transformers' own where it cuts all that we cut") {
    auto const golden = golden_plans();
    for (auto const& known : {std::pair{"llama", &presets::llama_3_70b}, std::pair{"qwen2", &presets::qwen2_5_7b},
                              std::pair{"qwen3", &presets::qwen3_8b}, std::pair{"gemma2", &presets::gemma_2_9b},
                              std::pair{"phi3", &presets::phi_3_mini}, std::pair{"gpt_neox", &presets::pythia_6_9b},
                              std::pair{"gpt_oss", &presets::gpt_oss_20b}}) {
        CAPTURE(known.first);
        CHECK(styles_of(*known.second) == golden.at(known.first));
    }
}

TEST_CASE("tp_plan_of: every preset agrees with its family, and every style is one that transformers knows") {
    auto const golden = golden_plans();
    // Whole on every rank here: a router, and the product that makes latent queries. The others stand for whole modules.
    std::set<std::string> const ours_differ{"model.layers.*.block_sparse_moe.gate", "model.layers.*.self_attn.q_a_proj",
                                            "model.layers.*.mlp.experts.*", "model.layers.*.mlp.shared_experts",
                                            "model.layers.*.mlp"};
    std::set<std::string> covered;
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const styles = styles_of(*preset.config);
        std::string const family{preset.config->model_type.view()};
        bool const is_transposed = family == "gpt2";
        CHECK(styles.empty() == is_transposed);
        for (auto const& [name, style] : styles) CHECK(golden.at("styles").count(style) == 1);
        if (golden.count(family) == 0) continue;
        covered.insert(family);
        for (auto const& entry : golden.at(family)) {
            auto const name = entry.first;
            CAPTURE(name);
            auto const found = styles.find(name);
            if (found != styles.end()) {
                CHECK(direction(found->second) == direction(entry.second));
                continue;
            }
            // Not every model of a family has every module: without latent queries, without dense layers.
            bool const is_of_few =
                name.find("self_attn.q") != std::string::npos || name.find(".mlp.") != std::string::npos;
            CHECK((ours_differ.count(name) == 1 || is_of_few));
        }
    }
    CHECK(covered.size() + 4 >= golden.size());
}

// transformers 4.57 configuration_qwen3_next.py: its base_model_tp_plan has no line for linear_attn.
TEST_CASE("tp_plan_of: heads that share a convolution are left whole, as transformers leaves them") {
    auto const styles = styles_of(presets::qwen3_next_80b_a3b);
    CHECK(styles.at("model.layers.*.self_attn.q_proj") == "colwise");
    for (auto const& [name, style] : styles) CHECK(name.find("linear_attn") == std::string::npos);
}
