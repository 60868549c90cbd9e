// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstddef>

// Presets are described in constant expressions at the compilers' default limits, and their parameters are those that
// are published: facts/memory.md where marked (facts), else transformers 4.57's count of the same configuration.

namespace {

using namespace shardwise;

consteval std::int64_t count(ModelConfig const& config) {
    auto const model = describe(config);
    return model ? count_parameters(model->tree) : -1;
}

static_assert(count(presets::llama_2_7b) == 6'738'415'616);  // (facts)
static_assert(count(presets::llama_2_13b) == 13'015'864'320);
static_assert(count(presets::llama_2_70b) == 68'976'648'192);  // (facts)
static_assert(count(presets::llama_3_8b) == 8'030'261'248);    // (facts)
static_assert(count(presets::llama_3_70b) == 70'553'706'496);  // (facts)
static_assert(count(presets::llama_3_1_8b) == 8'030'261'248);
static_assert(count(presets::llama_3_1_70b) == 70'553'706'496);
static_assert(count(presets::llama_3_1_405b) == 405'853'388'800);
static_assert(count(presets::llama_3_2_1b) == 1'235'814'400);
static_assert(count(presets::llama_3_2_3b) == 3'212'749'824);
static_assert(count(presets::tinyllama_1_1b) == 1'100'048'384);
static_assert(count(presets::smollm2_135m) == 134'515'008);
static_assert(count(presets::smollm2_1_7b) == 1'711'376'384);
static_assert(count(presets::yi_6b) == 6'061'035'520);

static_assert(count(presets::mistral_7b) == 7'241'732'096);  // (facts)
static_assert(count(presets::mistral_7b_v0_3) == 7'248'023'552);
static_assert(count(presets::mistral_nemo_12b) == 12'247'782'400);
static_assert(count(presets::mixtral_8x7b) == 46'702'792'704);  // (facts)
static_assert(count(presets::mixtral_8x22b) == 140'620'634'112);

static_assert(count(presets::qwen2_5_0_5b) == 494'032'768);
static_assert(count(presets::qwen2_5_1_5b) == 1'543'714'304);
static_assert(count(presets::qwen2_5_3b) == 3'085'938'688);
static_assert(count(presets::qwen2_5_7b) == 7'615'616'512);  // (facts)
static_assert(count(presets::qwen2_5_14b) == 14'770'033'664);
static_assert(count(presets::qwen2_5_32b) == 32'763'876'352);
static_assert(count(presets::qwen2_5_72b) == 72'706'203'648);
static_assert(count(presets::qwen3_0_6b) == 596'049'920);
static_assert(count(presets::qwen3_1_7b) == 1'720'574'976);
static_assert(count(presets::qwen3_4b) == 4'022'468'096);
static_assert(count(presets::qwen3_8b) == 8'190'735'360);  // (facts)
static_assert(count(presets::qwen3_14b) == 14'768'307'200);
static_assert(count(presets::qwen3_32b) == 32'762'123'264);
static_assert(count(presets::qwen1_5_moe_a2_7b) == 14'315'784'192);
static_assert(count(presets::qwen3_30b_a3b) == 30'532'122'624);  // (facts)
static_assert(count(presets::qwen3_235b_a22b) == 235'093'634'560);

static_assert(count(presets::gemma_2b) == 2'506'172'416);  // (facts)
static_assert(count(presets::gemma_7b) == 8'537'680'896);
static_assert(count(presets::gemma_2_2b) == 2'614'341'888);
static_assert(count(presets::gemma_2_9b) == 9'241'705'984);  // (facts)
static_assert(count(presets::gemma_2_27b) == 27'227'128'320);
static_assert(count(presets::gemma_3_1b) == 999'885'952);
static_assert(count(presets::gemma_3_4b) == 3'880'263'168);
static_assert(count(presets::gemma_3_12b) == 11'766'034'176);
static_assert(count(presets::gemma_3_27b) == 27'009'346'304);

static_assert(count(presets::phi_1_5) == 1'418'270'720);
static_assert(count(presets::phi_2) == 2'779'683'840);
static_assert(count(presets::phi_3_mini) == 3'821'079'552);  // (facts)
static_assert(count(presets::phi_3_medium) == 13'960'238'080);
static_assert(count(presets::phi_4) == 14'659'507'200);
static_assert(count(presets::phi_4_mini) == 3'836'021'760);
static_assert(count(presets::gpt_oss_20b) == 20'914'757'184);
static_assert(count(presets::gpt_oss_120b) == 116'829'156'672);

static_assert(count(presets::deepseek_v2_lite) == 15'706'484'224);
static_assert(count(presets::deepseek_v2) == 235'741'434'880);
static_assert(count(presets::deepseek_v3) == 671'026'404'352);  // (facts)

static_assert(count(presets::gpt2) == 124'439'808);         // (facts)
static_assert(count(presets::gpt2_medium) == 354'823'168);  // (facts)
static_assert(count(presets::gpt2_large) == 774'030'080);   // (facts)
static_assert(count(presets::gpt2_xl) == 1'557'611'200);
static_assert(count(presets::opt_125m) == 125'239'296);  // (facts)
static_assert(count(presets::opt_350m) == 331'196'416);
static_assert(count(presets::opt_1_3b) == 1'315'758'080);  // (facts)
static_assert(count(presets::opt_6_7b) == 6'658'473'984);  // (facts)
static_assert(count(presets::opt_13b) == 12'853'473'280);
static_assert(count(presets::opt_30b) == 29'974'540'288);  // (facts)
static_assert(count(presets::opt_66b) == 65'719'701'504);
static_assert(count(presets::gpt_neox_20b) == 20'554'567'680);
static_assert(count(presets::pythia_160m) == 162'322'944);
static_assert(count(presets::pythia_6_9b) == 6'857'302'016);
static_assert(count(presets::bloom_560m) == 559'214'592);
static_assert(count(presets::bloom_7b1) == 7'069'016'064);
static_assert(count(presets::bloom_176b) == 176'247'271'424);
static_assert(count(presets::falcon_7b) == 6'921'720'704);  // (facts)
static_assert(count(presets::falcon_40b) == 41'303'293'952);
static_assert(count(presets::bert_base) == 109'482'240);   // (facts)
static_assert(count(presets::bert_large) == 335'141'888);  // (facts)
static_assert(count(presets::roberta_base) == 124'645'632);
static_assert(count(presets::t5_small) == 60'506'624);   // (facts)
static_assert(count(presets::t5_base) == 222'903'552);   // (facts)
static_assert(count(presets::t5_large) == 737'668'096);  // (facts)
static_assert(count(presets::flan_t5_xl) == 2'849'757'184);

// Names are found however people spell them, and never by accident.
static_assert(find_preset("llama-3-70b")->config == &presets::llama_3_70b);
static_assert(find_preset("Llama3 70B")->config == &presets::llama_3_70b);
static_assert(find_preset("Meta-Llama-3-70B")->config == &presets::llama_3_70b);
static_assert(find_preset("qwen2_5_7b")->config == &presets::qwen2_5_7b);
static_assert(find_preset("GPT2XL")->config == &presets::gpt2_xl);
static_assert(find_preset("qwen2-57b") == nullptr);
static_assert(find_preset("llama-3-7") == nullptr && find_preset("") == nullptr && find_preset("-") == nullptr);
static_assert(preset_config("llama-3-71b").error().advice() == "did you mean llama-3-70b?");

/// Every name and alias finds its own preset, so that no two are spelled alike. Of the presets whose number leaves `part` of 4: all in
/// one are too many steps for clang.
consteval bool are_names_unique(std::size_t part) {
    for (auto i = part; i < model_presets.size(); i += 4) {
        auto const& preset = model_presets[i];
        if (find_preset(preset.name) != &preset) return false;
        for (auto const alias : preset.aliases) {
            if (!alias.empty() && find_preset(alias) != &preset) return false;
        }
    }
    return true;
}
static_assert(are_names_unique(0));
static_assert(are_names_unique(1));
static_assert(are_names_unique(2));
static_assert(are_names_unique(3));
static_assert(model_presets.size() >= 20);

}  // namespace
