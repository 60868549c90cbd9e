// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/gguf_config.hpp>
#include <shardwise/op/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// A GGUF file of keys and of tensors that hold one block each.
class Written {
public:
    Written& text(std::string_view key, std::string_view value) {
        name(keys_, key), put(keys_, std::uint32_t{8}), name(keys_, value);
        return ++key_count_, *this;
    }
    Written& number(std::string_view key, std::uint32_t value) {
        name(keys_, key), put(keys_, std::uint32_t{4}), put(keys_, value);
        return ++key_count_, *this;
    }
    Written& real(std::string_view key, float value) {
        name(keys_, key), put(keys_, std::uint32_t{6}), put(keys_, value);
        return ++key_count_, *this;
    }
    Written& numbers(std::string_view key, std::initializer_list<std::int32_t> values) {
        name(keys_, key), put(keys_, std::uint32_t{9}), put(keys_, std::uint32_t{5});
        put(keys_, std::uint64_t{values.size()});
        for (auto const value : values) put(keys_, value);
        return ++key_count_, *this;
    }
    /// `extents` innermost first, as the file has them.
    Written& tensor(std::string_view title, std::initializer_list<std::uint64_t> extents, std::uint32_t type = 1) {
        name(tensors_, title), put(tensors_, static_cast<std::uint32_t>(extents.size()));
        std::uint64_t size = type == 0 ? 4 : 2;
        for (auto const extent : extents) put(tensors_, extent), size *= extent;
        put(tensors_, type), put(tensors_, std::uint64_t{data_});
        data_ += (size + 31) / 32 * 32;
        return ++tensor_count_, *this;
    }
    [[nodiscard]] std::string bytes() const {
        std::string file = "GGUF";
        put(file, std::uint32_t{3}), put(file, tensor_count_), put(file, key_count_);
        file += keys_ + tensors_;
        file.resize((file.size() + 31) / 32 * 32 + data_);
        return file;
    }
    [[nodiscard]] Result<ModelConfig> read() const {
        auto const file = bytes();
        auto const header = parse_gguf(file, "m.gguf");
        REQUIRE(header.has_value());
        return read_gguf_config(*header, "m.gguf");
    }

private:
    template <class Number>
    static void put(std::string& out, Number number) {
        char raw[sizeof number];
        std::memcpy(raw, &number, sizeof number);
        out.append(raw, sizeof number);
    }
    static void name(std::string& out, std::string_view value) {
        put(out, std::uint64_t{value.size()});
        out += value;
    }

    std::string keys_;
    std::string tensors_;
    std::uint64_t key_count_ = 0;
    std::uint64_t tensor_count_ = 0;
    std::uint64_t data_ = 0;
};

Written model(std::string const& arch) {
    Written file;
    file.text("general.architecture", arch).number(arch + ".block_count", 2).number(arch + ".embedding_length", 64);
    file.number(arch + ".attention.head_count", 4).number(arch + ".context_length", 128);
    return std::move(file.number(arch + ".feed_forward_length", 96).tensor("token_embd.weight", {64, 32}));
}

/// The least that a llama needs.
Written small_llama() {
    Written written;
    written.text("general.architecture", "llama").number("llama.embedding_length", 64).number("llama.block_count", 1);
    written.number("llama.attention.head_count", 4).number("llama.context_length", 512);
    written.tensor("token_embd.weight", {64, 32});
    return written;
}

TEST_CASE("Scaled positions have llama.cpp's keys") {
    auto const linear = small_llama().real("llama.rope.scaling.factor", 4.0F).read();
    REQUIRE(linear);
    CHECK(linear->rope.kind == RopeKind::linear);
    CHECK(linear->rope.factor == 4.0);
    auto const older = small_llama().real("llama.rope.scale_linear", 2.0F).read();
    REQUIRE(older);
    CHECK(older->rope.kind == RopeKind::linear);
    auto const none =
        small_llama().text("llama.rope.scaling.type", "none").real("llama.rope.scaling.factor", 4.0F).read();
    REQUIRE(none);
    CHECK(none->rope.kind == RopeKind::standard);
    auto const yarn = small_llama()
                          .text("llama.rope.scaling.type", "yarn")
                          .real("llama.rope.scaling.factor", 8.0F)
                          .number("llama.rope.scaling.original_context_length", 128)
                          .real("llama.rope.scaling.yarn_log_multiplier", 0.0625F)
                          .read();
    REQUIRE(yarn);
    CHECK(yarn->rope.kind == RopeKind::yarn);
    CHECK(yarn->rope.original_max_positions == 128);
    CHECK(yarn->rope.mscale_all_dim == 0.625);
    auto const lists = small_llama().tensor("rope_factors_long.weight", {8}, 0).read();
    REQUIRE(lists);
    CHECK(lists->rope.kind == RopeKind::longrope);
    auto const unknown =
        small_llama().text("llama.rope.scaling.type", "spiral").real("llama.rope.scaling.factor", 8.0F).read();
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().message().find("spiral") != std::string::npos);
    CHECK_FALSE(small_llama().real("llama.rope.scaling.factor", -1.0F).read());
    for (float const base : {0.0F, -1e4F}) {
        auto const refused = small_llama().real("llama.rope.freq_base", base).read();
        REQUIRE_FALSE(refused);
        CHECK(refused.error().place() == "llama.rope.freq_base");
        CHECK(refused.error().reason() == "must be above 0");
    }
    auto const refused_at = [](Written const& file) {
        auto const config = file.read();
        REQUIRE_FALSE(config);
        return std::string(config.error().place());
    };
    CHECK(
        refused_at(small_llama().text("llama.rope.scaling.type", "longrope").real("llama.rope.scaling.factor", 8.0F)) ==
        "llama.rope.scaling.type");
    CHECK(refused_at(small_llama().real("llama.rope.scaling.attn_factor", 1.5F)) == "llama.rope.scaling.attn_factor");
    CHECK(small_llama().real("llama.rope.scaling.attn_factor", 1.0F).read().has_value());
    CHECK(refused_at(small_llama().real("llama.rope.freq_base_swa", 5e5F)) == "llama.rope.freq_base_swa");
    CHECK(small_llama().real("llama.rope.freq_base_swa", 1e4F).read().has_value());
    CHECK(refused_at(small_llama().number("llama.expert_group_count", 4)) == "llama.expert_group_count");
    CHECK(small_llama().number("llama.expert_group_count", 1).read().has_value());
    auto const negative = small_llama().real("llama.attention.layer_norm_rms_epsilon", -1e-5F).read();
    REQUIRE_FALSE(negative);
    CHECK(negative.error().place() == "llama.attention.layer_norm_rms_epsilon");
}

}  // namespace

TEST_CASE("absent keys follow llama.cpp's rules, the vocabulary its table") {
    auto const config = model("llama").text("general.name", "Tiny").read();
    REQUIRE(config.has_value());
    CHECK(config->model_type.view() == "llama");
    CHECK(config->name.view() == "Tiny");
    CHECK(config->layers == 2);
    CHECK(config->kv_heads == 4);
    CHECK(config->head_dim == 16);
    CHECK(config->vocab_size == 32);
    CHECK(config->tie_word_embeddings);
    CHECK(config->dtype == Dtype::f16);
    auto const full = model("llama")
                          .number("llama.attention.head_count_kv", 2)
                          .number("llama.attention.key_length", 8)
                          .tensor("output.weight", {64, 32}, 0)
                          .read();
    REQUIRE(full.has_value());
    CHECK(full->kv_heads == 2);
    CHECK(full->head_dim == 8);
    CHECK_FALSE(full->tie_word_embeddings);
    CHECK(full->dtype == Dtype::f32);
}

TEST_CASE("a marker tells families of one GGUF name apart") {
    CHECK(model("llama").number("llama.expert_count", 4).read()->model_type.view() == "mixtral");
    CHECK(model("llama").number("llama.expert_count", 0).read()->model_type.view() == "llama");
    auto const deepseek = [] {
        return std::move(model("deepseek2")
                             .number("deepseek2.attention.kv_lora_rank", 32)
                             .number("deepseek2.rope.dimension_count", 8)
                             .number("deepseek2.attention.key_length", 40)
                             .number("deepseek2.attention.key_length_mla", 24)
                             .number("deepseek2.attention.value_length", 32)
                             .number("deepseek2.attention.value_length_mla", 12));
    };
    auto const v2 = deepseek().read();
    REQUIRE(v2.has_value());
    CHECK(v2->model_type.view() == "deepseek_v2");
    CHECK(v2->q_lora_rank == 0);
    CHECK(v2->qk_rope_head_dim == 8);
    CHECK(v2->qk_nope_head_dim == 16);
    CHECK(v2->v_head_dim == 12);
    CHECK(deepseek().tensor("blk.1.exp_probs_b.bias", {4}, 0).read()->model_type.view() == "deepseek_v3");
}

TEST_CASE("a list over layers is one number where all are the same") {
    CHECK(model("llama").numbers("llama.attention.head_count_kv", {2, 2}).read()->kv_heads == 2);
    auto const mixed = model("llama").numbers("llama.attention.head_count_kv", {2, 4}).read();
    REQUIRE_FALSE(mixed.has_value());
    CHECK(mixed.error().code() == ErrorCode::unsupported);
    CHECK(mixed.error().message() ==
          "m.gguf: llama.attention.head_count_kv: layer 1: differs from layer 0's, and this family's layers are "
          "described "
          "as equal (got 4, expected 2)");
    CHECK(model("llama").numbers("llama.attention.head_count_kv", {}).read().error().code() ==
          ErrorCode::invalid_field);
}

TEST_CASE("a GGUF whose layers differ is mapped from its tensors' names") {
    testing::TemporaryFolder const folder;
    auto file = model("llama").numbers("llama.attention.head_count_kv", {2, 4});
    std::ofstream(folder.path("m.gguf"), std::ios::binary) << file.tensor("blk.1.ffn_up.weight", {64, 64}).bytes();
    auto const checkpoint = testing::read(folder.path("m.gguf"));
    REQUIRE(checkpoint.has_value());
    REQUIRE(checkpoint->not_described.has_value());
    CHECK(checkpoint->not_described->place() == "llama.attention.head_count_kv");
    CHECK(checkpoint->warnings.size() == 2);
    CHECK(testing::tensor_of(*checkpoint, "blk.1.ffn_up.weight").shape == Shape{64, 64});
}

TEST_CASE("impossible metadata are refused with the key") {
    auto const absent = Written{}.text("general.architecture", "llama").read();
    REQUIRE_FALSE(absent.has_value());
    CHECK(absent.error().code() == ErrorCode::missing_field);
    CHECK(absent.error().place() == "llama.embedding_length");
    CHECK(Written{}.read().error().place() == "general.architecture");
    auto const unknown = model("llamma").read();
    REQUIRE_FALSE(unknown.has_value());
    CHECK(unknown.error().code() == ErrorCode::unknown_name);
    CHECK(unknown.error().reason() == "\"llamma\" is not a known architecture; did you mean llama?");
    CHECK(unknown.error().advice().find("qwen3moe") != std::string::npos);
    auto const with = [](std::uint32_t layers, std::uint32_t heads) {
        Written file;
        file.text("general.architecture", "llama").number("llama.embedding_length", 64);
        return file.number("llama.block_count", layers).number("llama.attention.head_count", heads).read();
    };
    CHECK(with(0, 4).error().place() == "llama.block_count");
    CHECK(with(2, 0).error().place() == "llama.attention.head_count");
    CHECK(with(1U << 20U, 4).error().code() == ErrorCode::capacity_exceeded);
    CHECK(with(0xFFFFFFFFU, 4).error().code() == ErrorCode::size_overflow);
}

TEST_CASE("gemma's scores are scaled by the width of a head, in the 27B models by hidden size over heads") {
    struct Published {
        char const* family;
        std::uint32_t layers, hidden, heads, head_dim;
        double scale;  // query_pre_attn_scalar of the published config.json
    };
    for (auto const& one : {Published{"gemma2", 26, 2304, 8, 256, 256.0}, Published{"gemma2", 42, 3584, 16, 256, 256.0},
                            Published{"gemma2", 46, 4608, 32, 128, 144.0}, Published{"gemma3", 26, 1152, 4, 256, 256.0},
                            Published{"gemma3", 34, 2560, 8, 256, 256.0}, Published{"gemma3", 48, 3840, 16, 256, 256.0},
                            Published{"gemma3", 62, 5376, 32, 128, 168.0}}) {
        CAPTURE(one.layers);
        std::string const family = one.family;
        auto const config = Written{}
                                .text("general.architecture", family)
                                .number(family + ".block_count", one.layers)
                                .number(family + ".embedding_length", one.hidden)
                                .number(family + ".attention.head_count", one.heads)
                                .number(family + ".attention.key_length", one.head_dim)
                                .number(family + ".feed_forward_length", 96)
                                .tensor("token_embd.weight", {one.hidden, 2})
                                .read();
        REQUIRE(config);
        CHECK(config->query_scale == one.scale);
    }
}

TEST_CASE("bert's table of types says how many there are, and roberta's positions begin at the first row") {
    auto const bert = model("bert").tensor("token_types.weight", {64, 3}, 0).read();
    REQUIRE(bert);
    CHECK(bert->model_type.view() == "bert");
    CHECK(bert->own["type_vocab_size"] == 3);
    auto const roberta = model("bert")
                             .numbers("tokenizer.ggml.merges", {1})
                             .tensor("token_types.weight", {64, 1}, 0)
                             .tensor("position_embd.weight", {64, 32}, 0)
                             .read();
    REQUIRE(roberta);
    CHECK(roberta->model_type.view() == "roberta");
    CHECK(roberta->own["type_vocab_size"] == 1);
    CHECK(roberta->own["pad_token_id"] == -1);
    // Another kind of tensor is no table.
    CHECK(model("bert").tensor("token_types.weight", {64}, 0).read()->own["type_vocab_size"] == 2);
}

TEST_CASE("what a GGUF file does not state is what llama.cpp takes for granted") {
    CHECK(model("qwen3moe").read()->norm_expert_weights);
    CHECK_FALSE(model("qwen3moe").number("qwen3moe.expert_weights_norm", 0).read()->norm_expert_weights);
    CHECK_FALSE(model("qwen2moe").read()->norm_expert_weights);
    CHECK(model("qwen2moe").number("qwen2moe.expert_weights_norm", 1).read()->norm_expert_weights);
    // Their classes in transformers begin at a million and at 150,000.
    CHECK(model("llama").number("llama.expert_count", 4).read()->rope.theta == 10000.0);
    CHECK(model("gpt-oss").read()->rope.theta == 10000.0);
    CHECK(model("gemma3").read()->sliding_window == 0);
    CHECK(model("gemma3").number("gemma3.attention.sliding_window", 8).read()->sliding_window == 8);
    CHECK(model("gemma3").read()->rope.local_theta == 10000.0);
    CHECK(model("gemma3").real("gemma3.rope.freq_base_swa", 5000.0F).read()->rope.local_theta == 5000.0);
    CHECK(model("deepseek2").number("deepseek2.expert_group_count", 2).read()->own["topk_method"] == 1);
    CHECK(model("deepseek2").number("deepseek2.expert_group_count", 1).read()->own["topk_method"] == 0);
    auto const v3 = model("deepseek2").tensor("blk.1.exp_probs_b.bias", {4}, 0).read();
    REQUIRE(v3);
    CHECK(v3->model_type.view() == "deepseek_v3");
    CHECK_FALSE(v3->norm_expert_weights);
    CHECK(v3->routed_scale == 1.0);
    CHECK(v3->own["first_k_dense_replace"] == 0);
    CHECK(v3->expert_groups == 1);
    CHECK(model("t5").read()->activation == ActivationKind::relu);
    CHECK(model("t5").tensor("enc.blk.0.ffn_gate.weight", {64, 96}, 0).read()->activation == ActivationKind::gelu_new);
}

TEST_CASE("GGUF: what only the tensors tell is inferred by the family") {
    auto const falcon = [](std::uint32_t kv_heads) {
        return model("falcon").number("falcon.attention.head_count_kv", kv_heads);
    };
    auto const one_key = falcon(1).read()->own;
    CHECK(one_key["multi_query"] == 1);
    CHECK(one_key["new_decoder_architecture"] == 0);
    auto const grouped = falcon(2).read()->own;
    CHECK(grouped["multi_query"] == 0);
    CHECK(grouped["new_decoder_architecture"] == 1);
    CHECK(grouped["num_ln_in_parallel_attn"] == 1);
    CHECK(falcon(1).tensor("blk.0.attn_norm_2.weight", {64}, 0).read()->own["num_ln_in_parallel_attn"] == 2);
    CHECK(model("t5").read()->own["is_gated_act"] == 0);
    CHECK(model("t5").tensor("enc.blk.0.ffn_gate.weight", {64, 96}, 0).read()->own["is_gated_act"] == 1);
    auto const next = model("qwen3next").tensor("blk.1.ssm_conv1d.weight", {4, 64}, 0).read();
    REQUIRE(next);
    CHECK_FALSE(next->local_layers.contains(0));
    CHECK(next->local_layers.contains(1));
    CHECK(next->layer_types_count == 2);
}

TEST_CASE("layers that predict further tokens are not the model's own, and llama4's chunks are as published or none") {
    auto const layers = model("glm4moe").read()->layers;
    CHECK(model("glm4moe").number("glm4moe.nextn_predict_layers", 1).read()->layers == layers - 1);
    CHECK(model("glm4moe").number("glm4moe.nextn_predict_layers", 0).read()->layers == layers);
    auto const none = model("glm4moe").number("glm4moe.nextn_predict_layers", 99).read();
    REQUIRE_FALSE(none);
    CHECK(none.error().message().find("nextn_predict_layers") != std::string::npos);
    CHECK(model("llama4").read()->own["attention_chunk_size"] == 8192);
    CHECK(model("llama4").number("llama4.attention.sliding_window", 4).read()->own["attention_chunk_size"] == 8192);
    auto const whole = model("llama4").number("llama4.attention.sliding_window", 0).read();
    REQUIRE(whole);
    CHECK(whole->own["attention_chunk_size"] == 0);
    CHECK(whole->own["attn_temperature_tuning"] == 0);
}

TEST_CASE("gpt_oss is scaled as its file says, and its ramp is not rounded") {
    auto file = [] {
        return std::move(model("gpt-oss")
                             .number("gpt-oss.expert_count", 4)
                             .number("gpt-oss.expert_feed_forward_length", 32)
                             .number("gpt-oss.attention.sliding_window", 8));
    };
    auto const plain = describe<GptOss>(*file().read());
    REQUIRE(plain);
    CHECK(plain->config.rope.kind == RopeKind::standard);
    auto const scaled = describe<GptOss>(
        *file().text("gpt-oss.rope.scaling.type", "yarn").real("gpt-oss.rope.scaling.factor", 32.0F).read());
    REQUIRE(scaled);
    CHECK(scaled->config.rope.kind == RopeKind::yarn);
    CHECK(scaled->config.rope.factor == 32.0);
    CHECK_FALSE(scaled->config.rope.truncates);
}

TEST_CASE("yarn_attn_factor replaces what follows from the factor, attn_factor multiplies it") {
    auto const yarn = [] {
        return std::move(small_llama().text("llama.rope.scaling.type", "yarn").real("llama.rope.scaling.factor", 4.0F));
    };
    auto const derived = 1.0 + 0.1 * std::log(4.0);
    CHECK(yarn().read()->rope.attention_factor == 0.0);
    CHECK(yarn().real("llama.rope.scaling.yarn_attn_factor", 1.5F).read()->rope.attention_factor == 1.5);
    CHECK(yarn().real("llama.rope.scaling.attn_factor", 2.0F).read()->rope.attention_factor ==
          doctest::Approx(2.0 * derived));
    CHECK(yarn()
              .real("llama.rope.scaling.yarn_attn_factor", 1.5F)
              .real("llama.rope.scaling.attn_factor", 2.0F)
              .read()
              ->rope.attention_factor == 3.0);
}

TEST_CASE("the elements that turn are those that the file states, whatever the width of a head") {
    for (std::int64_t width = 2; width <= 300; width += 2) {
        for (std::int64_t turning = 2; turning <= width; turning += 2) {
            ModelConfig config;
            config.head_dim = width;
            config.rotary_dim = turning;
            REQUIRE(detail::derive_rotary_dim(config, "partial_rotary_factor"));
            REQUIRE(rotary_elements(config.rope, width) == turning);
        }
    }
    for (std::string const family : {"phi3", "phi2", "gptneox"}) {
        CAPTURE(family);
        CHECK(model(family).number(family + ".rope.dimension_count", 4).read()->rotary_dim == 4);
    }
    auto const phi3 = describe<Phi3>(*model("phi3").number("phi3.rope.dimension_count", 12).read());
    REQUIRE(phi3);
    CHECK(rotary_elements(phi3->config.rope, phi3->config.head_dim) == 12);
}

TEST_CASE("layers slide as the file's pattern says") {
    auto const gemma = [] { return std::move(model("gemma2").number("gemma2.attention.sliding_window", 8)); };
    std::string const key = "gemma2.attention.sliding_window_pattern";
    auto const slides = [](Result<ModelConfig> const& config) {
        auto const model_of = describe<Gemma2>(*config);
        REQUIRE(model_of);
        auto const& layers = model_of->config.local_layers;
        return std::string(layers.contains(0) ? "1" : "0") + (layers.contains(1) ? "1" : "0");
    };
    CHECK(slides(gemma().read()) == "10");
    CHECK(slides(gemma().number(key, 2).read()) == "10");
    CHECK(slides(gemma().number(key, 1).read()) == "00");
    CHECK(slides(gemma().number(key, 0).read()) == "11");
    CHECK(slides(gemma().numbers(key, {0, 1}).read()) == "01");
    auto const shorter = gemma().numbers(key, {1}).read();
    REQUIRE_FALSE(shorter);
    CHECK(shorter.error().code() == ErrorCode::invalid_field);
    CHECK(shorter.error().place() == key);
}

TEST_CASE("what a GGUF file states and the family does not do is refused by its key") {
    auto const refused = [](Result<ModelConfig> const& config) {
        if (config) return std::string("taken");
        CHECK(config.error().code() == ErrorCode::unsupported);
        return std::string(config.error().place());
    };
    CHECK(refused(model("llama").number("llama.rope.dimension_count", 16).read()) == "taken");
    CHECK(refused(model("llama").number("llama.rope.dimension_count", 8).read()) == "llama.rope.dimension_count");
    CHECK(refused(model("llama").number("llama.attention.value_length", 8).read()) == "llama.attention.value_length");
    CHECK(refused(model("llama").number("llama.attention.causal", 1).read()) == "taken");
    CHECK(refused(model("llama").number("llama.attention.causal", 0).read()) == "llama.attention.causal");
    CHECK(refused(model("bert").number("bert.attention.causal", 0).read()) == "taken");
    CHECK(refused(model("llama").real("llama.logit_scale", 1.0F).read()) == "taken");
    CHECK(refused(model("llama").real("llama.logit_scale", 0.5F).read()) == "llama.logit_scale");
    CHECK(refused(model("qwen2").real("qwen2.final_logit_softcapping", 30.0F).read()) ==
          "qwen2.final_logit_softcapping");
    CHECK(refused(model("gemma2").real("gemma2.final_logit_softcapping", 20.0F).read()) == "taken");
    auto const experts = [](std::uint32_t gating) {
        return model("qwen3moe")
            .number("qwen3moe.expert_count", 4)
            .number("qwen3moe.expert_used_count", 2)
            .number("qwen3moe.expert_gating_func", gating)
            .tensor("blk.0.ffn_gate_inp.weight", {64, 4})
            .read();
    };
    CHECK(refused(experts(1)) == "taken");
    CHECK(refused(experts(2)) == "qwen3moe.expert_gating_func");
}
