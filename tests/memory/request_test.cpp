// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/request.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

ModelConfig config_of(std::int64_t max_positions, std::optional<Dtype> dtype) {
    ModelConfig config;
    config.max_positions = max_positions;
    config.dtype = dtype;
    return config;
}

}  // namespace

// interface.md, estimate: "context min(model's, 4096)"
TEST_CASE("request: an absent context is the model's maximum, at most 4096") {
    CHECK(context_of({}, config_of(131072, {})) == 4096);
    CHECK(context_of({}, config_of(1024, {})) == 1024);
    CHECK(context_of({}, config_of(0, {})) == 4096);
    CHECK(context_of({.context = 200000}, config_of(1024, {})) == 200000);
}

// interface.md, estimate: "KV dtype = --dtype, else the config's, 16 bits for quantised"
TEST_CASE("request: the cache's type is --kv-dtype, else --dtype, else the config's") {
    auto const config = config_of(0, Dtype::f16);
    CHECK(kv_dtype_of({}, config) == Dtype::f16);
    CHECK(kv_dtype_of({}, config_of(0, {})) == Dtype::f32);
    CHECK(kv_dtype_of({.dtype = Dtype::f32}, config) == Dtype::f32);
    CHECK(kv_dtype_of({.dtype = Dtype::f8_e4m3}, config) == Dtype::f8_e4m3);
    CHECK(kv_dtype_of({.dtype = Dtype::f32, .kv_dtype = Dtype::f8_e4m3}, config) == Dtype::f8_e4m3);
}

TEST_CASE("request: packed weights have a cache and activations of 16 bits") {
    EstimateRequest const packed{.quant = QuantScheme::nf4()};
    CHECK(kv_dtype_of(packed, config_of(0, Dtype::f16)) == Dtype::f16);
    CHECK(kv_dtype_of(packed, config_of(0, Dtype::f32)) == Dtype::bf16);
    CHECK(activation_dtype_of(packed, config_of(0, {})) == Dtype::bf16);
    EstimateRequest const integers{.dtype = Dtype::i4};
    CHECK(kv_dtype_of(integers, config_of(0, Dtype::bf16)) == Dtype::bf16);
    CHECK(activation_dtype_of(integers, config_of(0, Dtype::f16)) == Dtype::f16);
}

TEST_CASE("request: activations are never narrower than 16 bits") {
    CHECK(activation_dtype_of({.dtype = Dtype::f8_e4m3}, config_of(0, Dtype::bf16)) == Dtype::bf16);
    CHECK(activation_dtype_of({}, config_of(0, {})) == Dtype::f32);
    CHECK(activation_dtype_of({.dtype = Dtype::f16}, config_of(0, Dtype::bf16)) == Dtype::f16);
}
