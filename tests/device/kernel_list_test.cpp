// SPDX-License-Identifier: Apache-2.0
// The device code is written in names that the emulator brings.
// Bounds of arrays are int there, which device compilers say nothing of.
#pragma GCC diagnostic ignored "-Wsign-conversion"
// clang-format off
#include "fake_vendor.hpp"

#include <doctest/doctest.h>

#include <shardwise/kernels/embedding_launch.cuh>
#include <shardwise/kernels/gemm_launch.cuh>
#include <shardwise/kernels/multiply_experts_launch.cuh>
#include <shardwise/kernels/multiply_launch.cuh>
#include <shardwise/kernels/multiply_sums_launch.cuh>
#include <shardwise/kernels/quantize_launch.cuh>
#include <shardwise/kernels/step_attention_launch.cuh>
// clang-format on

#include <string>

using namespace shardwise;
using detail::KernelList;
using detail::RowElement;

namespace {

/// A vendor whose kernels are few. It counts those that are started.
struct FewApi {
    using Stream = int;
    static constexpr int warp_size = testing::FakeApi::warp_size;
    static inline int started = 0;
};

}  // namespace

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
inline constexpr KernelList kernel_list<FewApi>{"bf16, q4_0, elements:bf16, heads:64"};

template <>
struct DeviceCode<FewApi> : DeviceCode<testing::FakeApi> {};
template <>
struct MatrixTile<FewApi> : MatrixTile<testing::FakeApi> {};
template <>
struct DeviceLaunch<FewApi> {
    template <class... Parameters>
    static Result<> launch(std::string_view, void (*)(Parameters...), std::int64_t, int, int, Parameters...) {
        ++FewApi::started;
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

namespace {

/// What a call says that starts no kernel.
std::string refusal(Result<> const& done) {
    CHECK(FewApi::started == 0);
    FewApi::started = 0;
    return done ? "" : done.error().message();
}

bool is_started(Result<> const& done) {
    bool const is_one = FewApi::started == 1;
    FewApi::started = 0;
    return done && is_one;
}

}  // namespace

TEST_CASE("KernelList: has what it names, and all of a kind that it names none of") {
    constexpr KernelList all{"all"};
    static_assert(all.has(WeightFormat::q6_k) && all.has(RowElement::f16) && all.has_heads(256));
    constexpr KernelList formats{"bf16,q4_0"};
    static_assert(formats.has(WeightFormat::bf16) && formats.has(WeightFormat::q4_0) &&
                  !formats.has(WeightFormat::f32));
    static_assert(!formats.has(WeightFormat::q4_1) && formats.has(RowElement::f32) && formats.has_heads(64));
    constexpr KernelList heads{"heads:64 , heads:128"};
    static_assert(heads.has_heads(64) && heads.has_heads(128) && !heads.has_heads(256) && heads.has(WeightFormat::f32));
    constexpr KernelList elements{"elements:bf16"};
    static_assert(elements.has(RowElement::bf16) && !elements.has(RowElement::f32) && elements.has(WeightFormat::f32));
    // What is named beside it is all the same.
    static_assert(KernelList{"all,bf16"}.has(WeightFormat::bf16) && !KernelList{"all,bf16"}.has(WeightFormat::f32));

    CHECK(KernelList{"all"}.is_valid());
    CHECK(KernelList{"bf16, mxfp4,elements:fp32,heads:256"}.is_valid());
    for (auto const* wrong :
         {"bf17", "f32", "heads:96", "elements:q4_0", "bf16,,q4_0", "heads", ":64", "heads:64,128"}) {
        CAPTURE(wrong);
        CHECK_FALSE(KernelList{wrong}.is_valid());
    }
}

TEST_CASE("KernelList: a call whose kernel is left out is an error that names it and the option") {
    std::string const ending = ": was left out of the kernels; compile them with it in SHARDWISE_KERNELS";
    float values[16] = {};

    detail::MultiplyCall product{};
    product.rows = 1;
    product.weight.outputs = 1;
    product.weight.rows = reinterpret_cast<std::byte const*>(values);
    product.in_element = RowElement::bf16;
    product.weight.format = WeightFormat::q4_0;
    CHECK(is_started(detail::launch_multiply<FewApi>(product, 0)));
    product.in_element = RowElement::f32;
    CHECK(refusal(detail::launch_multiply<FewApi>(product, 0)) == "multiply: elements:fp32" + ending);
    product.rows = 64;
    CHECK(refusal(detail::launch_multiply<FewApi>(product, 0)) == "multiply: elements:fp32" + ending);
    product.in_element = RowElement::f16;
    CHECK(refusal(detail::launch_multiply<FewApi>(product, 0)) == "multiply: elements:fp16" + ending);
    product.in_element = RowElement::bf16;
    CHECK(is_started(detail::launch_multiply<FewApi>(product, 0)));
    product.weight.format = WeightFormat::q4_1;
    CHECK(refusal(detail::launch_multiply<FewApi>(product, 0)) == "multiply: q4_1" + ending);

    detail::MultiplySumsCall sums{};
    sums.rows = 1;
    sums.weight.outputs = 1;
    sums.in_element = RowElement::bf16;
    sums.weight.format = WeightFormat::bf16;
    CHECK(is_started(detail::launch_multiply_sums<FewApi>(sums, 0)));
    sums.in_element = RowElement::f16;
    CHECK(refusal(detail::launch_multiply_sums<FewApi>(sums, 0)) == "multiply_sums: elements:fp16" + ending);
    sums.weight.format = WeightFormat::f32;
    CHECK(refusal(detail::launch_multiply_sums<FewApi>(sums, 0)) == "multiply_sums: fp32" + ending);

    detail::MultiplyExpertsCall experts{};
    experts.rows = 1;
    experts.outputs = 1;
    experts.in_element = RowElement::f32;
    experts.format = WeightFormat::q4_0;
    CHECK(refusal(detail::launch_multiply_experts<FewApi>(experts, 0)) == "multiply_experts: elements:fp32" + ending);
    experts.format = WeightFormat::mxfp4;
    CHECK(refusal(detail::launch_multiply_experts<FewApi>(experts, 0)) == "multiply_experts: mxfp4" + ending);

    detail::WeightRowsCall rows{};
    rows.table.format = WeightFormat::q8_0;
    CHECK(refusal(detail::launch_weight_rows<FewApi>("embedding", rows, 0)) == "embedding: q8_0" + ending);

    detail::QuantizeCall quantized{};
    quantized.rows = quantized.spans = 1;
    quantized.format = WeightFormat::q4_0;
    CHECK(is_started(detail::launch_quantize<FewApi>(quantized, 0)));
    quantized.format = WeightFormat::int8;
    CHECK(refusal(detail::launch_quantize<FewApi>(quantized, 0)) == "quantize: int8" + ending);

    detail::GemmCall gemm{};
    gemm.m = gemm.n = gemm.k = 1;
    CHECK(is_started(detail::launch_gemm<FewApi, Bfloat16>(gemm, 0)));
    CHECK(refusal(detail::launch_gemm<FewApi, float>(gemm, 0)) == "gemm: elements:fp32" + ending);

    detail::StepAttentionCall<float> attention{};
    attention.element = RowElement::bf16;
    attention.sequences = attention.heads = attention.kv_heads = attention.group = attention.chunks = 1;
    attention.key_dim = attention.value_dim = 64;
    CHECK(is_started(detail::launch_step_attention<FewApi>(attention, false, 0)));
    attention.value_dim = 65;
    CHECK(refusal(detail::launch_step_attention<FewApi>(attention, false, 0)) == "attention: heads:128" + ending);
    attention.key_dim = 256;
    CHECK(refusal(detail::launch_step_attention<FewApi>(attention, false, 0)) == "attention: heads:256" + ending);
    // For any width there is one kernel, which no list leaves out.
    attention.key_dim = 257;
    CHECK(is_started(detail::launch_step_attention<FewApi>(attention, false, 0)));
    attention.element = RowElement::f32;
    CHECK(refusal(detail::launch_step_attention<FewApi>(attention, false, 0)) == "attention: elements:fp32" + ending);
    detail::StepAttentionCall<Float16> halves{};
    halves.element = RowElement::f16;
    halves.sequences = halves.heads = halves.kv_heads = halves.group = halves.chunks = 1;
    CHECK(refusal(detail::launch_step_attention<FewApi>(halves, false, 0)) == "attention: elements:fp16" + ending);
}
