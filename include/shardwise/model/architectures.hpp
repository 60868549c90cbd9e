// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/arch/apertus.hpp>
#include <shardwise/model/arch/bert.hpp>
#include <shardwise/model/arch/bloom.hpp>
#include <shardwise/model/arch/cohere.hpp>
#include <shardwise/model/arch/cohere2.hpp>
#include <shardwise/model/arch/deepseek_v2.hpp>
#include <shardwise/model/arch/deepseek_v3.hpp>
#include <shardwise/model/arch/distilbert.hpp>
#include <shardwise/model/arch/ernie4_5.hpp>
#include <shardwise/model/arch/exaone4.hpp>
#include <shardwise/model/arch/falcon.hpp>
#include <shardwise/model/arch/gemma.hpp>
#include <shardwise/model/arch/gemma2.hpp>
#include <shardwise/model/arch/gemma3.hpp>
#include <shardwise/model/arch/glm4.hpp>
#include <shardwise/model/arch/glm4_moe.hpp>
#include <shardwise/model/arch/gpt2.hpp>
#include <shardwise/model/arch/gpt_neox.hpp>
#include <shardwise/model/arch/gpt_oss.hpp>
#include <shardwise/model/arch/granite.hpp>
#include <shardwise/model/arch/hunyuan_v1_dense.hpp>
#include <shardwise/model/arch/kimi_k2.hpp>
#include <shardwise/model/arch/llama.hpp>
#include <shardwise/model/arch/llama4_text.hpp>
#include <shardwise/model/arch/minimax_m2.hpp>
#include <shardwise/model/arch/mistral.hpp>
#include <shardwise/model/arch/mixtral.hpp>
#include <shardwise/model/arch/modernbert.hpp>
#include <shardwise/model/arch/mpnet.hpp>
#include <shardwise/model/arch/mt5.hpp>
#include <shardwise/model/arch/nemotron.hpp>
#include <shardwise/model/arch/olmo2.hpp>
#include <shardwise/model/arch/olmo3.hpp>
#include <shardwise/model/arch/opt.hpp>
#include <shardwise/model/arch/phi.hpp>
#include <shardwise/model/arch/phi3.hpp>
#include <shardwise/model/arch/phimoe.hpp>
#include <shardwise/model/arch/qwen2.hpp>
#include <shardwise/model/arch/qwen2_5_vl_text.hpp>
#include <shardwise/model/arch/qwen2_moe.hpp>
#include <shardwise/model/arch/qwen2_vl_text.hpp>
#include <shardwise/model/arch/qwen3.hpp>
#include <shardwise/model/arch/qwen3_moe.hpp>
#include <shardwise/model/arch/qwen3_next.hpp>
#include <shardwise/model/arch/qwen3_vl_moe_text.hpp>
#include <shardwise/model/arch/qwen3_vl_text.hpp>
#include <shardwise/model/arch/roberta.hpp>
#include <shardwise/model/arch/seed_oss.hpp>
#include <shardwise/model/arch/smollm3.hpp>
#include <shardwise/model/arch/stablelm.hpp>
#include <shardwise/model/arch/starcoder2.hpp>
#include <shardwise/model/arch/t5.hpp>
#include <shardwise/model/arch/umt5.hpp>
#include <shardwise/model/arch/xlm_roberta.hpp>
#include <shardwise/model/architecture.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A list of architecture policies.
template <ModelArchitecture... Archs>
struct ArchitectureList {
    /// Calls visit(Arch{}) for the family with this model_type; false where there is none.
    template <class Visit>
    static constexpr bool with(std::string_view model_type, Visit visit) {
        bool found = false;
        (void)((Archs::name == model_type ? (visit(Archs{}), found = true) : false) || ...);
        return found;
    }
    /// Calls visit(Arch{}) for every family.
    template <class Visit>
    static constexpr void for_each(Visit visit) {
        (visit(Archs{}), ...);
    }
};

/// Every family that this version knows. Adding one: docs/how-to/add-an-architecture.md.
using Architectures = ArchitectureList<Llama, Mistral, Qwen2, Qwen3, Qwen2Moe, Qwen3Moe, Mixtral, Gemma, Gemma2,
                                       Gemma3Text, Phi3, GptOss, Phi, Gpt2, GptNeoX, Opt, Bloom, Falcon,
                                       Bert, Roberta, T5, Mt5, Umt5, DeepseekV2, DeepseekV3, Granite, Cohere,
                                       Cohere2, Olmo2, Olmo3, Exaone4, Glm4, Nemotron, Glm4Moe,
                                       KimiK2, Phimoe,
                                       SmolLM3, StableLm, Starcoder2, SeedOss, Ernie45, HunYuanDenseV1,
                                       XlmRoberta, DistilBert, ModernBert, MpNet, Llama4Text, Apertus,
                                       MiniMaxM2, Qwen2VlText, Qwen25VlText, Qwen3VlText, Qwen3VlMoeText,
                                       Qwen3Next>;

/// The model that a config describes, by its model_type. A template, so that programs which never ask do not pay for it.
///
/// Errors  unknown_name for a model_type that no family has; what the family refuses
template <class List = Architectures>
    requires(!ModelArchitecture<List>)
[[nodiscard]] constexpr Result<Model> describe(ModelConfig const& config) {
    Result<Model> result{Error{ErrorCode::unknown_name}};
    // nvcc takes the assignment's value for one that is ignored.
    auto const describe_as = [&]<class Arch>(Arch) { static_cast<void>(result = describe<Arch>(config)); };
    if (List::with(config.model_type.view(), describe_as)) return result;
    ClosestName closest(config.model_type.view());
    List::for_each([&]<class Arch>(Arch) { closest.offer(Arch::name); });
    Error error{ErrorCode::unknown_name};
    error.in(config.model_type.view()).at("model_type").because("is not a known architecture");
    return error.fix(did_you_mean(closest.best()).view());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
