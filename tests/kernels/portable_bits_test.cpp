// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/activation.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/softmax.hpp>

#include <doctest/doctest.h>

#include "../backend/quantised_source.hpp"
#include "row_matrices.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The bits of the level portable are the same on every processor and by every compiler: what another machine made stands here as
// hashes. What has no sum has these bits at the level neon, too.

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// FNV-1a of the bytes.
template <class T>
std::string hash_of(std::vector<T> const& values) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    auto const* const bytes = reinterpret_cast<unsigned char const*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3U;
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

/// Numbers within +-8 without a distribution of the standard library, whose numbers are its own.
template <class T>
Matrix<T> numbers(std::int64_t rows, std::int64_t width, std::uint32_t seed, float scale = 1.0F) {
    Matrix<T> matrix{rows, width};
    std::mt19937 random(seed);
    for (auto& value : matrix.values)
        value = T(static_cast<float>(static_cast<std::int32_t>(random()) >> 8) * 0x1p-20F * scale);
    return matrix;
}

constexpr std::array all_activations{ActivationKind::silu,         ActivationKind::gelu,   ActivationKind::gelu_tanh,
                                     ActivationKind::relu,         ActivationKind::tanh,   ActivationKind::quick_gelu,
                                     ActivationKind::relu_squared, ActivationKind::sigmoid};

/// Functions that make each element of one or two others, in 33 columns: whole vectors and a part of one.
template <class T>
std::vector<T> element_wise(IsaLevel level) {
    HostContext context({.threads = 2, .isa = level});
    auto stream = context.make_stream();
    std::vector<T> all;
    auto const add = [&](Matrix<T> const& made) { all.insert(all.end(), made.values.begin(), made.values.end()); };
    auto const in = numbers<T>(5, 33, 1);
    auto const up = numbers<T>(5, 33, 2);
    Matrix<T> out{5, 33};
    for (auto const kind : all_activations) {
        REQUIRE(activation<T>(in.read(), out.view(), kind, stream));
        add(out);
    }
    for (auto const kind : {ActivationKind::silu, ActivationKind::swiglu_clamped}) {
        REQUIRE(gated_activation<T>(in.read(), up.read(), out.view(), kind, stream));
        add(out);
    }
    std::vector<std::int32_t> const positions{0, 1, 7, 1000, 100'000};
    auto const frequencies = numbers<float>(1, 11, 3, 0.125F);
    for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
        auto turned = numbers<T>(5, 24, 4);
        REQUIRE(rope<T>(turned.view(), {positions.data(), {5}}, frequencies.flat(), 24, layout, stream));
        add(turned);
    }
    return all;
}

std::vector<float> element_wise_backward(IsaLevel level) {
    HostContext context({.threads = 2, .isa = level});
    auto stream = context.make_stream();
    std::vector<float> all;
    auto const in = numbers<float>(5, 33, 5);
    auto const gradient = numbers<float>(5, 33, 6);
    Matrix<float> out{5, 33};
    for (auto const kind : all_activations) {
        REQUIRE(activation_backward(in.read(), gradient.read(), out.view(), false, kind, stream));
        all.insert(all.end(), out.values.begin(), out.values.end());
    }
    return all;
}

/// Functions whose elements are sums, one after another.
std::vector<std::vector<float>> sums(IsaLevel level) {
    HostContext context({.threads = 2, .isa = level});
    auto stream = context.make_stream();
    std::vector<std::vector<float>> all;
    auto const in = numbers<float>(3, 133, 7);
    auto const weight = numbers<float>(1, 133, 8);
    auto const bias = numbers<float>(1, 133, 9);
    Matrix<float> out{3, 133};
    REQUIRE(rms_norm<float>(in.read(), weight.flat(), out.view(), 1e-5F, stream));
    all.push_back(out.values);
    REQUIRE(layer_norm<float>(in.read(), weight.flat(), bias.flat(), out.view(), 1e-5F, stream));
    all.push_back(out.values);
    REQUIRE(softmax<float>(in.read(), out.view(), stream));
    all.push_back(out.values);
    // Few rows and many, which are summed by different code; more keys than a part of a context has.
    for (std::int64_t const queries : {1, 21}) {
        auto const q = numbers<float>(queries, 4 * 24, 10);
        auto const k = numbers<float>(300, 2 * 24, 11);
        auto const v = numbers<float>(300, 2 * 24, 12);
        Matrix<float> attended{queries, 4 * 24};
        AttentionOptions const options{.shape = {.heads = 4, .kv_heads = 2, .key_dim = 24, .value_dim = 24}};
        REQUIRE(attention<float, float>(q.read(), k.read(), v.read(), attended.view(), options, stream));
        all.push_back(attended.values);
    }
    return all;
}

/// A product of 5 rows by a weight of a format.
std::vector<float> product(IsaLevel level, WeightFormat format, ProductActivations activations) {
    test::Recipe const recipe{format, 37, test::inputs_of(format, 3)};
    std::mt19937 random(13);
    test::QuantisedWeight const weight(
        recipe, random, [&] { return static_cast<float>(static_cast<std::int32_t>(random()) >> 20) * 0x1p-16F; });
    HostContext context({.threads = 2, .isa = level, .product_activations = activations});
    auto held = Host::hold_weight(context, weight.source());
    REQUIRE(held);
    auto const in = numbers<float>(5, recipe.inputs, 14);
    Matrix<float> out{5, recipe.outputs};
    auto stream = context.make_stream();
    REQUIRE(Host::multiply(in.read(), *held, out.view(), stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return out.values;
}
constexpr std::int64_t dense_inputs = 301;
std::vector<float> dense_product(IsaLevel level, WeightFormat format, Matrix<float> const& in,
                                 ProductActivations activations = ProductActivations::full) {
    constexpr std::int64_t outputs = 37;
    constexpr auto inputs = dense_inputs;
    auto const rows = in.rows;
    auto const floats = numbers<float>(outputs, inputs, 15);
    std::vector<std::byte> data;
    for (auto const value : floats.values) {
        auto const add = [&](auto stored) {
            auto const bytes = std::as_bytes(std::span(&stored, 1));
            data.insert(data.end(), bytes.begin(), bytes.end());
        };
        if (format == WeightFormat::f32) add(value);
        if (format == WeightFormat::bf16) add(Bfloat16(value));
        if (format == WeightFormat::f16) add(Float16(value));
    }
    HostContext context({.threads = 2, .isa = level, .product_activations = activations});
    auto held = Host::hold_weight(context,
                                  {.format = format, .outputs = outputs, .inputs = inputs, .data = data, .scales = {}});
    REQUIRE(held);
    Matrix<float> out{rows, outputs};
    auto stream = context.make_stream();
    REQUIRE(Host::multiply(in.read(), *held, out.view(), stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return out.values;
}

std::vector<float> dense_product(IsaLevel level, WeightFormat format, std::int64_t rows) {
    return dense_product(level, format, numbers<float>(rows, dense_inputs, 16));
}

struct FormatHash {
    WeightFormat format;
    std::string_view hash;
};

}  // namespace

TEST_CASE("portable: functions of single elements have the bits that every machine makes") {
    CHECK(hash_of(element_wise<float>(IsaLevel::portable)) == "0d53d222cb5ca7cb");
    CHECK(hash_of(element_wise<Bfloat16>(IsaLevel::portable)) == "05652ce5f1d227a4");
    CHECK(hash_of(element_wise<Float16>(IsaLevel::portable)) == "0cbea055d11c96db");
    CHECK(hash_of(element_wise_backward(IsaLevel::portable)) == "8f132e4c6658e94f");
}

TEST_CASE("portable: norms, softmax and attention have the bits that every machine makes") {
    constexpr std::array<std::string_view, 5> expected{"47ea61ceca78b956", "be737704674e44d5", "88b034338f2393f7",
                                                       "a45c962a99929fa9", "75257950d820852d"};
    auto const made = sums(IsaLevel::portable);
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) CHECK(hash_of(made[i]) == expected[i]);
}

TEST_CASE("portable: products have the bits that every machine makes") {
    for (auto const& row :
         {FormatHash{WeightFormat::f32, "896b8e308e2f46ca"}, FormatHash{WeightFormat::bf16, "3a087b73fa9344d7"},
          FormatHash{WeightFormat::f16, "58bade6bde1c288a"}}) {
        CAPTURE(name_of(row.format));
        CHECK(hash_of(dense_product(IsaLevel::portable, row.format, 5)) == row.hash);
    }
    for (auto const& row :
         {FormatHash{WeightFormat::int8, "71dbed5f7e1fe6d3"}, FormatHash{WeightFormat::int4, "a2206524d29b4272"},
          FormatHash{WeightFormat::nf4, "c02a7ea67ff661b1"}, FormatHash{WeightFormat::mxfp4, "5d570b813685b62d"},
          FormatHash{WeightFormat::q4_0, "a0e7300b706f5985"}, FormatHash{WeightFormat::q4_1, "419187ead42a808f"},
          FormatHash{WeightFormat::q5_0, "ea755a674bb8fd75"}, FormatHash{WeightFormat::q5_1, "aceacb656714ab0d"},
          FormatHash{WeightFormat::q8_0, "54ccbad67ffa2952"}, FormatHash{WeightFormat::q4_k, "44de52895b121cdf"},
          FormatHash{WeightFormat::q5_k, "39835b1a2d4da493"}, FormatHash{WeightFormat::q6_k, "da045b045cdbbe16"}}) {
        CAPTURE(name_of(row.format));
        CHECK(hash_of(product(IsaLevel::portable, row.format, ProductActivations::full)) == row.hash);
    }
}

TEST_CASE("products by activations of 8 bits: every level of every processor has the same bits") {
    for (auto const level : test::isa_levels()) {
        CAPTURE(name_of(level));
        for (auto const& row :
             {FormatHash{WeightFormat::int8, "f13e8ff88d46861c"}, FormatHash{WeightFormat::q4_0, "d0f0b7a80627b6de"},
              FormatHash{WeightFormat::q4_1, "bd76df105639cbd5"}, FormatHash{WeightFormat::mxfp4, "35d723543138f9c4"},
              FormatHash{WeightFormat::q5_k, "71c6de8a56ca5213"}, FormatHash{WeightFormat::q6_k, "dba3b50e426269ab"}}) {
            CAPTURE(name_of(row.format));
            CHECK(hash_of(product(level, row.format, ProductActivations::int8)) == row.hash);
        }
    }
}

TEST_CASE("dense products: AVX2 and NEON, which both fuse, have the same bits") {
    for (auto const level : {IsaLevel::neon, IsaLevel::avx2}) {
        if (!has_isa(level)) continue;
        CAPTURE(name_of(level));
        for (auto const& row :
             {FormatHash{WeightFormat::f32, "f4558bb609bd172a"}, FormatHash{WeightFormat::bf16, "3c8c835b19406ede"},
              FormatHash{WeightFormat::f16, "ca5bd920b3a6bd56"}}) {
            CAPTURE(name_of(row.format));
            CHECK(hash_of(dense_product(level, row.format, 5)) == row.hash);
            // Many rows are copied tile by tile.
            auto const many = dense_product(level, row.format, 23);
            auto const few = dense_product(level, row.format, 5);
            CHECK(std::equal(few.begin(), few.end(), many.begin()));
        }
    }
}

TEST_CASE("products by activations of bf16: the bits are those of activations rounded before") {
    auto const in = numbers<float>(5, dense_inputs, 16);
    auto rounded = in;
    for (auto& value : rounded.values) value = static_cast<float>(Bfloat16(value));
    REQUIRE(in.values != rounded.values);
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        auto const expected = dense_product(level, WeightFormat::bf16, rounded);
        CHECK(dense_product(level, WeightFormat::bf16, in, ProductActivations::bf16) == expected);
        CHECK(dense_product(level, WeightFormat::bf16, in) != expected);
    }
}

TEST_CASE("neon: functions of single elements have the bits of the level portable") {
    if (!has_isa(IsaLevel::neon)) return;
    auto const check = [](auto const& portable, auto const& neon) { CHECK(hash_of(portable) == hash_of(neon)); };
    check(element_wise<float>(IsaLevel::portable), element_wise<float>(IsaLevel::neon));
    check(element_wise<Bfloat16>(IsaLevel::portable), element_wise<Bfloat16>(IsaLevel::neon));
    check(element_wise<Float16>(IsaLevel::portable), element_wise<Float16>(IsaLevel::neon));
    check(element_wise_backward(IsaLevel::portable), element_wise_backward(IsaLevel::neon));
    // Sums do not: this test would see it if both levels ran the same code.
    CHECK(hash_of(sums(IsaLevel::portable).back()) != hash_of(sums(IsaLevel::neon).back()));
}
