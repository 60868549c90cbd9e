// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

Model model_of(ModelConfig const& config) { return *describe(config); }

std::int64_t per_token(ModelConfig const& config, EstimateRequest const& request = {.dtype = Dtype::bf16}) {
    return kv_bytes_per_token(model_of(config), request).count();
}

std::int64_t whole_cache(ModelConfig const& config, EstimateRequest const& request, std::int64_t tp_rank = 0) {
    auto const model = model_of(config);
    std::int64_t sum = 0;
    for (auto const& block : model.program.blocks()) {
        sum += block.count * kv_cache_bytes(model.program.body(block), request, model.config, tp_rank).count();
    }
    return sum;
}

}  // namespace

// facts/memory.md, "KV cache, bytes per token at 16 bits"
TEST_CASE("kv cache: bytes per token of published models at 16 bits") {
    CHECK(per_token(presets::llama_2_7b) == 524288);
    CHECK(per_token(presets::llama_2_70b) == 327680);
    CHECK(per_token(presets::llama_3_70b) == 327680);
    CHECK(per_token(presets::llama_3_8b) == 131072);
    CHECK(per_token(presets::mistral_7b) == 131072);
    CHECK(per_token(presets::qwen3_8b) == 147456);
    CHECK(per_token(presets::qwen3_30b_a3b) == 98304);
    CHECK(per_token(presets::qwen2_5_7b) == 57344);
    CHECK(per_token(presets::deepseek_v3) == 70272);
    CHECK(per_token(presets::deepseek_v3, {.dtype = Dtype::bf16, .mla = MlaPolicy::full}) == 4997120);
}

// facts/memory.md: "Logs that must come out"
TEST_CASE("kv cache: what engines logged for whole caches") {
    CHECK(whole_cache(presets::qwen3_8b, {.context = 40960}) == 5760LL << 20U);  // 5.625 GiB, logged as 5.62 GiB
    CHECK(whole_cache(presets::qwen3_30b_a3b, {.context = 262144}) == 24LL << 30U);
    CHECK(whole_cache(presets::deepseek_v3, {.context = 32768}) == 2196LL << 20U);
}

TEST_CASE("kv cache: a windowed layer holds min(context, window) tokens without padding") {
    // Mistral-7B: window 4096, every layer.
    CHECK(whole_cache(presets::mistral_7b, {.context = 8191}) == 4096 * 131072LL);
    CHECK(whole_cache(presets::mistral_7b, {.context = 4001}) == 4001 * 131072LL);
    CHECK(whole_cache(presets::mistral_7b, {.context = 8191, .window = WindowPolicy::full}) == 8191 * 131072LL);
    CHECK(per_token(presets::mistral_7b) == 131072);
    // gemma-3-4b: 34 layers, every sixth sees everything, the others 1024 tokens; 4 kv heads of 256.
    auto const layer = 2 * 4 * 256 * 2LL;
    CHECK(whole_cache(presets::gemma_3_4b, {.dtype = Dtype::bf16, .context = 32768}) ==
          (5 * 32768 + 29 * 1024) * layer);
}

TEST_CASE("kv cache: batch and cache type scale it") {
    CHECK(whole_cache(presets::llama_3_8b, {.batch = 3, .context = 100}) == 3 * 100 * 131072);
    CHECK(whole_cache(presets::llama_3_8b, {.kv_dtype = Dtype::f8_e4m3, .context = 100}) == 100 * 65536);
    CHECK(whole_cache(presets::llama_3_8b, {.kv_dtype = Dtype::i4, .context = 100}) == 100 * 32768);
}

TEST_CASE("kv cache: ranks hold the heads that their queries read") {
    EstimateRequest const eight{.context = 100, .parallel = {.tp = 8}};
    CHECK(whole_cache(presets::llama_3_8b, eight, 7) == 100 * 131072 / 8);
    EstimateRequest const sixteen{.context = 100, .parallel = {.tp = 16}};
    CHECK(whole_cache(presets::llama_3_8b, sixteen, 15) == 100 * 131072 / 8);  // one of 8 kv heads, twice
    EstimateRequest const three{.context = 100, .parallel = {.tp = 3}};
    CHECK(whole_cache(presets::llama_3_8b, three, 1) == 100 * 131072 / 8 * 4);
    CHECK(whole_cache(presets::deepseek_v3, {.context = 100, .parallel = {.tp = 8}}, 3) == 100 * 70272);
}

TEST_CASE("kv cache: encoders have none, decoders with cross-attention have two") {
    CHECK(per_token(presets::bert_base) == 0);
    // t5-small: 6 layers, 8 heads of 64; self- and cross-attention.
    CHECK(per_token(presets::t5_small) == 6 * 2 * (2 * 8 * 64) * 2);
}

// 36 of the 48 layers of Qwen3-Next-80B-A3B keep a state: 32 matrices of 128 x 128, and 3 inputs of 8192 channels, in fp32; the 12
// others keys and values of 2 heads of 256. transformers keeps a fourth input (modeling_qwen3_next.py, Qwen3NextDynamicCache).
TEST_CASE("kv cache: a gated delta rule keeps a state of each sequence, whatever its length") {
    auto const state = 36 * 4 * (32 * 128 * 128 + 3 * 8192LL);
    auto const token = 12 * 2 * 2 * 256 * 2LL;
    CHECK(per_token(presets::qwen3_next_80b_a3b) == token);
    for (std::int64_t const context : {1, 4096, 262144})
        CHECK(whole_cache(presets::qwen3_next_80b_a3b, {.dtype = Dtype::bf16, .context = context}) ==
              state + context * token);
    CHECK(whole_cache(presets::qwen3_next_80b_a3b, {.dtype = Dtype::bf16, .batch = 3, .context = 100}) ==
          3 * (state + 100 * token));
    // Sixteen key heads over three ranks: 6, 5, 5; the query heads of the second rank read both key-value heads, of the first one.
    EstimateRequest const sharded{.dtype = Dtype::bf16, .context = 1, .parallel = {.tp = 3}};
    auto const of_rank = [&](std::int64_t rank) { return whole_cache(presets::qwen3_next_80b_a3b, sharded, rank); };
    CHECK(of_rank(0) - of_rank(1) == state / 16 - token / 2);
}
