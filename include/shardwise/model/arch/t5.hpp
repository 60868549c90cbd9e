// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/square_root.hpp>
#include <shardwise/model/arch/detail/t5_stack.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What an absent key means to T5, or to a family that copies it.
struct T5Defaults {
    std::int64_t vocabulary = 32128;
    std::int64_t width = 2048;
    std::int64_t layers = 6;
    std::int64_t heads = 8;
    ActivationKind activation = ActivationKind::relu;
    bool is_gated = false;
    bool is_tied = true;
};

[[nodiscard]] constexpr auto t5_fields(T5Defaults const& of) {
    return std::array{
        positive_field("vocab_size", &ModelConfig::vocab_size, of.vocabulary).in_gguf("vocab_size"),
        positive_field("d_model", &ModelConfig::hidden_size, 512).named("hidden_size").in_gguf("embedding_length"),
        positive_field("d_kv", &ModelConfig::head_dim, 64).named("head_dim").in_gguf("attention.key_length"),
        positive_field("d_ff", &ModelConfig::intermediate_size, of.width).in_gguf("feed_forward_length"),
        positive_field("num_layers", &ModelConfig::layers, of.layers).named("num_hidden_layers").in_gguf("block_count"),
        optional_field("num_decoder_layers", 0).derived_from(&ModelConfig::layers).in_gguf("decoder_block_count"),
        positive_field("num_heads", &ModelConfig::heads, of.heads)
            .named("num_attention_heads")
            .in_gguf("attention.head_count"),
        positive_field("relative_attention_num_buckets", &ModelConfig::position_buckets, 32)
            .in_gguf("attention.relative_buckets_count"),
        positive_field("relative_attention_max_distance", 128),
        natural_field("n_positions", &ModelConfig::max_positions, 0).in_gguf("context_length"),
        natural_field("decoder_start_token_id", &ModelConfig::decoder_start, 0).in_gguf("decoder_start_token_id"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, of.is_tied),
        flag_field("scale_decoder_outputs", false).attribute().completed(),
        version_field("transformers_version"),
        real_field("layer_norm_epsilon", &ModelConfig::norm_epsilon, 1e-6).in_gguf("attention.layer_norm_rms_epsilon"),
        activation_field("feed_forward_proj", of.activation).gating("is_gated_act"),
        flag_field("is_gated_act", of.is_gated).attribute(),
        activation_field("dense_act_fn", of.activation).attribute(),
        refused_flag("tie_encoder_decoder", "lets the stacks share their weights, which is not described"),
    };
}

/// What T5 and the families that copy it share.
struct T5Family {
    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "shared.weight"},
        NameAlias{"enc.blk.{}.attn_norm.weight", "encoder.block.{}.layer.0.layer_norm.weight"},
        NameAlias{"enc.blk.{}.attn_q.weight", "encoder.block.{}.layer.0.SelfAttention.q.weight"},
        NameAlias{"enc.blk.{}.attn_k.weight", "encoder.block.{}.layer.0.SelfAttention.k.weight"},
        NameAlias{"enc.blk.{}.attn_v.weight", "encoder.block.{}.layer.0.SelfAttention.v.weight"},
        NameAlias{"enc.blk.{}.attn_o.weight", "encoder.block.{}.layer.0.SelfAttention.o.weight"},
        NameAlias{"enc.blk.{}.attn_rel_b.weight",
                  "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"},
        NameAlias{"enc.blk.{}.ffn_norm.weight", "encoder.block.{}.layer.1.layer_norm.weight"},
        NameAlias{"enc.blk.{}.ffn_gate.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight"},
        NameAlias{"enc.blk.{}.ffn_up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight"},
        NameAlias{"enc.blk.{}.ffn_up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi.weight"},
        NameAlias{"enc.blk.{}.ffn_down.weight", "encoder.block.{}.layer.1.DenseReluDense.wo.weight"},
        NameAlias{"enc.output_norm.weight", "encoder.final_layer_norm.weight"},
        NameAlias{"dec.blk.{}.attn_norm.weight", "decoder.block.{}.layer.0.layer_norm.weight"},
        NameAlias{"dec.blk.{}.attn_q.weight", "decoder.block.{}.layer.0.SelfAttention.q.weight"},
        NameAlias{"dec.blk.{}.attn_k.weight", "decoder.block.{}.layer.0.SelfAttention.k.weight"},
        NameAlias{"dec.blk.{}.attn_v.weight", "decoder.block.{}.layer.0.SelfAttention.v.weight"},
        NameAlias{"dec.blk.{}.attn_o.weight", "decoder.block.{}.layer.0.SelfAttention.o.weight"},
        NameAlias{"dec.blk.{}.attn_rel_b.weight",
                  "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"},
        NameAlias{"dec.blk.{}.cross_attn_norm.weight", "decoder.block.{}.layer.1.layer_norm.weight"},
        NameAlias{"dec.blk.{}.cross_attn_q.weight", "decoder.block.{}.layer.1.EncDecAttention.q.weight"},
        NameAlias{"dec.blk.{}.cross_attn_k.weight", "decoder.block.{}.layer.1.EncDecAttention.k.weight"},
        NameAlias{"dec.blk.{}.cross_attn_v.weight", "decoder.block.{}.layer.1.EncDecAttention.v.weight"},
        NameAlias{"dec.blk.{}.cross_attn_o.weight", "decoder.block.{}.layer.1.EncDecAttention.o.weight"},
        NameAlias{"dec.blk.{}.ffn_norm.weight", "decoder.block.{}.layer.2.layer_norm.weight"},
        NameAlias{"dec.blk.{}.ffn_gate.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight"},
        NameAlias{"dec.blk.{}.ffn_up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight"},
        NameAlias{"dec.blk.{}.ffn_up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi.weight"},
        NameAlias{"dec.blk.{}.ffn_down.weight", "decoder.block.{}.layer.2.DenseReluDense.wo.weight"},
        NameAlias{"dec.output_norm.weight", "decoder.final_layer_norm.weight"},
        NameAlias{"output.weight", "lm_head.weight"},
    };

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "dense_act_fn",
            [](ModelConfig& config) {
                config.activation = config.own["is_gated_act"] != 0 ? ActivationKind::gelu_new : ActivationKind::relu;
            },
            "llama.cpp 0c1e570, src/models/t5.cpp: LLM_FFN_GELU where there is a gate, else LLM_FFN_RELU"),
    };

    /// GGUF does not state whether feed-forward modules have gates.
    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        bool const is_gated = names.has("blk.0.ffn_gate.weight") || names.has("enc.blk.0.ffn_gate.weight");
        config.own.set("is_gated_act", is_gated ? 1 : 0);
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return t5_program(config, tree, detail::T5Tables::of_first_block);
    }

protected:
    static constexpr BlockProgram t5_program(auto const& config, ModuleTree const& tree, detail::T5Tables tables) {
        ProgramBuilder model(tree);
        detail::append_t5_stack(model, config, false, tables);
        if (has_decoder(config)) {
            model.end_encoder();
            detail::append_t5_stack(model, config, true, tables);
        }
        // The head of T5 1.0, which is the table of embeddings, reads smaller states.
        auto const root = detail::square_root(static_cast<double>(config.hidden_size));
        model.head("lm_head", config.own["scale_decoder_outputs"] != 0 ? 1.0 / root : 1.0);
        return std::move(model).finish();
    }
    /// Absent decoder layers are as many as the encoder's; attention is num_heads * d_kv wide whatever d_model is.
    static constexpr Result<> complete_t5(ModelConfig& config) {
        config.kv_heads = config.heads;
        detail::ConfigKeys const keys{.hidden_size = "d_model",
                                      .layers = "num_layers",
                                      .heads = "num_heads",
                                      .kv_heads = "num_heads",
                                      .intermediate_size = "d_ff"};
        if (auto const ok = detail::check_sizes(config, keys, true); !ok) return ok;
        if (auto const ok = detail::check_size("d_kv", config.head_dim); !ok) return ok;
        if (auto const ok = detail::check_size("relative_attention_num_buckets", config.position_buckets); !ok)
            return ok;
        derive_absent(t5_fields({}), config);
        auto const decoder_layers = config.own["num_decoder_layers"];
        if (auto const ok = detail::check_size("num_decoder_layers", decoder_layers); !ok) return ok;
        if (has_decoder(config) && (config.decoder_start < -1 || config.decoder_start >= config.vocab_size)) {
            return Error{ErrorCode::invalid_field}
                .at("decoder_start_token_id")
                .because("is not in the vocabulary")
                .got(config.decoder_start)
                .between(0, config.vocab_size - 1);
        }
        if (decoder_layers > LayerSet::capacity) {
            return Error{ErrorCode::capacity_exceeded}
                .at("num_decoder_layers")
                .because("is more than this library plans for")
                .got(decoder_layers)
                .at_most(LayerSet::capacity);
        }
        // transformers 5 ties every head and says by this key what 4 says by the tie.
        constexpr std::string_view is_scaled = "scale_decoder_outputs";
        if (!config.own.has(is_scaled) || config.own[is_scaled] < 0)
            config.own.set(is_scaled, config.tie_word_embeddings ? 1 : 0);
        auto both_stacks = config;
        both_stacks.layers += 2 * decoder_layers;  // a decoder block has two attentions
        return detail::check_products(both_stacks);
    }

    static constexpr ModuleTree t5_tree(auto const& config, std::string_view prefix,
                                        detail::T5Tables tables = detail::T5Tables::of_first_block) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const table = part.vocabulary(config.vocab_size, config.hidden_size);
        auto const encoder = detail::add_t5_stack(tree, config, prefix, table, false, tables);
        tree.keep_whole(part.name(prefix, "Block"));
        tree.tie("shared.weight", "encoder.embed_tokens.weight");
        List<Child> children{{"shared", table, ModuleRole::embedding}, {"encoder", encoder}};
        if (has_decoder(config)) {
            children.push_back({"decoder", detail::add_t5_stack(tree, config, prefix, table, true, tables)});
            tree.tie("shared.weight", "decoder.embed_tokens.weight");
        }
        if (has_head(config)) {
            auto const head = part.linear(config.vocab_size, config.hidden_size, false,
                                          ShardRule::units(0, config.vocab_size), TensorUse::head);
            children.push_back({"lm_head", head, ModuleRole::head});
            if (config.tie_word_embeddings) tree.tie("shared.weight", "lm_head.weight");
        }
        tree.set_root(tree.add(tree.names().join(config.model_class.view()), children));
        return tree;
    }

private:
    static constexpr bool has_decoder(ModelConfig const& config) {
        return !config.model_class.view().ends_with("EncoderModel");
    }
    static constexpr bool has_head(ModelConfig const& config) {
        return config.model_class.view().ends_with("ForConditionalGeneration");
    }
};

}  // namespace detail

/// T5 1.0 and 1.1, FLAN-T5: an encoder and a decoder with relative positions, or the encoder alone.
///
/// Source  transformers 4.57 models/t5/modeling_t5.py; scale_decoder_outputs: 5.23 configuration_t5.py, modeling_t5.py
struct T5 : detail::T5Family {
    static constexpr std::string_view name = "t5";
    static constexpr std::string_view gguf_name = "t5";
    static constexpr std::string_view gguf_encoder_name = "t5encoder";
    static constexpr std::string_view gguf_encoder_class = "T5EncoderModel";

    static constexpr auto fields = detail::t5_fields({});

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, {"T5ForConditionalGeneration", "T5Model", "T5EncoderModel"});
            !known)
            return known;
        return complete_t5(config);
    }

    /// One table serves `shared` and both stacks: their names are tied in any case, the head's where configured.
    static constexpr ModuleTree tree(auto const& config) { return t5_tree(config, "T5"); }
};

static_assert(ModelArchitecture<T5>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
