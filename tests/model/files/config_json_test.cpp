// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/gpt_oss.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "config_text.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::string const golden = SHARDWISE_SOURCE_DIR "/tests/golden/";

}  // namespace

// Oracle: tests/golden/families/index.tsv, made from the same configurations by transformers 4.57.6.
TEST_CASE("read_config: a classifier has as many scores as id2label, else num_labels says, else two") {
    auto const labels = [](std::string const& more, std::string const& name = "LlamaForTokenClassification") {
        auto const config =
            config_of(R"({"model_type": "llama", "architectures": [")" + name + "\"]" + more + "}").config;
        return describe(config)->config.labels;
    };
    CHECK(labels("") == 2);
    CHECK(labels(R"(, "num_labels": 7)") == 7);
    CHECK(labels(R"(, "num_labels": 3, "id2label": {"0": "a", "1": "b", "2": "c"})") == 3);
    CHECK(labels(R"(, "id2label": {"0": "a"})") == 1);
    CHECK(labels(R"(, "num_labels": 7)", "LlamaForCausalLM") == 0);
    auto const refused = read_config(R"({"model_type": "llama", "id2label": ["a"]})", "config.json");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().place() == "id2label");
}

TEST_CASE("read_config: every golden configuration gives transformers' number of parameters") {
    std::ifstream index(golden + "families/index.tsv");
    REQUIRE(index);
    std::string line;
    std::getline(index, line);
    int checked = 0;
    while (std::getline(index, line)) {
        std::istringstream columns(line);
        std::string name, type, class_name, parameters, config;
        columns >> name >> type >> class_name >> parameters >> config;
        CAPTURE(name);
        auto const file = read_config_file(golden + config);
        if (!file) {
            // A family that this list of architectures does not have.
            CHECK(file.error().code() == ErrorCode::unknown_name);
            CHECK_FALSE(Architectures::with(type, [](auto) {}));
            continue;
        }
        auto const model = describe(file->config);
        REQUIRE(model);
        CHECK(std::to_string(count_parameters(model->tree)) == parameters);
        CHECK(model->config.model_class.view() == class_name);
        ++checked;
    }
    CHECK(checked >= 100);
}

// Oracle: tests/golden/config_defaults.json (LlamaConfig, MistralConfig, Qwen3Config, GPT2Config of transformers
// 4.57.6).
TEST_CASE("read_config: absent fields take the defaults of their configuration class") {
    auto const plain = config_of(llama_config("")).config;
    CHECK(plain.vocab_size == 32000);
    CHECK(plain.hidden_size == 4096);
    CHECK(plain.intermediate_size == 11008);
    CHECK(plain.layers == 32);
    CHECK(plain.heads == 32);
    CHECK(plain.max_positions == 2048);
    CHECK(plain.norm_epsilon == 1e-6);
    CHECK_FALSE(plain.tie_word_embeddings);
    CHECK_FALSE(plain.dtype);
    CHECK(plain.model_class.empty());

    CHECK(config_of(R"({"model_type": "mistral"})").config.kv_heads == 8);
    auto const null_heads = config_of(R"({"model_type": "mistral", "num_key_value_heads": null})").config;
    CHECK(describe(null_heads)->config.kv_heads == 32);
    CHECK(config_of(R"({"model_type": "qwen3"})").config.head_dim == 128);
    CHECK(config_of(R"({"model_type": "gpt2"})").config.tie_word_embeddings);
}

TEST_CASE("read_config: an alias beside its field wins, as in transformers") {
    CHECK(config_of(R"({"model_type": "gpt2", "hidden_size": 96, "n_embd": 48})").config.hidden_size == 96);
    CHECK(config_of(R"({"model_type": "gpt2", "num_hidden_layers": 3})").config.layers == 3);
    CHECK(config_of(R"({"model_type": "gpt2", "n_layer": 5})").config.layers == 5);
}

TEST_CASE("read_config: a gated activation is a word of families that have gates by it, and of no other") {
    auto const t5 = config_of(R"({"model_type": "t5", "feed_forward_proj": "gated-silu"})").config;
    CHECK(t5.own["is_gated_act"] == 1);
    CHECK(t5.activation == ActivationKind::silu);
    CHECK(config_of(R"({"model_type": "t5", "feed_forward_proj": "silu"})").config.own["is_gated_act"] == 0);
    CHECK(config_of(R"({"model_type": "mt5", "feed_forward_proj": "relu"})").config.own["is_gated_act"] == 0);
    CHECK(refusal_code_of(R"({"model_type": "llama", "hidden_act": "gated-gelu"})") == ErrorCode::unsupported);
}

// transformers 4.57.6: T5Config(num_hidden_layers=3).num_decoder_layers, FalconConfig(n_embed=142).ffn_hidden_size,
// Gemma3TextConfig(_sliding_window_pattern=2)._sliding_window_pattern, GPTNeoXConfig(rope_theta=5.0).rope_theta.
TEST_CASE("read_config: absent values are derived from keys and defaults, not from aliases") {
    auto const t5 = config_of(R"({"model_type": "t5", "num_hidden_layers": 3})").config;
    CHECK(t5.layers == 3);
    CHECK(t5.own["num_decoder_layers"] == 6);
    CHECK(config_of(R"({"model_type": "t5", "num_layers": 3})").config.own["num_decoder_layers"] == 3);
    CHECK(config_of(R"({"model_type": "falcon", "n_embed": 142})").config.intermediate_size == 4 * 4544);
    CHECK(config_of(R"({"model_type": "falcon", "n_embed": 142})").config.hidden_size == 142);
    CHECK(config_of(R"({"model_type": "falcon", "n_embed": null, "hidden_size": 142})").config.intermediate_size ==
          4 * 142);
    CHECK(refusal_code_of(R"({"model_type": "gpt2", "hidden_size": null, "n_embd": 48})") == ErrorCode::invalid_field);
    CHECK(config_of(R"({"model_type": "gemma3_text", "_sliding_window_pattern": 2})")
              .config.own["sliding_window_pattern"] == 6);
    CHECK(config_of(R"({"model_type": "gpt_neox", "rope_theta": 5.0})").config.rope.theta == 10000.0);
}

TEST_CASE("read_config: flags that add or share weights beyond the description are refused") {
    CHECK(refusal_of(R"({"model_type": "gpt2", "add_cross_attention": true})") ==
          "config.json: add_cross_attention: adds layers of cross-attention, which are not described");
    CHECK(refusal_code_of(R"({"model_type": "bert", "is_decoder": true, "add_cross_attention": true})") ==
          ErrorCode::unsupported);
    CHECK(refusal_code_of(R"({"model_type": "roberta", "add_cross_attention": 1})") == ErrorCode::unsupported);
    CHECK(refusal_code_of(R"({"model_type": "t5", "tie_encoder_decoder": true})") == ErrorCode::unsupported);
    CHECK(refusal_code_of(R"({"model_type": "t5", "tie_encoder_decoder": "yes"})") == ErrorCode::invalid_field);
    CHECK(config_of(R"({"model_type": "t5", "tie_encoder_decoder": false})").config.layers == 6);
    CHECK(config_of(R"({"model_type": "gpt2", "add_cross_attention": null})").config.layers == 12);
    CHECK(config_of(R"({"model_type": "llama", "add_cross_attention": true})").config.layers == 32);
}

TEST_CASE("read_config: both dialects of dtype, the newer one first") {
    CHECK(config_of(llama_config(R"("torch_dtype": "float16")")).config.dtype == Dtype::f16);
    CHECK(config_of(llama_config(R"("dtype": "bfloat16")")).config.dtype == Dtype::bf16);
    CHECK(config_of(llama_config(R"("torch_dtype": "float16", "dtype": "bfloat16")")).config.dtype == Dtype::bf16);
    CHECK(config_of(llama_config(R"("torch_dtype": "float16", "dtype": null)")).config.dtype == Dtype::f16);
    CHECK_FALSE(config_of(llama_config(R"("torch_dtype": "auto")")).config.dtype);
    CHECK(refusal_code_of(llama_config(R"("torch_dtype": "bf17")")) == ErrorCode::invalid_field);
    CHECK(refusal_code_of(llama_config(R"("torch_dtype": "int8")")) == ErrorCode::invalid_field);
    CHECK(refusal_of(llama_config(R"("dtype": 16)")) == "config.json: dtype: must be a string, but is an integer");
}

TEST_CASE("read_config: both dialects of rotary positions") {
    auto const older =
        config_of(llama_config(R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.5,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})"))
            .config.rope;
    auto const newer =
        config_of(llama_config(R"("rope_parameters": {"rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.5,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})"))
            .config.rope;
    for (auto const& rope : {older, newer}) {
        CHECK(rope.kind == RopeKind::llama3);
        CHECK(rope.theta == 500000.0);
        CHECK(rope.factor == 8.0);
        CHECK(rope.low_frequency_factor == 1.5);
        CHECK(rope.original_max_positions == 8192);
    }
    CHECK(config_of(llama_config(R"("rope_scaling": {"type": "linear", "factor": 2})")).config.rope.kind ==
          RopeKind::linear);
    CHECK(config_of(llama_config(R"("rope_scaling": null)")).config.rope.kind == RopeKind::standard);
    auto const yarn =
        config_of(llama_config(R"("rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 1.0,
        "truncate": false})"))
            .config.rope;
    CHECK(yarn.mscale == 0.707);
    CHECK(yarn.mscale_all_dim == 1.0);
    CHECK_FALSE(yarn.truncates);
    CHECK(older.truncates);
    auto const strange = config_of(llama_config(R"("rope_scaling": {"type": "spiral"})"));
    REQUIRE(strange.warnings.size() == 1);
    CHECK(strange.warnings[0] == "config.json: rope type \"spiral\" is not known; sizes do not depend on it");
    CHECK(strange.config.rope.kind == RopeKind::unknown);
    // The class's default counts where a config says nothing, not where it says null.
    auto const gpt_oss = [](std::string const& more) {
        auto config =
            config_of(R"({"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"])" + more + "}").config;
        CHECK(GptOss::complete(config));
        return config.rope.kind;
    };
    CHECK(gpt_oss("") == RopeKind::yarn);
    CHECK(gpt_oss(R"(, "rope_scaling": null)") == RopeKind::standard);
    CHECK(gpt_oss(R"(, "rope_scaling": {"rope_type": "default"})") == RopeKind::standard);
    CHECK(gpt_oss(R"(, "rope_parameters": {"rope_type": "linear", "factor": 2})") == RopeKind::linear);
    CHECK(refusal_of(llama_config(R"("rope_scaling": {"type": "linear", "factor": "2"})")) ==
          "config.json: rope_scaling.factor: must be a number, but is a string");
    auto const split = read_config_file(golden + "configs/gemma-3-1b-v5.json");
    REQUIRE(split);
    CHECK(split->config.rope.theta == 1000000.0);
    CHECK(split->config.rope.local_theta == 10000.0);
    auto const both = config_of(R"({"model_type": "gemma3_text", "rope_parameters": {
        "sliding_attention": {"rope_theta": 12345.0, "rope_type": "default"},
        "full_attention": {"rope_theta": 67890.0, "rope_type": "linear", "factor": 8.0}}})")
                          .config.rope;
    CHECK(both.theta == 67890.0);
    CHECK(both.kind == RopeKind::linear);
    CHECK(both.local_theta == 12345.0);
}

TEST_CASE("read_config: layer_types say which layers slide") {
    auto const file = read_config_file(golden + "configs/gemma-3-1b-v5.json");
    REQUIRE(file);
    CHECK(file->config.layer_types_count == 26);
    CHECK(file->config.local_layers.contains(0));
    CHECK_FALSE(file->config.local_layers.contains(5));
    CHECK(refusal_code_of(R"({"model_type": "qwen3", "layer_types": ["linear_attention"]})") == ErrorCode::unsupported);
    CHECK(refusal_code_of(R"({"model_type": "qwen3", "layer_types": "full_attention"})") == ErrorCode::invalid_field);
    CHECK(refusal_code_of(R"({"model_type": "qwen3", "layer_types": [1]})") == ErrorCode::invalid_field);
    CHECK(refusal_code_of(R"({"model_type": "qwen3", "layer_types": ["full_attention"]})") == ErrorCode::invalid_field);
}

TEST_CASE("read_config: a language model under text_config is counted with its own defaults and the whole's dtype") {
    auto const file = read_config_file(golden + "configs/gemma-3-4b.json");
    REQUIRE(file);
    CHECK(file->config.model_type.view() == "gemma3_text");
    CHECK(file->config.hidden_size == 2560);
    CHECK(file->config.heads == 8);  // Gemma3TextConfig's default
    CHECK(file->config.dtype == Dtype::bf16);
    REQUIRE_FALSE(file->warnings.empty());
    CHECK(file->warnings[0].find("only the text model (text_config) is counted") != std::string::npos);

    auto const wrapped = config_of(R"({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
                                  "text_config": {"model_type": "llama", "num_hidden_layers": 2}})");
    CHECK(wrapped.config.layers == 2);
    CHECK(refusal_code_of(R"({"model_type": "llava", "text_config": {"model_type": "nonsense"}})") ==
          ErrorCode::unknown_name);
    CHECK(refusal_code_of(R"({"model_type": "paligemma", "text_config": {}})") == ErrorCode::missing_field);
    CHECK(refusal_code_of(R"({"model_type": "llava", "text_config": 3})") == ErrorCode::invalid_field);
    CHECK(refusal_of(R"({"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": "x"}})") ==
          "config.json: text_config.hidden_size: must be an integer, but is a string");
}

// facts/model_files.md, rows 66 to 69.
TEST_CASE("read_config: impossible values are refused by the name of their field") {
    struct Case {
        char const* members;
        char const* field;
        ErrorCode code;
    };
    for (auto const& row : {
             Case{R"("num_attention_heads": 0)", "num_attention_heads", ErrorCode::invalid_field},
             Case{R"("vocab_size": 0)", "vocab_size", ErrorCode::invalid_field},
             Case{R"("intermediate_size": 0)", "intermediate_size", ErrorCode::invalid_field},
             Case{R"("num_key_value_heads": -1)", "num_key_value_heads", ErrorCode::invalid_field},
             Case{R"("num_hidden_layers": 0)", "num_hidden_layers", ErrorCode::invalid_field},
             Case{R"("num_hidden_layers": -32)", "num_hidden_layers", ErrorCode::invalid_field},
             Case{R"("num_hidden_layers": null)", "num_hidden_layers", ErrorCode::invalid_field},
             Case{R"("num_hidden_layers": 1000000000000)", "num_hidden_layers", ErrorCode::size_overflow},
             Case{R"("num_hidden_layers": 5000)", "num_hidden_layers", ErrorCode::capacity_exceeded},
             Case{R"("hidden_size": 4611686018427387904)", "hidden_size", ErrorCode::size_overflow},
             Case{R"("hidden_size": 18446744073709551615)", "hidden_size", ErrorCode::size_overflow},
             Case{R"("hidden_size": 36893488147419103232)", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": 1e308)", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": 4096.0)", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": "32")", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": true)", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": [4096])", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": {})", "hidden_size", ErrorCode::invalid_field},
             Case{R"("hidden_size": 4095)", "hidden_size", ErrorCode::invalid_field},
             Case{R"("num_attention_heads": 32, "num_key_value_heads": 5)", "num_key_value_heads",
                  ErrorCode::invalid_field},
             Case{R"("tie_word_embeddings": "yes")", "tie_word_embeddings", ErrorCode::invalid_field},
             Case{R"("rms_norm_eps": "1e-6")", "rms_norm_eps", ErrorCode::invalid_field},
             Case{R"("rms_norm_eps": -1e-6)", "rms_norm_eps", ErrorCode::invalid_field},
             Case{R"("rope_theta": 0)", "rope_theta", ErrorCode::invalid_field},
             Case{R"("rope_theta": -10000.0)", "rope_theta", ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"type": "linear", "factor": 0})", "rope_scaling.factor",
                  ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"type": "linear", "factor": -2.0})", "rope_scaling.factor",
                  ErrorCode::invalid_field},
             Case{R"("rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 0.0})",
                  "rope_parameters.factor", ErrorCode::invalid_field},
             Case{R"("rope_parameters": {"rope_type": "default", "rope_theta": 0})", "rope_parameters.rope_theta",
                  ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 0})",
                  "rope_scaling.low_freq_factor", ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": -4})",
                  "rope_scaling.high_freq_factor", ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"rope_type": "yarn", "factor": 8, "attention_factor": -1})",
                  "rope_scaling.attention_factor", ErrorCode::invalid_field},
             Case{R"("rope_scaling": {"rope_type": "yarn", "factor": 8, "beta_fast": -1})", "rope_scaling.beta_fast",
                  ErrorCode::invalid_field},
             Case{R"("hidden_act": "wavelet")", "hidden_act", ErrorCode::unsupported},
             Case{R"("hidden_act": 3)", "hidden_act", ErrorCode::invalid_field},
             Case{R"("architectures": "LlamaForCausalLM")", "architectures", ErrorCode::invalid_field},
             Case{R"("architectures": [1])", "architectures", ErrorCode::invalid_field},
         }) {
        CAPTURE(row.members);
        auto const file = read_config(llama_config(row.members), "dir/config.json");
        REQUIRE_FALSE(file);
        CHECK(file.error().code() == row.code);
        CHECK(file.error().subject() == "dir/config.json");
        CHECK(file.error().place() == row.field);
    }
    CHECK(refusal_of(llama_config(R"("num_attention_heads": 0)")) ==
          "config.json: num_attention_heads: must be at least 1 (got 0)");
    CHECK(refusal_of(llama_config(R"("rms_norm_eps": -1e-6)")) == "config.json: rms_norm_eps: must be at least 0");
    CHECK(refusal_of(R"({"model_type": "gpt_neox", "rotary_pct": 0})") == "config.json: rotary_pct: must be above 0");
    CHECK(config_of(llama_config(R"("rms_norm_eps": 0)")).config.norm_epsilon == 0.0);
    CHECK(refusal_of(llama_config(R"("hidden_size": "32")")) ==
          "config.json: hidden_size: must be an integer, but is a string");
    // An integer is a flag, as Python takes it.
    CHECK(config_of(llama_config(R"("tie_word_embeddings": 4)")).config.tie_word_embeddings);
    CHECK_FALSE(config_of(llama_config(R"("tie_word_embeddings": 0)")).config.tie_word_embeddings);
    CHECK(refusal_of(llama_config(R"("tie_word_embeddings": "yes")")) ==
          "config.json: tie_word_embeddings: must be true or false, but is a string");
    // hidden_size need not be a multiple of the heads where head_dim is given (row 67).
    CHECK(refusal_of(llama_config(R"("hidden_size": 4095, "head_dim": 128)")) == "accepted");
}

TEST_CASE("read_config: sizes whose products leave 63 bits are refused") {
    auto const big = std::to_string(std::int64_t{1} << 28U);
    auto const text =
        llama_config("\"vocab_size\": " + big + ", \"hidden_size\": " + big + ", \"intermediate_size\": " + big +
                     ", \"num_attention_heads\": 1, \"head_dim\": " + big + ", \"num_hidden_layers\": 1024");
    CHECK(refusal_code_of(text) == ErrorCode::size_overflow);
    auto const experts = R"({"model_type": "mixtral", "num_local_experts": 1000000})";
    CHECK(refusal_code_of(experts) == ErrorCode::capacity_exceeded);
}

TEST_CASE("read_config: text that is no configuration is refused") {
    for (auto const* text :
         {"", "[]", "7", "{", "{\"model_type\": \"llama\",}", "{\"model_type\": \"llama\", \"hidden_size\": NaN}",
          "{\"model_type\": \"llama\", \"rms_norm_eps\": Infinity}",
          "{\"model_type\": \"llama\", \"hidden_size\": 1, \"hidden_size\": 2}"}) {
        CAPTURE(text);
        CHECK(refusal_code_of(text) == ErrorCode::malformed_file);
    }
    CHECK(refusal_of("{\"model_type\": \"llama\", \"x\": NaN}") ==
          "config.json: has NaN or Infinity, which JSON does not have, at byte 29");
    CHECK(refusal_code_of(R"({"hidden_size": 4096})") == ErrorCode::missing_field);
    CHECK(refusal_code_of(R"({"model_type": 7})") == ErrorCode::invalid_field);
}

// facts/model_files.md, row 70.
TEST_CASE("read_config: an unknown model_type is answered with the closest and all known ones") {
    auto const file = read_config(R"({"model_type": "lama"})", "config.json");
    REQUIRE_FALSE(file);
    CHECK(file.error().code() == ErrorCode::unknown_name);
    CHECK(file.error().reason() == "\"lama\" is not a known architecture; did you mean llama?");
    Architectures::for_each([&]<class Arch>(Arch) {
        CAPTURE(Arch::name);
        CHECK(file.error().advice().find(Arch::name) != std::string_view::npos);
    });
    auto const escape = refusal_of("{\"model_type\": \"\\u001b[31mred\"}");
    CHECK(escape.find('\x1b') == std::string::npos);
    CHECK(escape.find("\\x1b[31mred") != std::string::npos);
}

TEST_CASE("read_config: other JSON files of models are recognised") {
    CHECK(refusal_of(R"({"metadata": {}, "weight_map": {}})") ==
          "config.json: is an index of weights, not a configuration; name the folder that it is in");
    CHECK(refusal_of(R"({"class": "M", "children": []})") ==
          "config.json: is a tree of modules, not a configuration; pass it with --tree");
}

// facts/model_files.md, row 71.
TEST_CASE("read_config: auto_map is never executed, but warned of") {
    auto const file = config_of(llama_config(R"("auto_map": {"AutoModel": "evil.py--Model"})"));
    REQUIRE(file.warnings.size() == 1);
    CHECK(file.warnings[0] == "config.json: auto_map names code of the repository; it is never executed");
}

TEST_CASE("read_config: deep and long texts are refused") {
    CHECK(refusal_code_of(R"({"model_type": "llama", "x": )" + std::string(100'000, '[')) == ErrorCode::malformed_file);
    std::string many = R"({"model_type": "llama")";
    for (int i = 0; i < 100'000; ++i) many += ",\"k" + std::to_string(i) + "\":1";
    CHECK(refusal_code_of(many + "}") == ErrorCode::capacity_exceeded);
    std::string layers = R"({"model_type": "qwen3", "layer_types": ["full_attention")";
    for (int i = 0; i < 90'000; ++i) layers += ",\"full_attention\"";
    CHECK(refusal_code_of(layers + "]}") == ErrorCode::invalid_field);
}

// facts/model_files.md: in every case at most a second.
TEST_SUITE("timing") {
    TEST_CASE("read_config: the longest text that is accepted reads within a second") {
        std::string many = R"({"model_type": "deepseek_v3")";
        for (int i = 0; i < 90'000; ++i) many += ",\"k" + std::to_string(i) + "\":1";
        auto const start = std::chrono::steady_clock::now();
        (void)refusal_of(many + "}");
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));  // ten times the limit
    }
}

TEST_CASE("read_config_file: files that are absent or too large are refused") {
    CHECK(read_config_file("/nowhere/config.json").error().code() == ErrorCode::file_not_found);
    CHECK(read_config_file(SHARDWISE_SOURCE_DIR).error().message().find("is a folder, not a file") !=
          std::string::npos);
}
