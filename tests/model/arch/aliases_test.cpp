// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/guess_use.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace {

using namespace shardwise;

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view take_part(std::string_view& name) {
    auto const end = std::min(name.find('.'), name.size());
    auto const part = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    return part;
}

/// True where the tree's side of an alias covers a parameter's name.
bool covers(std::string_view pattern, std::string_view name) {
    while (!pattern.empty() && !name.empty()) {
        auto const wanted = take_part(pattern);
        auto const found = take_part(name);
        if (wanted != found && !((wanted == "{}" || wanted == "*") && is_number(found))) return false;
    }
    return pattern.empty() && name.empty();
}

/// The parameters and stored buffers of a tree.
std::set<std::string> names_of(ModuleTree const& tree) {
    std::set<std::string> names;
    walk_tensors(tree, [&](std::string_view path, Tensor const& tensor) {
        if (tensor.kind != TensorKind::transient_buffer) names.emplace(path);
    });
    return names;
}

/// The names of all small golden models with a head, by family.
std::map<std::string, std::set<std::string>> golden_names() {
    std::map<std::string, std::set<std::string>> names;
    golden::for_each_case([&](golden::Json const& golden, Model const& model) {
        // Names of a bare model lack the prefix that the aliases of its family have.
        bool const is_bare = golden.at("base_prefix") == "" && model.config.model_type.view() != "gemma3_text" &&
                             !model.config.model_type.view().ends_with("t5") &&
                             golden.at("class") != "Llama4ForCausalLM";
        if (is_bare || golden.at("case").get<std::string>().rfind("small-", 0) != 0) return;
        names[std::string(model.config.model_type.view())].merge(names_of(model.tree));
    });
    // What begins in transformers 5, and text models that have a head in whole models alone; the names are those of
    // checkpoints (config_keys_test.cpp).
    for (auto const* const name : {"minimax_m2", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"}) {
        CAPTURE(name);
        auto const file =
            read_config_file(std::string(SHARDWISE_SOURCE_DIR "/tests/golden/configs/small-") + name + ".json");
        REQUIRE(file);
        auto const described = describe(file->config);
        REQUIRE(described);
        names[std::string(described->config.model_type.view())] = names_of(described->tree);
    }
    return names;
}

/// What no GGUF holds: heads of encoders, layers that score texts and tokens, and variants that llama.cpp does not have.
bool is_beyond_gguf(std::string_view family, std::string_view name) {
    auto const has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    if (name.starts_with("score.") || name.starts_with("classifier.")) return true;
    if (family == "bert") return has("cls.");
    if (family == "roberta" || family == "xlm-roberta") return has("lm_head.");
    if (family == "distilbert") return has("vocab_") || has("classifier.") || has("qa_outputs.");
    if (family == "modernbert") return has("head.") || has("decoder.") || has("norm.bias");
    if (family == "t5" || family == "umt5") return has(".embed_tokens.");  // tied to shared.weight
    if (family == "deepseek_v2" || family == "deepseek_v3") return has("expert") && has(".bias");
    if (family == "phi") return has("_layernorm.") && has("self_attn");
    if (family == "falcon") return has("post_attention_layernorm");
    return false;
}

}  // namespace

TEST_CASE("Aliases lead to parameters that models of the family have") {
    auto const names = golden_names();
    Architectures::for_each([&]<class Arch>(Arch) {
        CAPTURE(Arch::name);
        auto const& known = names.at(std::string(Arch::name));
        for (NameAlias const& alias : Arch::aliases) {
            // Tables that families share have biases which not every family can have.
            bool const is_bias = alias.tree.size() > 5 && alias.tree.substr(alias.tree.size() - 4) == "bias";
            bool const is_found =
                std::any_of(known.begin(), known.end(), [&](auto const& name) { return covers(alias.tree, name); });
            CHECK_MESSAGE((is_bias || is_found), alias.file, " -> ", alias.tree);
        }
    });
}

TEST_CASE("Every parameter of a family that GGUF knows has a GGUF name") {
    auto const names = golden_names();
    Architectures::for_each([&]<class Arch>(Arch) {
        // mistral is llama to llama.cpp, opt is unknown to it.
        if (std::string_view{Arch::gguf_name}.empty()) return;
        CAPTURE(Arch::name);
        for (auto const& name : names.at(std::string(Arch::name))) {
            if (is_beyond_gguf(Arch::name, name)) continue;
            auto const is_in = [&](auto const& rows) {
                return std::any_of(std::begin(rows), std::end(rows),
                                   [&](NameAlias const& alias) { return covers(alias.tree, name); });
            };
            CHECK_MESSAGE((is_in(Arch::aliases) || is_in(family_of<Arch>.gguf_numbers)), name);
        }
    });
}

TEST_CASE("guess_use: a name that no family describes is for what it is for in every family that has it") {
    // The module whose weight a name is, or the stack of experts.
    auto const module_of = [](std::string_view name) {
        if (name.ends_with(".weight")) name.remove_suffix(7);
        return name.substr(name.rfind('.') + 1);
    };
    std::set<std::string> met;
    golden::for_each_case([&](golden::Json const& golden, Model const& model) {
        if (golden.at("case").get<std::string>().rfind("small-", 0) != 0) return;
        walk_tensors(model.tree, [&](std::string_view path, Tensor const& tensor) {
            if (!is_product(tensor.use) && tensor.use != TensorUse::router) return;
            // The gated delta rule's products have names of attention's.
            if (path.find("linear_attn.") != std::string_view::npos) return;
            auto const check = [&](std::string_view name) {
                auto const module = module_of(name);
                auto const guessed = detail::guess_use(TensorUse::linear, module);
                if (guessed == TensorUse::linear) return;
                met.emplace(module);
                // A file's one tensor of queries, keys and values is those of the model that has them apart.
                bool const is_part = guessed == TensorUse::attention_qkv && tensor.use <= TensorUse::attention_v;
                if (is_part && tensor.use != TensorUse::linear) return;
                CHECK_MESSAGE(guessed == tensor.use, path, " is not for what ", module, " says");
            };
            check(path);
            for (auto const& alias : model.family->aliases) {
                if (covers(alias.tree, path)) check(alias.file);
            }
        });
    });
    // All 24 rows, some of them with GGUF's suffixes of experts.
    CHECK(met.size() >= 24);
}
