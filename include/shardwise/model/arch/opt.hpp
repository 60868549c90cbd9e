// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// OPT, with its projected variant (350m: word_embed_proj_dim, norms after the blocks) and Galactica's without biases.
///
/// Source  transformers 4.57 models/opt/modeling_opt.py
struct Opt {
    static constexpr std::string_view name = "opt";
    /// llama.cpp has no OPT.
    static constexpr std::string_view gguf_name = "";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50272),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768),
        positive_field("ffn_dim", &ModelConfig::intermediate_size, 3072),
        positive_field("num_hidden_layers", &ModelConfig::layers, 12),
        positive_field("num_attention_heads", &ModelConfig::heads, 12),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048),
        optional_field("word_embed_proj_dim", 0).derived_from(&ModelConfig::hidden_size),
        flag_field("do_layer_norm_before", true),
        flag_field("_remove_final_layer_norm", false),
        flag_field("enable_bias", &ModelConfig::attention_bias, true),
        flag_field("layer_norm_elementwise_affine", true),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        activation_field("activation_function", ActivationKind::relu),
    };

    static constexpr std::array<NameAlias, 0> aliases{};

    /// Learned positions begin at row 2 of their table.
    static constexpr std::int64_t position_offset = 2;

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "OPT", detail::text_label_classes); !known) return known;
        config.kv_heads = config.heads;
        if (auto const ok = detail::check_size("hidden_size", config.hidden_size); !ok) return ok;
        derive_absent(fields, config);
        if (auto const ok = detail::check_size("word_embed_proj_dim", embedding_size(config)); !ok) return ok;
        if (auto const ok = detail::check_bounded(embedding_size(config)); !ok) return ok;
        if (auto const ok = detail::check_sizes(config, {.intermediate_size = "ffn_dim"}); !ok) return ok;
        if (auto const ok = detail::check_size("max_position_embeddings", config.max_positions); !ok) return ok;
        config.head_dim = config.hidden_size / config.heads;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = config.attention_bias;
        config.norm_epsilon = 1e-5;
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        bool const bias = config.attention_bias;
        auto const norm = config.own["layer_norm_elementwise_affine"] != 0 ? detail::add_layer_norm(part, hidden)
                                                                           : part.plain("LayerNorm");
        auto const in = [&](TensorUse use) {
            return part.linear(hidden, hidden, bias, ShardRule::units(0, config.heads), use);
        };
        auto const out =
            part.linear(hidden, hidden, bias, ShardRule::units(1, config.heads), TensorUse::attention_output);
        auto const attention = tree.add("OPTAttention", {},
                                        {{"k_proj", in(TensorUse::attention_k)},
                                         {"v_proj", in(TensorUse::attention_v)},
                                         {"q_proj", in(TensorUse::attention_q)},
                                         {"out_proj", out}});
        auto const up = part.linear(width, hidden, bias, ShardRule::units(0, width), TensorUse::ffn_up);
        auto const down = part.linear(hidden, width, bias, ShardRule::units(1, width), TensorUse::ffn_down);
        auto const layer = tree.add("OPTDecoderLayer", {},
                                    {{"self_attn", attention},
                                     {"activation_fn", part.plain(activation_class(config.activation))},
                                     {"self_attn_layer_norm", norm},
                                     {"fc1", up},
                                     {"fc2", down},
                                     {"final_layer_norm", norm}});
        tree.keep_whole("OPTDecoderLayer");
        List<Child> children{
            {"embed_tokens", part.vocabulary(config.vocab_size, embedding_size(config)), ModuleRole::embedding},
            {"embed_positions",
             part.table(config.max_positions + position_offset, hidden, "OPTLearnedPositionalEmbedding"),
             ModuleRole::embedding}};
        if (is_projected(config)) {
            children.push_back({"project_out", part.linear(embedding_size(config), hidden, false), ModuleRole::norm});
            children.push_back(
                {"project_in", part.linear(hidden, embedding_size(config), false), ModuleRole::embedding});
        }
        if (has_final_norm(config)) children.push_back({"final_layer_norm", norm, ModuleRole::norm});
        children.push_back(
            {"layers", tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)})});
        auto const model = tree.add("OPTModel", {}, {{"decoder", tree.add("OPTDecoder", children)}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "model", model, embedding_size(config));
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head = part.linear(config.vocab_size, embedding_size(config), false,
                                      ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("OPTForCausalLM", {}, {{"model", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("model.decoder.embed_tokens.weight", "lm_head.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, "model");
        model.tokens("decoder.embed_tokens");
        model.linear("decoder.project_in", "projected");
        model.positions("decoder.embed_positions", position_offset);
        model.layers("decoder.layers", [&](BlockBuilder& body) { write_layer(body, config); });
        model.norm("decoder.final_layer_norm", NormKind::layer);
        model.linear("decoder.project_out", "projected");
        detail::append_label_head(model, config);
        model.head("lm_head");
        return std::move(model).finish();
    }

private:
    static constexpr bool has_head(ModelConfig const& config) { return config.model_class.view() == "OPTForCausalLM"; }
    static constexpr std::int64_t embedding_size(ModelConfig const& config) {
        return config.own["word_embed_proj_dim"];
    }
    static constexpr bool is_projected(ModelConfig const& config) {
        return embedding_size(config) != config.hidden_size;
    }
    static constexpr bool has_final_norm(ModelConfig const& config) {
        return config.own["do_layer_norm_before"] != 0 && config.own["_remove_final_layer_norm"] == 0;
    }

    static constexpr void write_layer(BlockBuilder& body, ModelConfig const& config) {
        bool const is_before = config.own["do_layer_norm_before"] != 0;
        auto const normed = is_before ? body.layer_norm(body.input(), "self_attn_layer_norm") : body.input();
        auto const q = body.linear(normed, "q", "self_attn.q_proj");
        auto const k = body.linear(normed, "k", "self_attn.k_proj");
        auto const v = body.linear(normed, "v", "self_attn.v_proj");
        auto const context = body.attention(q, k, v, detail::plain_attention(config));
        auto middle = body.add(body.input(), body.linear(context, "attention_out", "self_attn.out_proj"));
        if (!is_before) middle = body.layer_norm(middle, "self_attn_layer_norm");
        auto const normed_again = is_before ? body.layer_norm(middle, "final_layer_norm") : middle;
        auto const out = body.add(middle, detail::append_mlp(body, config, normed_again, "fc1", "fc2"));
        if (!is_before) (void)body.layer_norm(out, "final_layer_norm");
    }
};

static_assert(ModelArchitecture<Opt>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
