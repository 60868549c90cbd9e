// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// GPT-2: learned positions, packed q, k, v in Conv1D layers, whose weights are [in, out].
///
/// Source  transformers 4.57 models/gpt2/modeling_gpt2.py
struct Gpt2 {
    static constexpr std::string_view name = "gpt2";
    static constexpr std::string_view gguf_name = "gpt2";
    static constexpr std::string_view base_name = "transformer";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50257).in_gguf("vocab_size"),
        positive_field("n_embd", &ModelConfig::hidden_size, 768).named("hidden_size").in_gguf("embedding_length"),
        optional_field("n_inner", &ModelConfig::intermediate_size, 0).in_gguf("feed_forward_length"),
        positive_field("n_layer", &ModelConfig::layers, 12).named("num_hidden_layers").in_gguf("block_count"),
        positive_field("n_head", &ModelConfig::heads, 12).named("num_attention_heads").in_gguf("attention.head_count"),
        positive_field("n_positions", &ModelConfig::max_positions, 1024)
            .named("max_position_embeddings")
            .in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("scale_attn_weights", true),
        flag_field("scale_attn_by_inverse_layer_idx", false),
        real_field("layer_norm_epsilon", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        activation_field("activation_function", ActivationKind::gelu_new),
        refused_flag("add_cross_attention", "adds layers of cross-attention, which are not described"),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "transformer.wte.weight"},
        NameAlias{"position_embd.weight", "transformer.wpe.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "transformer.h.{}.ln_1.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "transformer.h.{}.ln_1.bias"},
        NameAlias{"blk.{}.attn_qkv.weight", "transformer.h.{}.attn.c_attn.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "transformer.h.{}.attn.c_attn.bias"},
        NameAlias{"blk.{}.attn_output.weight", "transformer.h.{}.attn.c_proj.weight"},
        NameAlias{"blk.{}.attn_output.bias", "transformer.h.{}.attn.c_proj.bias"},
        NameAlias{"blk.{}.ffn_norm.weight", "transformer.h.{}.ln_2.weight"},
        NameAlias{"blk.{}.ffn_norm.bias", "transformer.h.{}.ln_2.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "transformer.h.{}.mlp.c_fc.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "transformer.h.{}.mlp.c_fc.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "transformer.h.{}.mlp.c_proj.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "transformer.h.{}.mlp.c_proj.bias"},
        NameAlias{"output_norm.weight", "transformer.ln_f.weight"},
        NameAlias{"output_norm.bias", "transformer.ln_f.bias"},
        NameAlias{"output.weight", "lm_head.weight"},
    };

    /// Absent n_inner is 4 * n_embd.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(
                config,
                {"GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification", "GPT2ForTokenClassification"});
            !known)
            return known;
        if (auto const ok = detail::check_size("n_embd", config.hidden_size); !ok) return ok;
        if (config.intermediate_size == 0) config.intermediate_size = 4 * config.hidden_size;
        config.kv_heads = config.heads;
        if (config.own["scale_attn_weights"] == 0) config.score_scale = 1.0;
        if (auto const ok = detail::check_sizes(config, keys); !ok) return ok;
        if (auto const ok = detail::check_size("n_positions", config.max_positions); !ok) return ok;
        config.head_dim = config.hidden_size / config.heads;
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const dtype = config.dtype_or(Dtype::f32);
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const dropout = part.plain("Dropout");
        auto const packed = conv1d(tree, part, TensorUse::attention_qkv, hidden, 3 * hidden,
                                   ShardRule::qkv(1, config.heads, config.heads));
        auto const out =
            conv1d(tree, part, TensorUse::attention_output, hidden, hidden, ShardRule::units(0, config.heads));
        auto const positions = config.max_positions;
        auto const attention =
            tree.add("GPT2Attention",
                     {Tensor{.name = "bias",
                             .shape = {1, 1, positions, positions},
                             .dtype = Dtype::boolean,
                             .kind = TensorKind::transient_buffer},
                      Tensor{.name = "masked_bias", .shape = {}, .dtype = dtype, .kind = TensorKind::transient_buffer}},
                     {{"c_attn", packed}, {"c_proj", out}, {"attn_dropout", dropout}, {"resid_dropout", dropout}});
        auto const mlp =
            tree.add("GPT2MLP", {},
                     {{"c_fc", conv1d(tree, part, TensorUse::ffn_up, hidden, width, ShardRule::units(1, width))},
                      {"c_proj", conv1d(tree, part, TensorUse::ffn_down, width, hidden, ShardRule::units(0, width))},
                      {"act", part.plain(activation_class(config.activation))},
                      {"dropout", dropout}});
        auto const block =
            tree.add("GPT2Block", {}, {{"ln_1", norm}, {"attn", attention}, {"ln_2", norm}, {"mlp", mlp}});
        tree.keep_whole("GPT2Block");
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, block, ModuleRole::layer)});
        auto const model = tree.add("GPT2Model", {},
                                    {{"wte", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                                     {"wpe", part.table(positions, hidden), ModuleRole::embedding},
                                     {"drop", dropout},
                                     {"h", list},
                                     {"ln_f", norm, ModuleRole::norm}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "transformer", model, hidden, "classifier");
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head =
            part.linear(config.vocab_size, hidden, false, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("GPT2LMHeadModel", {}, {{"transformer", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("transformer.wte.weight", "lm_head.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        model.tokens("wte");
        model.positions("wpe");
        model.layers("h", [&](BlockBuilder& body) {
            auto const qkv = body.linear(body.layer_norm(body.input(), "ln_1"), "qkv", "attn.c_attn");
            auto shape = detail::plain_attention(config);
            shape.divides_by_layer = config.own["scale_attn_by_inverse_layer_idx"] != 0;
            auto const context = body.attention(qkv, qkv, qkv, shape);
            auto const middle = body.add(body.input(), body.linear(context, "attention_out", "attn.c_proj"));
            auto const normed = body.layer_norm(middle, "ln_2");
            (void)body.add(middle, detail::append_mlp(body, config, normed, "mlp.c_fc", "mlp.c_proj"));
        });
        model.norm("ln_f", NormKind::layer);
        detail::append_label_head(model, config, "classifier");
        model.head("lm_head");
        return std::move(model).finish();
    }

private:
    static constexpr detail::ConfigKeys keys{.hidden_size = "n_embd",
                                             .layers = "n_layer",
                                             .heads = "n_head",
                                             .kv_heads = "n_head",
                                             .intermediate_size = "n_inner"};

    static constexpr bool has_head(ModelConfig const& config) { return config.model_class.view() == "GPT2LMHeadModel"; }

    /// transformers' Conv1D: a linear layer with its weight transposed, always with a bias.
    static constexpr ModuleId conv1d(ModuleTree& tree, detail::PartMaker& part, TensorUse use, std::int64_t in,
                                     std::int64_t out, ShardRule shard) {
        auto bias_rule = ShardRule{};
        if (shard.dim == 1) {
            bias_rule = shard;
            bias_rule.dim = 0;
        }
        auto weight = part.tensors().weight(in, out, shard, use);
        weight.is_transposed = true;
        return tree.add("Conv1D", {weight, part.tensors().bias(out, bias_rule)});
    }
};

static_assert(ModelArchitecture<Gpt2>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
