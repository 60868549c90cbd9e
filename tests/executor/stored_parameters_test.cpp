// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/json/value.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "opened_files.hpp"
#include "written_files.hpp"
#include "written_model.hpp"

#include <cmath>
#include <cstdint>
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

TEST_CASE("StoredParameters: headers that were read count, unless another file has come in their place") {
    Written const written(llama);
    auto const write = [&](float first) {
        auto values = formula("q", {64, 64});
        values[0] = first;
        write_tensors(written.folder / "model.safetensors",
                      {{"other", "F32", {1}, std::string(4, 'x'), 0}, {q_proj, "F32", {64, 64}, bytes_of(values), 0}});
    };
    write(1.0F);
    OpenCheckpoint files(*find_model(written.folder.path(), {}, HubCache(HubEnvironment{})));
    OpenedFile const config(written.folder / "config.json");
    OpenedFile const weights(written.folder / "model.safetensors");
    REQUIRE(config.is_watched());
    REQUIRE(files.safetensors());
    CHECK(weights.count() == 1);
    auto const first_of = [&] {
        auto const parameters = StoredParameters::open(files, written.model);
        REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
        float value = 0.0F;
        std::memcpy(&value, parameters->find(q_proj)->data.data(), sizeof value);
        return value;
    };
    CHECK(first_of() == 1.0F);
    CHECK(weights.count() == 1);  // to be mapped
    CHECK(config.count() == 1);
    // The same tensors in another place of another file.
    std::filesystem::remove(written.folder / "model.safetensors");
    write_tensors(written.folder / "model.safetensors",
                  {{q_proj, "F32", {64, 64}, bytes_of(formula("p", {64, 64})), 0}});
    CHECK(first_of() == formula("p", {64, 64})[0]);
    CHECK(config.count() == 0);
}

TEST_CASE("StoredParameters: a GGUF file that was read is mapped, whatever has its name by then") {
    Written const written(llama);
    auto const path = written.folder / "m.gguf";
    write_gguf(path, {{"blk.0.attn_q.weight", "F32", {64, 64}, bytes_of(formula("q", {64, 64})), 0}}, {});
    OpenCheckpoint files(*find_model(path, {}, HubCache(HubEnvironment{})));
    REQUIRE(files.gguf());
    OpenedFile const file(path);
    CHECK(StoredParameters::open(files, written.model));
    CHECK(file.count() == 0);
    std::filesystem::remove(path);
    CHECK(StoredParameters::open(files, written.model)->find(q_proj));
}

TEST_CASE("StoredParameters: gate and up of fused experts are rows one after another") {
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

[[nodiscard]] std::uint64_t hash_of(std::vector<float> const& values) {
    return fnv1a({reinterpret_cast<char const*>(values.data()), values.size() * sizeof(float)});
}

/// A checkpoint of a golden folder, and the format that its weights are held in.
struct Held {
    std::string_view name;
    WeightFormat format;
    /// True where rows cannot be cut.
    bool is_whole = false;
    /// True where a scale is not the reference's in every bit.
    bool is_rounded = false;
};

/// Holds checkpoints to the hashes of what their references decode; how many weights that were.
std::size_t check_decoded(std::string const& folder, std::span<Held const> held) {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/" + folder + "/";
    std::stringstream text;
    text << std::ifstream(root + "expected.json").rdbuf();
    auto const document = parse_json(text.str());
    REQUIRE(document);
    auto const cases = document->root().find("cases");
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
            // Estimates cut the weight where loading can.
            CHECK(found->tensor->stored_block == input_grain(found->format, found->group));
            MatrixPart part{.outputs = found->tensor->shape[0], .inputs = found->tensor->shape[1]};
            auto const exact = load(*parameters, name, part, {.dtype = Dtype::f32});
            CHECK(hash_of(exact) == std::stoull(std::string(*entry.string()), nullptr, 16));
            auto const own = load(*parameters, name, part);
            if (!wanted.is_rounded) {
                CHECK(own == exact);
            } else {
                // A scale of its own rounds once more: half a unit in the last place for each of two roundings.
                for (std::size_t i = 0; i < own.size(); ++i)
                    CHECK(std::abs(own[i] - exact[i]) <=
                          2 * std::numeric_limits<float>::epsilon() * std::abs(exact[i]));
            }
            UnitRange const rows[] = {{5, 6}, {16, 30}};
            part.rows = rows;
            if (part.inputs == 128 && !wanted.is_whole) part.columns = UnitRange{64, 128};
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
    return weights;
}

TEST_CASE("StoredParameters: packed checkpoints decode to the references' bits, held as they are or lossless") {
    constexpr std::array<Held, 11> held{{{"nf4", WeightFormat::nf4},
                                         {"nf4_double", WeightFormat::nf4},
                                         {"fp4", WeightFormat::f32},
                                         {"int8", WeightFormat::int8, false, true},
                                         {"gptq", WeightFormat::int4},
                                         {"gptq_rows", WeightFormat::int4, true},
                                         {"gptq_order", WeightFormat::f32},
                                         {"gptq_v2", WeightFormat::f32},
                                         {"awq", WeightFormat::q5_0},
                                         {"fp8", WeightFormat::f32},
                                         {"fp8_rows", WeightFormat::f32}}};
    CHECK(check_decoded("packed", held) == 77);
}

TEST_CASE(
    "StoredParameters: integers and fp8 that compressed-tensors saved decode to its values, held as they are or "
    "lossless") {
    constexpr std::array<Held, 11> held{{{"w4_group", WeightFormat::int4},
                                         {"w4_asymmetric", WeightFormat::q5_0},
                                         {"w4_order", WeightFormat::f32},
                                         {"w4_channel", WeightFormat::int4, true},
                                         {"w3_group", WeightFormat::int4},
                                         {"w8_group", WeightFormat::q8_0},
                                         {"w8_channel", WeightFormat::int8},
                                         {"int8_channel", WeightFormat::int8},
                                         {"int8_tensor", WeightFormat::f32},
                                         {"fp8_channel", WeightFormat::f32},
                                         {"fp8_tensor", WeightFormat::f32}}};
    CHECK(check_decoded("compressed", held) == 77);
}

}  // namespace
