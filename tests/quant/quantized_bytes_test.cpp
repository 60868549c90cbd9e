// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/quantized_bytes.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <cstdint>
#include <limits>
#include <string>

using namespace shardwise;

namespace {

std::int64_t bytes_of(QuantScheme const& scheme, Weight const& weight) {
    return quantized_bytes(scheme, weight).value();
}

}  // namespace

TEST_CASE("bitsandbytes weights take the bytes of real state dicts") {
    std::size_t sizes = 0;
    for (auto const& line : shardwise_test::golden_lines("bitsandbytes.txt")) {
        if (line[0] != "size") continue;
        CAPTURE(line[1]);
        CAPTURE(line[2]);
        auto const scheme = parse_quant_scheme(line[1]);
        REQUIRE(scheme);
        CHECK(bytes_of(*scheme, {.shape = {std::stoll(line[2]), std::stoll(line[3])}}) == std::stoll(line[4]));
        ++sizes;
    }
    CHECK(sizes == 25);
}

TEST_CASE("NF4 costs half a bit of scales for each parameter, 0.127 with double quantisation") {
    // facts/memory.md; 64 and 64 + 1024 bytes are the code tables.
    Weight const weight{.shape = {4096, 16384}};
    auto const elements = weight.shape.elements();
    CHECK(bytes_of(QuantScheme::nf4(), weight) == elements / 2 + elements / 64 * 4 + 64);
    auto const scales = bytes_of(QuantScheme::nf4(true), weight) - elements / 2 - 64 - 1024;
    CHECK(static_cast<double>(scales) * 8.0 / static_cast<double>(elements) == doctest::Approx(0.127).epsilon(0.001));
}

TEST_CASE("GPTQ stores packed weights and zeros, half scales and an index for each input") {
    for (std::int64_t const bits : {2, 3, 4, 8}) {
        CAPTURE(bits);
        std::int64_t const in = 11008;
        std::int64_t const out = 4096;
        auto const qweight = in * bits / 32 * out * 4;
        auto const qzeros = in / 128 * (out * bits / 32) * 4;
        auto const scales = in / 128 * out * 2;
        CHECK(bytes_of(QuantScheme::gptq(bits, 128), {.shape = {out, in}}) == qweight + qzeros + scales + in * 4);
    }
    // One group for the whole row.
    CHECK(bytes_of(QuantScheme::gptq(4, -1), {.shape = {64, 32}}) == 64 * 16 + 32 + 128 + 128);
}

TEST_CASE("AWQ stores packed weights and zeros and half scales") {
    CHECK(bytes_of(QuantScheme::awq(128), {.shape = {4096, 11008}}) ==
          11008 * 512 * 4 + 86 * 512 * 4 + 86 * 4096 * 2);
}

TEST_CASE("fp8 stores a scale for a matrix or for each block of it") {
    CHECK(bytes_of(QuantScheme::fp8(), {.shape = {576, 7168}}) == 576 * 7168 + 4);
    // DeepSeek-V3's kv_a_proj_with_mqa: weight_scale_inv [5, 56].
    CHECK(bytes_of(QuantScheme::fp8_blocks(), {.shape = {576, 7168}}) == 576 * 7168 + 5 * 56 * 4);
    auto with_inputs = QuantScheme::fp8();
    with_inputs.static_activations = true;
    CHECK(bytes_of(with_inputs, {.shape = {576, 7168}}) == 576 * 7168 + 8);
}

TEST_CASE("gpt-oss-20b's experts and what is left dense add up to its published index") {
    // https://huggingface.co/openai/gpt-oss-20b model.safetensors.index.json: total_size 13761264768
    auto const scheme = QuantScheme::mxfp4();
    auto const expert = [&](std::int64_t in, std::int64_t out) {
        Weight const all{.shape = {32, in, out}, .is_expert = true, .is_transposed = true, .in_linear_module = false};
        return bytes_of(scheme, all);
    };
    auto const linear = [&](std::int64_t out, std::int64_t in) {
        return bytes_of(scheme, {.shape = {out, in}}) + bytes_of(scheme, {.shape = {out}, .use = TensorUse::bias});
    };
    auto const norm = bytes_of(scheme, {.shape = {2880}, .use = TensorUse::norm});
    auto const sinks = bytes_of(scheme, {.shape = {64}, .use = TensorUse::other});
    auto const expert_biases = bytes_of(scheme, {.shape = {32, 5760}, .use = TensorUse::bias, .is_expert = true}) +
                               bytes_of(scheme, {.shape = {32, 2880}, .use = TensorUse::bias, .is_expert = true});
    auto const layer = expert(2880, 5760) + expert(2880, 2880) + expert_biases + 2 * norm + sinks + linear(4096, 2880) +
                       2 * linear(512, 2880) + linear(2880, 4096) + linear(32, 2880);
    auto const tables = bytes_of(scheme, {.shape = {201088, 2880}, .use = TensorUse::embedding}) +
                        bytes_of(scheme, {.shape = {201088, 2880}, .use = TensorUse::head});
    CHECK(24 * layer + tables + norm == 13761264768);
}

TEST_CASE("int4 rows are whole bytes with a half for each group, the last one ragged") {
    CHECK(bytes_of(QuantScheme::int4(), {.shape = {4096, 4096}}) == 4096 * (2048 + 32 * 2));
    CHECK(bytes_of(QuantScheme::int4(64), {.shape = {3, 65}}) == 3 * (33 + 2 * 2));
}

TEST_CASE("Each scheme leaves alone what its packer leaves alone") {
    Weight const head{.shape = {32000, 4096}, .use = TensorUse::head};
    Weight const embedding{.shape = {32000, 4096}, .use = TensorUse::embedding};
    Weight const router{.shape = {8, 4096}, .use = TensorUse::router};
    Weight const norm{.shape = {4096}, .use = TensorUse::norm};
    Weight const bias{.shape = {4096}, .use = TensorUse::bias};
    for (auto const& scheme : {QuantScheme::int8(), QuantScheme::int4(), QuantScheme::nf4(), QuantScheme::fp4(true),
                               QuantScheme::fp8(), QuantScheme::fp8_blocks(), QuantScheme::gptq(), QuantScheme::awq(),
                               QuantScheme::mxfp4()}) {
        CAPTURE(name_of(scheme).view());
        for (auto const& weight : {head, embedding, norm, bias}) {
            CHECK_FALSE(packs(scheme, weight));
            CHECK(bytes_of(scheme, weight) == weight.shape.elements() * 2);
        }
        bool const is_bitsandbytes = scheme.method == QuantMethod::int8 || scheme.method == QuantMethod::nf4 ||
                                     scheme.method == QuantMethod::fp4;
        CHECK(packs(scheme, router) == is_bitsandbytes);
        CHECK(packs(scheme, {.shape = {4096, 4096}}) == (scheme.method != QuantMethod::mxfp4));
    }
    // A router that is a bare parameter (deepseek, gpt_oss) is no nn.Linear.
    CHECK_FALSE(packs(QuantScheme::int8(), {.shape = {8, 4096}, .use = TensorUse::router, .in_linear_module = false}));
    CHECK_FALSE(packs(QuantScheme::gptq(), {.shape = {512, 768}, .in_block = false}));
    CHECK_FALSE(packs(QuantScheme::gptq(4), {.shape = {4096, 4100}}));
    CHECK_FALSE(packs(QuantScheme::awq(), {.shape = {4100, 4096}}));
    CHECK(packs(QuantScheme::ggml(GgmlFileType::q8_0), head));
    CHECK(packs(QuantScheme::ggml_pure(GgmlType::q4_k), embedding));
    CHECK_FALSE(packs(QuantScheme::ggml_pure(GgmlType::q4_k), norm));
    CHECK_FALSE(packs(QuantScheme::ggml(GgmlFileType::f16), head));
}

TEST_CASE("Conv1D weights count their outputs in the last dimension") {
    // gpt2's c_attn is [768, 2304].
    CHECK(bytes_of(QuantScheme::int8(), {.shape = {768, 2304}, .is_transposed = true}) == 768 * 2304 + 2304 * 4 + 1);
    auto const pure = QuantScheme::ggml_pure(GgmlType::q4_k);
    CHECK(bytes_of(pure, {.shape = {768, 100}, .is_transposed = true}) == 100 * 3 * 144);
}

TEST_CASE("Tensors in GGUF leave their dtype, integers keep it") {
    Weight const norm{.shape = {4096}, .dtype = Dtype::bf16, .use = TensorUse::norm};
    CHECK(bytes_of(QuantScheme::ggml(GgmlFileType::q8_0), norm) == 4096 * 4);
    Weight const ids{.shape = {1, 512}, .dtype = Dtype::i64, .use = TensorUse::other};
    CHECK(bytes_of(QuantScheme::ggml(GgmlFileType::q8_0), ids) == 512 * 8);
}

TEST_CASE("Empty tensors take nothing but tables, huge ones are no number") {
    CHECK(bytes_of(QuantScheme::int8(), {.shape = {0, 4096}}) == 0);
    CHECK(bytes_of(QuantScheme::gptq(), {.shape = {4096, 0}}) == 0);
    CHECK(bytes_of(QuantScheme::ggml_pure(GgmlType::q4_k), {.shape = {4096, 0}}) == 0);
    auto const huge = std::int64_t{1} << 40;
    for (auto const& scheme : {QuantScheme::int8(), QuantScheme::nf4(), QuantScheme::ggml(GgmlFileType::q8_0),
                               QuantScheme::gptq(), QuantScheme::fp8_blocks(), QuantScheme::int4()}) {
        CHECK_FALSE(quantized_bytes(scheme, {.shape = {huge, huge}}));
    }
    CHECK_FALSE(quantized_bytes(QuantScheme::int8(), {.shape = {std::numeric_limits<std::int64_t>::max() / 2, 1}}));
}

static_assert(quantized_bytes(QuantScheme::int4(), {.shape = {4096, 4096}}) == 4096 * 2112);
