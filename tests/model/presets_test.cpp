// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "arch/golden_cases.hpp"
#include "config_difference.hpp"

#include <set>
#include <string>

using namespace shardwise;

namespace {

/// The preset that a golden case is the published configuration of; null for the others.
ModelPreset const* preset_of(std::string const& name) {
    if (name.rfind("small-", 0) == 0) return nullptr;
    auto const ending = name.find("-model");
    return find_preset(name.substr(0, ending));
}

}  // namespace

TEST_CASE("Presets are the published configurations, field by field") {
    std::set<std::string_view> compared;
    for (auto const& row : golden::golden_cases()) {
        auto const* const preset = preset_of(row.name);
        if (preset == nullptr) continue;
        CAPTURE(row.name);
        auto const golden = golden::read_golden(row.name);
        auto const published = golden::describe_case(golden);
        REQUIRE_MESSAGE(published.has_value(), published.error().message());
        auto const ours = describe(*preset->config);
        REQUIRE_MESSAGE(ours.has_value(), ours.error().message());
        // A published BertForMaskedLM and our BertModel differ in their head alone.
        if (published->config.model_class == ours->config.model_class) {
            CHECK(count_parameters(ours->tree) == golden.at("parameters").get<std::int64_t>());
        }
        CHECK(testing::differing_fields(ours->config, published->config) == "");
        // gpt-oss publishes no dtype; its unpacked parts are bf16. These are Gemma 2's pretrained files, which are fp32: the
        // presets count the instruction-tuned ones.
        auto const family = preset->config->model_type.view();
        if (family != "gpt_oss" && family != "gemma2") {
            CHECK(ours->config.dtype_or(Dtype::f32) == published->config.dtype_or(Dtype::f32));
        }
        compared.insert(preset->name);
    }
    CHECK(compared.size() >= 60);
}

TEST_CASE("Every preset describes a model and has a name for reports") {
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const model = describe(*preset.config);
        REQUIRE_MESSAGE(model.has_value(), model.error().message());
        CHECK(!preset.config->name.empty());
        CHECK(preset.config->dtype.has_value());
        CHECK(!model->program.blocks().empty());
    }
}

TEST_CASE("Presets cover the families whose publishers state every field") {
    std::set<std::string_view> families;
    for (auto const& preset : model_presets) families.insert(preset.config->model_type.view());
    // Families whose published configurations are not known to the last field.
    for (auto const* const open : {"cohere2", "phimoe", "umt5"}) families.insert(open);
    // Parts of models that are published whole.
    for (auto const* const part : {"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"})
        families.insert(part);
    Architectures::for_each([&]<class Arch>(Arch) { CHECK_MESSAGE(families.count(Arch::name) == 1, Arch::name); });
}

TEST_CASE("A wrong name is answered with the nearest preset") {
    auto const near = preset_config("lama-3-70b");
    REQUIRE(!near);
    CHECK(near.error().code() == ErrorCode::unknown_name);
    CHECK(near.error().message().find("llama-3-70b") != std::string::npos);
    auto const far = preset_config("xyzzy");
    REQUIRE(!far);
    CHECK(far.error().advice().empty());
    CHECK(!preset_config(std::string(10000, 'a')));
}
