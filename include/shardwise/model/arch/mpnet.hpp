// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/roberta_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// MPNet: roberta's encoder without token types, whose scores have a bias by distance that all layers share.
///
/// Source  transformers 4.57 models/mpnet/modeling_mpnet.py
struct MpNet {
    static constexpr std::string_view name = "mpnet";
    static constexpr std::string_view gguf_name = "";
    static constexpr std::string_view base_name = "mpnet";
    /// Files lack the pooler where their task does not use it (embedding models).
    static constexpr std::string_view optional_prefix = "pooler.";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 30527),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 3072),
        positive_field("num_hidden_layers", &ModelConfig::layers, 12),
        positive_field("num_attention_heads", &ModelConfig::heads, 12),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 512),
        positive_field("relative_attention_num_buckets", &ModelConfig::position_buckets, 32),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-12),
        activation_field("hidden_act", ActivationKind::gelu),
    };

    static constexpr std::array<NameAlias, 0> aliases{};

    static constexpr detail::BertLayout layout{.prefix = "MPNet", .has_padding_row = true};
    static constexpr detail::EncoderNames names{.query = "attention.attn.q",
                                                .key = "attention.attn.k",
                                                .value = "attention.attn.v",
                                                .out = "attention.attn.o",
                                                .middle_norm = "attention.LayerNorm",
                                                .has_biases = true};

    /// The class takes 1 for the padding id and 32 for the number of buckets, whatever the config says.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "MPNet", detail::masked_classes); !known) return known;
        if (config.position_buckets != 32) {
            return Error{ErrorCode::unsupported}
                .at("relative_attention_num_buckets")
                .because("is not what the class computes with")
                .got(config.position_buckets)
                .expected(32);
        }
        config.own.set("pad_token_id", 1);
        return detail::complete_encoder(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const model = add_model(tree, config);
        tree.set_root(model);
        if (config.labels > 0) detail::add_classifier(tree, config, "mpnet", model, "MPNetClassificationHead");
        if (!detail::is_for(config, "ForMaskedLM")) return tree;
        auto const hidden = config.hidden_size;
        auto const head =
            tree.add("MPNetLMHead", {part.tensors().bias(config.vocab_size, ShardRule::units(0, config.vocab_size))},
                     {{"dense", part.linear(hidden, hidden, true)},
                      {"layer_norm", detail::add_layer_norm(part, hidden)},
                      {"decoder", detail::add_masked_decoder(part, config)}});
        tree.set_root(tree.add("MPNetForMaskedLM", {}, {{"mpnet", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.weight");
        tree.tie("lm_head.bias", "lm_head.decoder.bias");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        auto own = names;
        own.scores = detail::is_base_class(config) ? "/encoder.relative_attention_bias.weight"
                                                   : "/mpnet.encoder.relative_attention_bias.weight";
        detail::append_encoder(model, config, layout, own);
        detail::append_classifier(model, config);
        detail::append_masked_head(model, "lm_head", "dense", "layer_norm", ActivationKind::gelu);
        return std::move(model).finish();
    }

private:
    static constexpr bool has_pooler(ModelConfig const& config) { return detail::has_roberta_pooler(config); }

    static constexpr ModuleId add_model(ModuleTree& tree, ModelConfig const& config) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const dropout = part.plain("Dropout");
        auto const in = [&](TensorUse use) {
            return part.linear(hidden, hidden, true, ShardRule::units(0, config.heads), use);
        };
        auto const out =
            part.linear(hidden, hidden, true, ShardRule::units(1, config.heads), TensorUse::attention_output);
        auto const self = tree.add("MPNetSelfAttention", {},
                                   {{"q", in(TensorUse::attention_q)},
                                    {"k", in(TensorUse::attention_k)},
                                    {"v", in(TensorUse::attention_v)},
                                    {"o", out},
                                    {"dropout", dropout}});
        auto const attention =
            tree.add("MPNetAttention", {}, {{"attn", self}, {"LayerNorm", norm}, {"dropout", dropout}});
        auto const up = part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up);
        auto const down = part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down);
        auto const intermediate =
            tree.add("MPNetIntermediate", {},
                     {{"dense", up}, {"intermediate_act_fn", part.plain(activation_class(config.activation))}});
        auto const layer = tree.add(
            "MPNetLayer", {},
            {{"attention", attention},
             {"intermediate", intermediate},
             {"output", tree.add("MPNetOutput", {}, {{"dense", down}, {"LayerNorm", norm}, {"dropout", dropout}})}});
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const biases = detail::add_relative_bias(part, config);
        auto const embeddings = tree.add("MPNetEmbeddings", {detail::position_indices(config)},
                                         {{"word_embeddings", part.vocabulary(config.vocab_size, hidden)},
                                          {"position_embeddings", part.table(config.max_positions, hidden)},
                                          {"LayerNorm", norm},
                                          {"dropout", dropout}});
        List<Child> children{
            {"embeddings", embeddings, ModuleRole::embedding},
            {"encoder", tree.add("MPNetEncoder", {}, {{"layer", list}, {"relative_attention_bias", biases}})}};
        if (has_pooler(config)) {
            auto const dense = part.linear(hidden, hidden, true);
            children.push_back({"pooler",
                                tree.add("MPNetPooler", {}, {{"dense", dense}, {"activation", part.plain("Tanh")}}),
                                ModuleRole::head});
        }
        return tree.add("MPNetModel", children);
    }
};

static_assert(ModelArchitecture<MpNet>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
