// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/kv_halves.hpp>
#include <shardwise/executor/load_parameter.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "written_files.hpp"
#include "written_model.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

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
    detail::traits(joined->packed[0].form).decode(joined->packed[0], {0, 66}, {1, 3}, out.data());
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
            traits(wanted.format).encode({weight.data() + row * 128, 128}, wanted.group,
                                         {data.data() + row * data.size() / 64, scales.data() + row * scales.size() / 64});
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

}  // namespace
