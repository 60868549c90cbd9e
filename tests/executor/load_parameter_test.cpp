#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "temporary_folder.hpp"
#include "written_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A described model and the folder of its files, whose tensors a test writes.
struct Written {
    TemporaryFolder folder;
    Model model;

    explicit Written(std::string const& config) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        model = std::move(described->model);
    }
    [[nodiscard]] Result<StoredParameters> open() const {
        auto const source = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        if (!source) return source.error();
        return StoredParameters::open(*source, model);
    }
};

constexpr auto mixtral =
    R"({"model_type":"mixtral","vocab_size":8,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":3,"num_experts_per_tok":2})";
constexpr auto gpt_oss =
    R"({"model_type":"gpt_oss","vocab_size":8,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"num_local_experts":2,"num_experts_per_tok":1})";
constexpr auto llama =
    R"({"model_type":"llama","vocab_size":8,"hidden_size":64,"intermediate_size":128,"num_hidden_layers":1,)"
    R"("num_attention_heads":4,"num_key_value_heads":2})";
constexpr auto q_proj = "model.layers.0.self_attn.q_proj.weight";
constexpr auto down_proj = "model.layers.0.mlp.down_proj.weight";

[[nodiscard]] std::string text_of(std::span<std::byte const> bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}
[[nodiscard]] std::string some_bytes(std::size_t count, unsigned seed) {
    std::string out(count, '\0');
    for (auto& byte : out) byte = static_cast<char>((seed = seed * 1664525U + 1013904223U) >> 24U);
    return out;
}
/// The values of a source, row by row.
[[nodiscard]] std::vector<float> values_of(WeightSource const& source) {
    std::vector<float> out(static_cast<std::size_t>(source.outputs * source.inputs));
    for (std::int64_t row = 0; row < source.outputs; ++row) {
        for (std::int64_t at = 0; at < source.inputs; at += 256)
            detail::decode_source(source, row, at, std::min<std::int64_t>(256, source.inputs - at),
                                  out.data() + row * source.inputs + at);
    }
    return out;
}
[[nodiscard]] std::vector<float> load(StoredParameters const& parameters, std::string_view name, MatrixPart const& part,
                                      LoadOptions const& options = {}) {
    HostContext context({.threads = 2});
    ParameterLoader<Host> loader(context, parameters, options);
    auto const found = parameters.find(name);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    auto const matrix = loader.matrix(*found, part);
    REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
    return values_of(matrix->source());
}

TEST_CASE("StoredParameters: each expert of a stacked GGUF tensor is its part, in every file of a split model") {
    Written const written(mixtral);
    auto const gate = formula("gate", {3, 64, 32});
    auto const down = some_bytes(3 * 32 * 2 * 18, 1);
    write_gguf(written.folder / "m-00001-of-00002.gguf",
               {{"blk.0.ffn_gate_exps.weight", "", {3, 64, 32}, bytes_of(gate), 0}},
               {{"split.count", 2}, {"split.no", 0}});
    write_gguf(written.folder / "m-00002-of-00002.gguf", {{"blk.0.ffn_down_exps.weight", "", {3, 32, 64}, down, 2}},
               {{"split.count", 2}, {"split.no", 1}});
    auto const parameters = written.open();
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    for (std::size_t expert = 0; expert < 3; ++expert) {
        auto const prefix = "model.layers.0.block_sparse_moe.experts." + std::to_string(expert);
        auto const first = parameters->find(prefix + ".w1.weight");
        auto const last = parameters->find(prefix + ".w2.weight");
        REQUIRE_MESSAGE(first, (first ? "" : first.error().message()));
        REQUIRE(last);
        CHECK(first->format == WeightFormat::f32);
        CHECK(text_of(first->data) == bytes_of(gate).substr(expert * 64 * 32 * 4, 64 * 32 * 4));
        CHECK(last->format == WeightFormat::q4_0);
        CHECK(text_of(last->data) == down.substr(expert * 32 * 36, 32 * 36));
    }
    std::filesystem::remove(written.folder / "m-00002-of-00002.gguf");
    CHECK(written.open().error().code() == ErrorCode::file_not_found);
}

TEST_CASE("join_kv_halves: keys in blocks and values in another type are one matrix; what does not fit is refused") {
    ModelConfig config;
    config.heads = 2;
    config.kv_lora_rank = 3;
    config.qk_nope_head_dim = 32;
    config.v_head_dim = 1;
    // Keys [2, 3, 32] in Q8_0 with a scale of 1; values [2, 1, 3] in fp32.
    std::string keys;
    std::vector<float> values;
    for (int head = 0; head < 2; ++head) {
        for (int input = 0; input < 3; ++input) {
            append_number(keys, std::uint16_t{0x3C00});
            for (int row = 0; row < 32; ++row) keys += static_cast<char>(40 * head + 10 * input + row % 7);
            values.push_back(static_cast<float>(-10 * head - input));
        }
    }
    auto const bytes = [](auto const& all) { return std::as_bytes(std::span(all)); };
    KvHalves halves{GgufHalf{GgmlType::q8_0, {2, 3, 32}, bytes(keys)},
                    GgufHalf{GgmlType::f32, {2, 1, 3}, bytes(values)}};
    CHECK(kv_half("blk.3.attn_k_b.weight") == 0U);
    CHECK(kv_half("blk.3.attn_v_b.weight") == 1U);
    CHECK_FALSE(kv_half("blk.3.attn_kv_b.weight"));
    auto const joined = join_kv_halves(config, "kv_b", halves);
    REQUIRE(joined);
    CHECK(joined->format == WeightFormat::f32);
    std::vector<float> out(66 * 2);
    detail::decode_packed(joined->packed[0], {0, 66}, {1, 3}, out.data());
    for (int row = 0; row < 66; ++row) {
        for (int input = 1; input < 3; ++input) {
            auto const head = row / 33;
            auto const own = row % 33;
            CHECK(out[static_cast<std::size_t>(2 * row + input - 1)] ==
                  static_cast<float>(own == 32 ? -10 * head - input : 40 * head + 10 * input + own % 7));
        }
    }
    halves[1].shape = {2, 3, 1};
    CHECK(join_kv_halves(config, "kv_b", halves).error().message().find("shapes are not") != std::string::npos);
    halves[0].data = {};
    CHECK(join_kv_halves(config, "kv_b", halves).error().message().find("one only") != std::string::npos);
}

TEST_CASE("StoredParameters: gate and up of fused experts are rows one behind the other") {
    Written const written(mixtral);
    auto const fused = formula("fused", {3, 128, 32});
    write_tensors(written.folder / "model.safetensors",
                  {{"model.layers.0.mlp.experts.gate_up_proj", "F32", {3, 128, 32}, bytes_of(fused), 0}});
    auto const parameters = written.open();
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const up = parameters->find("model.layers.0.block_sparse_moe.experts.1.w3.weight");
    REQUIRE(up);
    CHECK(text_of(up->data) == bytes_of(fused).substr((128 + 64) * 32 * 4, 64 * 32 * 4));
}

TEST_CASE("StoredParameters: gpt_oss' experts are MXFP4 in safetensors and in GGUF, which holds gate and up apart") {
    Written const written(gpt_oss);
    constexpr auto name = "model.layers.0.mlp.experts.gate_up_proj";
    auto const blocks = some_bytes(2 * 128 * 16, 2);
    std::string scales = some_bytes(2 * 128, 3);
    for (auto& scale : scales) scale = static_cast<char>(120 + static_cast<unsigned char>(scale) % 8);
    auto const bias = formula("bias", {2, 128});
    write_tensors(written.folder / "model.safetensors",
                  {{std::string(name) + "_blocks", "U8", {2, 128, 1, 16}, blocks, 0},
                   {std::string(name) + "_scales", "U8", {2, 128, 1}, scales, 0},
                   {std::string(name) + "_bias", "F32", {2, 128}, bytes_of(bias), 0}});
    std::vector<float> expected(2 * 128 * 32);
    for (std::size_t row = 0; row < 2 * 128; ++row) {
        std::array<std::uint8_t, 16> block;
        std::memcpy(block.data(), blocks.data() + row * 16, 16);
        decode_mxfp4_checkpoint(block, static_cast<std::uint8_t>(scales[row]),
                                std::span<float, 32>(expected.data() + row * 32, 32));
    }
    auto const parameters = written.open();
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const whole = parameters->find(name);
    REQUIRE_MESSAGE(whole, (whole ? "" : whole.error().message()));
    CHECK(whole->format == WeightFormat::mxfp4);
    HostContext context({.threads = 1});
    MatrixPart const part{.outputs = 128, .inputs = 32, .is_turned = true};
    for (std::int64_t expert = 0; expert < 2; ++expert) {
        ParameterLoader<Host> loader(context, *parameters, {});
        auto const matrix = loader.matrix(whole->part(expert, 2), part);
        REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
        CHECK(matrix->source().format == WeightFormat::mxfp4);
        auto const* const from = expected.data() + expert * 128 * 32;
        CHECK(values_of(matrix->source()) == std::vector<float>(from, from + 128 * 32));
    }

    // GGUF: rows 0, 2, ... are those of the gate; 17 bytes a block, elements i and i + 16 in byte i.
    std::string gate, up;
    for (std::size_t row = 0; row < 2 * 128; ++row) {
        auto& to = row % 2 == 0 ? gate : up;
        to += scales[row];
        auto const nibble = [&](std::size_t k) {
            return (static_cast<unsigned char>(blocks[row * 16 + k / 2]) >> (k % 2 * 4)) & 15U;
        };
        for (std::size_t i = 0; i < 16; ++i) to += static_cast<char>(nibble(i) | nibble(i + 16) << 4U);
    }
    std::vector<float> gate_bias, up_bias;
    for (std::size_t i = 0; i < bias.size(); ++i) (i % 2 == 0 ? gate_bias : up_bias).push_back(bias[i]);
    std::filesystem::remove(written.folder / "model.safetensors");
    write_gguf(written.folder / "m.gguf", {{"blk.0.ffn_gate_exps.weight", "", {2, 64, 32}, gate, 39},
                                           {"blk.0.ffn_gate_exps.bias", "", {2, 64}, bytes_of(gate_bias), 0},
                                           {"blk.0.ffn_up_exps.weight", "", {2, 64, 32}, up, 39},
                                           {"blk.0.ffn_up_exps.bias", "", {2, 64}, bytes_of(up_bias), 0}});
    auto const apart = written.open();
    REQUIRE_MESSAGE(apart, (apart ? "" : apart.error().message()));
    auto const pair = apart->find(name);
    REQUIRE_MESSAGE(pair, (pair ? "" : pair.error().message()));
    ParameterLoader<Host> loader(context, *apart, {});
    UnitRange const rows[] = {{6, 8}, {127, 128}};
    auto picked = part;
    picked.rows = rows;
    auto const matrix = loader.matrix(pair->part(1, 2), picked);
    REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
    CHECK(matrix->source().format == WeightFormat::mxfp4);
    auto const found = values_of(matrix->source());
    for (std::size_t i = 0; i < found.size(); ++i) {
        auto const row = std::array<std::size_t, 3>{6, 7, 127}[i / 32];
        CHECK(found[i] == expected[(128 + row) * 32 + i % 32]);
    }
    auto const biases = apart->find(std::string(name) + "_bias");
    REQUIRE_MESSAGE(biases, (biases ? "" : biases.error().message()));
    auto const second = loader.floats(biases->part(1, 2), 128);
    REQUIRE_MESSAGE(second, (second ? "" : second.error().message()));
    CHECK(*second == std::vector<float>(bias.begin() + 128, bias.end()));
}

TEST_CASE("StoredParameters: a cut file is refused before anything is allocated, a missing tensor by its name") {
    HostContext const context({.threads = 1});
    Written const written(llama);
    auto const path = written.folder / "model.safetensors";
    write_tensors(path, {{"model.embed_tokens.weigth", "F32", {8, 64}, some_bytes(8 * 64 * 4, 4), 0},
                         {q_proj, "F32", {64, 64}, some_bytes(64 * 64 * 4, 5), 0}});
    auto const parameters = written.open();
    REQUIRE(parameters);
    auto const missing = parameters->find("model.embed_tokens.weight");
    REQUIRE_FALSE(missing);
    CHECK(missing.error().code() == ErrorCode::missing_field);
    CHECK(missing.error().message().find("model.embed_tokens.weigth") != std::string::npos);
    CHECK(parameters->find("model.embed_tokens.bias").error().code() == ErrorCode::unknown_name);

    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    auto const cut = written.open();
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code() == ErrorCode::malformed_file);
    CHECK(cut.error().message().find("q_proj") != std::string::npos);
    HostContext& counted = const_cast<HostContext&>(context);
    CHECK(counted.memory().peak() == Bytes{0});

    std::filesystem::remove(path);
    write_gguf(written.folder / "m.gguf", {{"blk.0.ffn_down.weight", "", {64, 128}, some_bytes(64 * 4 * 18, 6), 2}});
    REQUIRE(written.open());
    std::filesystem::resize_file(written.folder / "m.gguf", std::filesystem::file_size(written.folder / "m.gguf") - 64);
    CHECK(written.open().error().code() == ErrorCode::malformed_file);
}

TEST_CASE("ParameterLoader: converts and quantises on load, parts as the whole, and counts what it reads") {
    Written const written(llama);
    auto const weight = formula(down_proj, {64, 128});
    write_tensors(written.folder / "model.safetensors", {{down_proj, "F32", {64, 128}, bytes_of(weight), 0}});
    auto const parameters = written.open();
    REQUIRE(parameters);
    struct Wanted {
        LoadOptions options;
        WeightFormat format;
        std::int64_t group;
    };
    std::vector<Wanted> const all{
        {{}, WeightFormat::f32, 0},
        {{.dtype = Dtype::bf16}, WeightFormat::bf16, 0},
        {{.dtype = Dtype::f16}, WeightFormat::f16, 0},
        {{.quant = QuantScheme::int8()}, WeightFormat::int8, 0},
        {{.quant = QuantScheme::int4(32)}, WeightFormat::int4, 32},
        {{.quant = QuantScheme::nf4()}, WeightFormat::nf4, 0},
        {{.quant = *parse_quant_scheme("q8_0")}, WeightFormat::q8_0, 0},
        {{.quant = *parse_quant_scheme("q4_1-pure")}, WeightFormat::q4_1, 0},
    };
    HostContext context({.threads = 2});
    for (auto const& wanted : all) {
        CAPTURE(name_of(wanted.format));
        // What the whole row encodes to.
        WeightSource target{wanted.format, 64, 128, {}, {}, wanted.group};
        auto const bytes = detail::source_bytes(target);
        REQUIRE(bytes);
        std::vector<std::byte> data(static_cast<std::size_t>(bytes->data)),
            scales(static_cast<std::size_t>(bytes->scales));
        for (std::size_t row = 0; row < 64; ++row) {
            detail::encode_row(wanted.format, wanted.group, {weight.data() + row * 128, 128},
                               {reinterpret_cast<std::uint8_t*>(data.data()) + row * data.size() / 64,
                                scales.data() + row * scales.size() / 64});
        }
        target.data = data;
        target.scales = scales;
        auto const expected = values_of(target);
        CHECK(load(*parameters, down_proj, {.outputs = 64, .inputs = 128}, wanted.options) == expected);

        ParameterLoader<Host> loader(context, *parameters, wanted.options);
        auto const found = parameters->find(down_proj);
        UnitRange const rows[] = {{40, 60}, {3, 4}};
        auto const part =
            loader.matrix(*found, {.outputs = 64, .inputs = 128, .rows = rows, .columns = UnitRange{64, 128}});
        REQUIRE_MESSAGE(part, (part ? "" : part.error().message()));
        CHECK(part->source().format == wanted.format);
        auto const values = values_of(part->source());
        REQUIRE(values.size() == 21 * 64);
        for (std::size_t i = 0; i < values.size(); ++i) {
            auto const row = i / 64 < 20 ? 40 + i / 64 : 3;
            CHECK(values[i] == expected[row * 128 + 64 + i % 64]);
        }
        // A scale for the row asks for the row.
        CHECK(loader.bytes_read() == Bytes{21 * (wanted.format == WeightFormat::int8 ? 128 : 64) * 4});
    }
}

TEST_CASE("ParameterLoader: a weight stored [inputs, outputs] is turned in its own dtype") {
    Written const written(
        R"({"model_type":"gpt2","vocab_size":8,"n_embd":32,"n_layer":1,"n_head":4,"n_positions":16})");
    auto const weight = formula("w", {32, 96});
    std::vector<std::uint16_t> halves;
    for (auto const value : weight) halves.push_back(to_bf16(value));
    constexpr auto name = "transformer.h.0.attn.c_attn.weight";
    write_tensors(written.folder / "model.safetensors", {{name, "BF16", {32, 96}, bytes_of(halves), 0}});
    auto const parameters = written.open();
    REQUIRE(parameters);
    HostContext context({.threads = 2});
    ParameterLoader<Host> loader(context, *parameters, {});
    auto const found = parameters->find(name);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    auto const matrix =
        loader.matrix(*found, {.outputs = 96, .inputs = 32, .is_turned = true, .columns = UnitRange{8, 24}});
    REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
    CHECK(matrix->source().format == WeightFormat::bf16);
    auto const values = values_of(matrix->source());
    for (std::size_t o = 0; o < 96; ++o) {
        for (std::size_t i = 0; i < 16; ++i) CHECK(values[o * 16 + i] == from_bf16(halves[(8 + i) * 96 + o]));
    }
    // GGUF has it the other way round: no turn, and blocks may stay blocks.
    std::filesystem::remove(written.folder / "model.safetensors");
    auto const blocks = some_bytes(96 * 34, 7);
    write_gguf(written.folder / "m.gguf", {{"blk.0.attn_qkv.weight", "", {96, 32}, blocks, 8}});
    auto const gguf = written.open();
    REQUIRE(gguf);
    auto const packed = gguf->find(name);
    REQUIRE_MESSAGE(packed, (packed ? "" : packed.error().message()));
    ParameterLoader<Host> other(context, *gguf, {});
    auto const same = other.matrix(*packed, {.outputs = 96, .inputs = 32, .is_turned = true});
    REQUIRE_MESSAGE(same, (same ? "" : same.error().message()));
    CHECK(text_of(same->source().data) == blocks);
}

TEST_CASE("StoredParameters: packed weights whose parts do not fit or lie are refused, by the part's name") {
    std::string const config(llama);
    Written const written(config.substr(0, config.size() - 1) +
                          R"(,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"sym":true}})");
    auto const name = std::string(q_proj).substr(0, std::string(q_proj).size() - 6);
    std::vector<std::int32_t> order(64);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i / 32);
    // Zero points are stored less one: 7 is the middle.
    auto const whole = [&](char zeros) {
        return std::vector<FileTensorData>{{name + "qweight", "I32", {8, 64}, some_bytes(8 * 64 * 4, 8), 0},
                                           {name + "qzeros", "I32", {2, 8}, std::string(2 * 8 * 4, zeros), 0},
                                           {name + "scales", "F16", {2, 64}, std::string(2 * 64 * 2, '\x22'), 0},
                                           {name + "g_idx", "I32", {64}, bytes_of(order), 0}};
    };
    auto const open = [&](std::vector<FileTensorData> const& tensors) {
        write_tensors(written.folder / "model.safetensors", tensors);
        auto parameters = written.open();
        REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
        return parameters;
    };
    auto const refusal = [&](std::vector<FileTensorData> const& tensors) {
        auto const parameters = open(tensors);
        auto const found = parameters->find(q_proj);
        REQUIRE_FALSE(found);
        return std::string(name_of(found.error().code())) + " " + std::string(found.error().place());
    };
    CHECK(open(whole('\x77'))->find(q_proj)->format == WeightFormat::int4);
    auto lacking = whole('\x77');
    lacking.erase(lacking.begin() + 2);
    CHECK(refusal(lacking) == "missing_field scales");
    auto small = whole('\x77');
    small[1] = {name + "qzeros", "I32", {1, 8}, std::string(8 * 4, '\x77'), 0};
    CHECK(refusal(small) == "shape_mismatch qzeros");
    auto other = whole('\x77');
    order[63] = 2;
    other[3].bytes = bytes_of(order);
    CHECK(refusal(other) == "malformed_file g_idx");
    order[63] = 1;
    auto const lying = open(whole('\x11'));
    HostContext context({.threads = 2});
    ParameterLoader<Host> loader(context, *lying, {});
    auto const found = lying->find(q_proj);
    REQUIRE(found);
    auto const matrix = loader.matrix(*found, {.outputs = 64, .inputs = 64});
    REQUIRE_FALSE(matrix);
    CHECK(matrix.error().code() == ErrorCode::malformed_file);
    CHECK(matrix.error().place() == "qzeros");
}

TEST_CASE("StoredParameters: zero points out of the middle make five bits of four, and eight bits keep theirs") {
    auto const name = std::string(q_proj).substr(0, std::string(q_proj).size() - 6);
    struct Wanted {
        std::int64_t bits;
        bool is_symmetric;
        std::int64_t group;
        WeightFormat format;
    };
    for (auto const& wanted : {Wanted{4, false, 32, WeightFormat::q5_0}, Wanted{4, false, 64, WeightFormat::q5_0},
                               Wanted{4, false, 16, WeightFormat::f32}, Wanted{8, true, 32, WeightFormat::q8_0},
                               Wanted{8, false, 32, WeightFormat::f32}}) {
        CAPTURE(wanted.bits);
        CAPTURE(wanted.group);
        std::string const config(llama);
        Written const written(config.substr(0, config.size() - 1) +
                              R"(,"quantization_config":{"quant_method":"gptq","bits":)" + std::to_string(wanted.bits) +
                              R"(,"group_size":)" + std::to_string(wanted.group) + R"(,"sym":)" +
                              (wanted.is_symmetric ? "true" : "false") + "}}");
        auto const groups = 64 / wanted.group;
        auto const words = 64 * wanted.bits / 32;
        auto const zero_bytes = static_cast<std::size_t>(groups * words * 4);
        // Zero points are stored less one: 127 is the middle.
        auto const zeros = wanted.is_symmetric ? std::string(zero_bytes, '\x7f') : some_bytes(zero_bytes, 9);
        std::string scales;
        for (std::int64_t i = 0; i < groups * 64; ++i) scales += {static_cast<char>(i), '\x22'};
        write_tensors(written.folder / "model.safetensors",
                      {{name + "qweight", "I32", {words, 64}, some_bytes(static_cast<std::size_t>(words) * 256, 8), 0},
                       {name + "qzeros", "I32", {groups, words}, zeros, 0},
                       {name + "scales", "F16", {groups, 64}, scales, 0}});
        auto const parameters = written.open();
        REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
        auto const found = parameters->find(q_proj);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        CHECK(name_of(found->format) == name_of(wanted.format));
        MatrixPart part{.outputs = 64, .inputs = 64, .columns = UnitRange{32, 64}};
        CHECK(load(*parameters, q_proj, part) == load(*parameters, q_proj, part, {.dtype = Dtype::f32}));
    }
}

TEST_CASE("check_load_options: refuses what no loading makes") {
    CHECK(check_load_options({}));
    CHECK(check_load_options({.dtype = Dtype::bf16, .quant = QuantScheme::int4(64)}));
    CHECK(check_load_options({.dtype = Dtype::f8_e4m3}).error().code() == ErrorCode::invalid_argument);
    CHECK(check_load_options({.dtype = Dtype::i8}).error().code() == ErrorCode::invalid_argument);
    for (auto const* const name : {"fp4", "nf4-dq", "gptq", "awq", "fp8", "q4_k_m", "q6_k", "iq4_xs"}) {
        CAPTURE(name);
        auto const checked = check_load_options({.quant = *parse_quant_scheme(name)});
        CHECK(checked.error().code() == ErrorCode::invalid_argument);
    }
}

[[nodiscard]] std::uint64_t hash_of(std::vector<float> const& values) {
    return fnv1a({reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float)});
}

TEST_CASE("StoredParameters: packed checkpoints decode to the references' bits, held as they are or lossless") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/packed/";
    std::stringstream text;
    text << std::ifstream(root + "expected.json").rdbuf();
    auto const document = parse_json(text.str());
    REQUIRE(document);
    auto const cases = document->root().find("cases");
    struct Held {
        std::string_view name;
        WeightFormat format;
    };
    constexpr std::array<Held, 11> held{{{"nf4", WeightFormat::nf4},
                                         {"nf4_double", WeightFormat::nf4},
                                         {"fp4", WeightFormat::f32},
                                         {"int8", WeightFormat::int8},
                                         {"gptq", WeightFormat::int4},
                                         {"gptq_rows", WeightFormat::int4},
                                         {"gptq_order", WeightFormat::f32},
                                         {"gptq_v2", WeightFormat::f32},
                                         {"awq", WeightFormat::q5_0},
                                         {"fp8", WeightFormat::f32},
                                         {"fp8_rows", WeightFormat::f32}}};
    std::size_t weights = 0;
    for (auto const& wanted : held) {
        CAPTURE(std::string(wanted.name));
        auto const source = find_model(root + std::string(wanted.name), {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const checkpoint = read_checkpoint(*source);
        REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
        auto const parameters = StoredParameters::open(*source, checkpoint->model);
        REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
        auto const expected = cases->find(wanted.name);
        auto const hashes = expected->find("hashes");
        for (auto const entry : *hashes) {
            auto const name = std::string(entry.key());
            CAPTURE(name);
            auto const found = parameters->find(name);
            REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
            CHECK(name_of(found->format) == name_of(wanted.format));
            MatrixPart part{.outputs = found->tensor->shape[0], .inputs = found->tensor->shape[1]};
            auto const exact = load(*parameters, name, part, {.dtype = Dtype::f32});
            CHECK(hash_of(exact) == std::stoull(std::string(*entry.string()), nullptr, 16));
            auto const own = load(*parameters, name, part);
            if (wanted.format != WeightFormat::int8) {
                CHECK(own == exact);
            } else {
                // A scale of its own rounds once more: half a unit in the last place for each of two roundings.
                for (std::size_t i = 0; i < own.size(); ++i)
                    CHECK(std::abs(own[i] - exact[i]) <=
                          2 * std::numeric_limits<float>::epsilon() * std::abs(exact[i]));
            }
            UnitRange const rows[] = {{5, 6}, {16, 30}};
            part.rows = rows;
            if (part.inputs == 128 && wanted.name != "gptq_rows") part.columns = UnitRange{64, 128};
            auto const some = load(*parameters, name, part);
            auto const width = static_cast<std::size_t>(part.columns ? part.columns->size() : part.inputs);
            auto const first = static_cast<std::size_t>(part.columns ? part.columns->begin : 0);
            for (std::size_t i = 0; i < some.size(); ++i) {
                auto const row = i / width == 0 ? 5 : 15 + i / width;
                CHECK(some[i] == own[row * static_cast<std::size_t>(part.inputs) + first + i % width]);
            }
            ++weights;
        }
    }
    CHECK(weights == 77);
}

}  // namespace
