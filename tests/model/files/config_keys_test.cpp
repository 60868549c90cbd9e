// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/config_keys.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "../../support/checkpoint_files.hpp"
#include "../config_difference.hpp"

#include <fstream>
#include <map>
#include <set>
#include <string>

using namespace shardwise;

namespace {

using Json = nlohmann::ordered_json;

std::string const versions_folder = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/versions/";
constexpr std::string_view both_versions[] = {"4.57.6", "5.23.0"};

Json read_json(std::string const& name) {
    std::ifstream file(versions_folder + name);
    REQUIRE(file);
    return Json::parse(file);
}

/// What save_pretrained of one version wrote, by case.
std::map<std::string, Json> saved_by(std::string_view version) {
    std::map<std::string, Json> rows;
    std::ifstream file(versions_folder + "saved-" + std::string(version) + ".jsonl");
    std::string line;
    while (std::getline(file, line)) {
        auto row = Json::parse(line);
        rows[row.at("case").get<std::string>()] = row;
    }
    return rows;
}

/// The keys that the family's field table has.
std::set<std::string> table_keys(std::string_view family) {
    std::set<std::string> keys;
    Architectures::with(family, [&]<class Arch>(Arch) {
        for (auto const& field : Arch::fields) {
            keys.emplace(field.key);
            for (auto const alias : field.aliases) keys.emplace(alias);
        }
    });
    return keys;
}

/// Read beside the field tables: config_json.hpp, config_rope.hpp.
std::set<std::string> const read_elsewhere{"architectures",   "dtype",       "id2label",       "model_type",
                                           "layer_types",     "text_config", "mlp_only_layers", "rope_parameters",
                                           "rope_scaling",    "tie_word_embeddings", "original_max_position_embeddings", "no_rope_layers",
                                           "moe_layers"};

bool is_listed_unread(std::string_view family, std::string const& key, Json const& normal) {
    bool is_listed = false;
    auto const look = [&](auto const& rows) {
        for (auto const& row : rows) is_listed = is_listed || (row.key == key && Json::parse(row.normal) == normal);
    };
    look(detail::common_unread_keys);
    Architectures::with(family, [&]<class Arch>(Arch) {
        if constexpr (requires { Arch::unread_keys; }) look(Arch::unread_keys);
    });
    return is_listed;
}

/// 5.23 ties the head of every T5, whatever its config said, and of a mistral3 whose config does not say, and saves it so.
bool is_changed_by_5(std::string const& name) {
    return name == "small-t5-gated-untied" || name == "small-t5-encoder" || name == "small-mistral3";
}

/// True for the vision model of a whole one, and for what stands between it and the text model.
bool is_of_other_part(std::string_view name) {
    for (auto const* const part : {"visual.", "vision_tower.", "multi_modal_projector."})
        if (name.find(part) != std::string_view::npos) return true;
    return false;
}

testing::WrittenTensor tensor_of(Json const& row) {
    testing::WrittenTensor tensor{row.at(0), row.at(1), row.at(2).get<std::vector<std::int64_t>>(), 4};
    // 4.57 makes the numbers of apertus' activations in bf16, whatever the model's dtype.
    if (tensor.dtype == "BF16" && tensor.name.find(".act_fn.") != std::string::npos) tensor.bytes = 2;
    REQUIRE((tensor.dtype == "F32" || tensor.bytes == 2));
    for (auto const extent : tensor.shape) tensor.bytes *= extent;
    return tensor;
}

}  // namespace

TEST_CASE("config keys: what transformers 4 and 5 save of one model is one model, without a warning") {
    auto const older = saved_by(both_versions[0]);
    auto const newer = saved_by(both_versions[1]);
    std::set<std::string> families;
    int compared = 0;
    for (auto const& [name, row] : older) {
        auto const other = newer.find(name);
        if (other == newer.end() || is_changed_by_5(name)) continue;
        std::string const model(name);  // clang 14 captures no structured binding
        CAPTURE(model);
        auto const a = read_config(row.at("config").dump(), "4");
        auto const b = read_config(other->second.at("config").dump(), "5");
        REQUIRE_MESSAGE(a.has_value(), a.error().message());
        REQUIRE_MESSAGE(b.has_value(), b.error().message());
        std::size_t const parts = a->config.is_text_part ? 1 : 0;
        CHECK(a->warnings.size() == parts);
        CHECK(b->warnings.size() == parts);
        auto const first = describe(a->config);
        auto const second = describe(b->config);
        REQUIRE(first);
        REQUIRE(second);
        CHECK(testing::differing_fields(first->config, second->config) == "");
        CHECK(first->config.dtype == second->config.dtype);
        CHECK(first->config.model_class.view() == second->config.model_class.view());
        CHECK(count_parameters(first->tree) == count_parameters(second->tree));
        families.emplace(a->config.model_type.view());
        ++compared;
    }
    CHECK(families.size() >= 43);
    CHECK(compared >= 60);
}

TEST_CASE("config keys: checkpoints saved by both versions are read whole") {
    for (auto const version : both_versions) {
        std::set<std::string> families;
        for (auto const& [name, row] : saved_by(version)) {
            if (!row.contains("tensors")) continue;
            CAPTURE(version);
            std::string const model(name);  // clang 14 captures no structured binding
            CAPTURE(model);
            testing::TemporaryFolder const folder;
            folder.write("config.json", row.at("config").dump());
            std::vector<testing::WrittenTensor> tensors;
            std::int64_t bytes = 0;
            std::int64_t other_bytes = 0;
            for (auto const& entry : row.at("tensors")) {
                tensors.push_back(tensor_of(entry));
                bytes += tensors.back().bytes;
                if (is_of_other_part(tensors.back().name)) other_bytes += tensors.back().bytes;
            }
            testing::write_safetensors(folder.path("model.safetensors"), tensors);
            auto const source = detail::folder_source(folder.path(""), name);
            REQUIRE(source);
            auto const checkpoint = read_checkpoint(*source);
            // 5.23 saves the stacked experts of this family the other way round than 4.57 and the publisher do, under their names.
            if (version == both_versions[1] && model.starts_with("small-qwen3_vl_moe")) {
                REQUIRE(!checkpoint);
                CHECK(checkpoint.error().code() == ErrorCode::shape_mismatch);
                CHECK(checkpoint.error().message().find("mlp.experts.") != std::string::npos);
                continue;
            }
            REQUIRE_MESSAGE(checkpoint.has_value(), checkpoint.error().message());
            CHECK(checkpoint->has_stored_sizes);
            auto const stored = sum_tensors(checkpoint->model.tree, [](Tensor const& tensor) {
                return tensor.kind == TensorKind::transient_buffer ? std::int64_t{0} : tensor.bytes().count();
            });
            CHECK(stored + other_bytes == bytes);
            // What is not loaded is told of, and nothing else is left.
            auto const told = [&](std::string_view words) {
                return std::any_of(checkpoint->warnings.begin(), checkpoint->warnings.end(),
                                   [&](auto const& text) { return text.find(words) != std::string::npos; });
            };
            CHECK(told("are not counted and not loaded: the text model runs on text alone") == (other_bytes > 0));
            CHECK_FALSE(told("no part of the model"));
            CHECK_FALSE(told("multi-token"));
            families.emplace(checkpoint->model.config.model_type.view());
        }
        CHECK(families.size() >= 43);
    }
}

TEST_CASE("config keys: every key of either version's class is read, known to be harmless, or warned of") {
    auto const harmless = read_json("harmless.json");
    for (auto const version : both_versions) {
        auto const classes = read_json("keys-" + std::string(version) + ".json");
        for (auto const& [family, own] : classes.items()) {
            if (family.empty()) continue;
            auto const known = table_keys(family == "gemma3" ? "gemma3_text" : family);
            auto keys = own;
            for (auto const& [key, normal] : classes.at("").items()) keys[key] = normal;
            for (auto const& [key, normal] : keys.items()) {
                CAPTURE(version);
                std::string const of_family(family);  // clang 14 captures no structured binding
                CAPTURE(of_family);
                std::string const of_key(key);  // clang 14 captures no structured binding
                CAPTURE(of_key);
                if (is_listed_unread(family, key, normal)) continue;
                // A family's own entry, null where what is harmless elsewhere is not here, comes before the common one.
                auto const own_reason = harmless.find(family + "." + key);
                auto const reason = own_reason != harmless.end() ? own_reason : harmless.find(key);
                bool const is_harmless = reason != harmless.end() && !reason->is_null();
                CHECK((known.count(key) > 0 || read_elsewhere.count(key) > 0 || is_harmless));
            }
        }
    }
}

TEST_CASE("config keys: one that changes the model and is not read is a warning, its default is none") {
    auto const warnings = [](std::string const& more) {
        auto const read = read_config(R"({"model_type": "gpt_oss", "num_hidden_layers": 2, )" + more + "}", "c.json");
        REQUIRE_MESSAGE(read.has_value(), read.error().message());
        return read->warnings;
    };
    CHECK(warnings(R"("swiglu_limit": 7)").empty());
    CHECK(warnings(R"("swiglu_limit": 7.0, "pruned_heads": {})").empty());
    CHECK(warnings(R"("swiglu_limit": null)").empty());
    REQUIRE(warnings(R"("swiglu_limit": 6.5)").size() == 1);
    CHECK(warnings(R"("swiglu_limit": 6.5)")[0] == "c.json: swiglu_limit is not read: the model is described with 7.0");
    CHECK(warnings(R"("swiglu_limit": "7.0")").size() == 1);
    CHECK(warnings(R"("pruned_heads": {"0": [1]})").size() == 1);
    // A key of another family's class says nothing here.
    CHECK(warnings(R"("is_decoder": true)").empty());
    auto const bert = read_config(R"({"model_type": "bert", "is_decoder": true})", "c.json");
    REQUIRE(bert);
    CHECK(bert->warnings.size() == 1);
}

TEST_CASE("config keys: the number of experts goes by the names of both versions") {
    auto const experts = [](std::string const& text) {
        auto const read = read_config(text, "c.json");
        REQUIRE_MESSAGE(read.has_value(), read.error().message());
        return read->config.experts;
    };
    CHECK(experts(R"({"model_type": "qwen3_moe", "num_local_experts": 16})") == 16);
    CHECK(experts(R"({"model_type": "qwen3_moe", "num_experts": 16})") == 16);
    CHECK(experts(R"({"model_type": "qwen3_moe"})") == 128);
    CHECK(experts(R"({"model_type": "mixtral", "num_experts": 16})") == 16);
    CHECK(experts(R"({"model_type": "gpt_oss", "num_experts": 16})") == 16);
    CHECK(experts(R"({"model_type": "deepseek_v3", "num_local_experts": 16})") == 16);
}
