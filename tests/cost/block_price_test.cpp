// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/block_price.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/body_builder.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace shardwise;

namespace {

/// Equal but for rounding, however small: seconds are.
doctest::Approx near(double value) {
    return doctest::Approx(value).scale(0.0);
}

/// Peaks are reached, and of arithmetic and memory the longer one counts alone.
constexpr Efficiency perfect{.product = 1.0,
                             .attention = 1.0,
                             .memory = 1.0,
                             .vectors = 1.0,
                             .unhidden = 0.0,
                             .unpack_operations = 0.0,
                             .link = 1.0,
                             .overlap = 1.0,
                             .kernel_seconds = 0.0,
                             .step_seconds = 0.0};
/// 1e12 operations and 1e9 bytes a second.
constexpr DeviceRates rates{.products = 1e12, .vectors = 1e12, .memory = 1e9};

/// One product: [tokens, 1000] by [500, 1000].
BlockBody product() {
    BodyBuilder body(1000);
    (void)body.linear(body.input(), "out", "weight", 500);
    return std::move(body).finish();
}

constexpr BodyWeights product_weights{.dense = 1e6, .dense_parameters = 500e3};

Step step(std::int64_t tokens, bool is_training = false) {
    return {.batch = 1, .new_tokens = tokens, .context = tokens, .is_training = is_training};
}

BlockPrice price(BlockBody const& body, std::int64_t tokens, BodyWeights const& weights, Pass pass = Pass::prefill,
                 Efficiency const& efficiency = perfect, DeviceRates const& device = rates,
                 BlockPolicy const& policy = {}) {
    return block_price(body, step(tokens, pass == Pass::training), {.pass = pass}, weights, device, policy, efficiency);
}

}  // namespace

// Williams, Waterman and Patterson, CACM 52(4), 2009: the slower of arithmetic and memory
TEST_CASE("block price: a product takes its arithmetic or its bytes, whichever is longer") {
    auto const body = product();
    // 2 * 10 * 1000 * 500 operations take 10 us; a megabyte of weights and 30,000 of activations 1030 us.
    auto const few = price(body, 10, product_weights);
    CHECK(few.terms.memory == near(1.03e-3));
    CHECK(few.terms.compute == 0.0);
    // 1e10 operations take 10 ms; 1 MB and 30 MB 31 ms: still memory. With a hundred times the bandwidth arithmetic
    // binds.
    auto fast = rates;
    fast.memory = 100e9;
    auto const many = price(body, 10000, product_weights, Pass::prefill, perfect, fast);
    CHECK(many.terms.compute == near(10e-3));
    CHECK(many.terms.memory == 0.0);
    CHECK(many.output_bytes == 10000.0 * 500 * 2);
}

TEST_CASE("block price: what is not hidden of the shorter one is added, and every operation is launched") {
    auto efficiency = perfect;
    efficiency.unhidden = 0.5;
    auto device = rates;
    device.kernel_seconds = 1e-3;
    auto const both = price(product(), 10, product_weights, Pass::prefill, efficiency, device);
    CHECK(both.terms.memory == near(1.03e-3));
    CHECK(both.terms.compute == near(0.5 * 10e-6));
    CHECK(both.terms.overhead == near(1e-3));
}

TEST_CASE("block price: a training step is a forward pass and twice its products") {
    auto fast = rates;
    fast.memory = 1e15;
    auto const body = product();
    auto const forward = price(body, 100, product_weights, Pass::prefill, perfect, fast).terms.compute;
    auto const both = price(body, 100, product_weights, Pass::training, perfect, fast);
    CHECK(both.terms.compute == near(3.0 * forward));
    CHECK(both.backward_seconds == near(2.0 * forward));
    auto const again = price(body, 100, product_weights, Pass::training, perfect, fast, {.recompute = Recompute::full});
    CHECK(again.terms.compute == near(4.0 * forward));
    // Weights: once forwards, and backwards once more, their gradients read and written. Activations: thrice.
    auto slow = rates;
    slow.memory = 1e3;
    auto const bytes = 4.0 * 1e6 + 3.0 * (100 * 1000 + 100 * 500) * 2;
    CHECK(price(body, 100, product_weights, Pass::training, perfect, slow).terms.memory == near(bytes / 1e3));
}

TEST_CASE("block price: selective recomputation repeats the attention only") {
    auto const model = *describe(presets::llama_2_7b);
    auto const& layer = model.program.bodies()[1];
    auto fast = rates;
    fast.memory = 1e15;
    auto const at = [&](Recompute recompute) {
        return price(layer, 2048, {}, Pass::training, perfect, fast, {.recompute = recompute}).terms.compute;
    };
    double attention = 0.0;
    double whole = 0.0;
    auto const context = op_context(layer, step(2048, true));
    for (auto const& op : layer.operations()) {
        whole += op_work(op, context).flops / 1e12;
        if (op.kind == OpKind::attention) attention += op_work(op, context).flops / 1e12;
    }
    CHECK(at(Recompute::none) == near(3.0 * whole));
    CHECK(at(Recompute::selective) == near(3.0 * whole + attention));
    CHECK(at(Recompute::full) == near(4.0 * whole));
}

TEST_CASE("block price: messages of the forward pass come again with full recomputation") {
    auto const model = *describe(presets::mixtral_8x7b);
    auto const& layer = model.program.bodies()[1];
    BlockSetting const setting{.pass = Pass::training,
                               .tp = RankGroup::in_node(2, {LinkType::nvlink, 300e9, 5e-6}),
                               .ep = RankGroup::in_node(4, {LinkType::nvlink, 300e9, 5e-6})};
    auto const at = [&](Recompute recompute) {
        return block_price(layer, step(64, true), setting, {}, rates, {.recompute = recompute}, perfect).terms;
    };
    auto const context = op_context(layer, step(64, true), {.tp = 2});
    auto const messages = block_messages(layer, context, {setting.tp, setting.ep}, perfect);
    CHECK(at(Recompute::none).tensor_parallel == near(messages.forward + messages.backward));
    CHECK(at(Recompute::full).tensor_parallel == near(2.0 * messages.forward + messages.backward));
    CHECK(at(Recompute::none).expert_parallel == near(2.0 * messages.routed));
    CHECK(at(Recompute::full).expert_parallel == near(3.0 * messages.routed));
    CHECK(at(Recompute::selective).expert_parallel == near(2.0 * messages.routed));
}

TEST_CASE("block price: weights narrower than what products take are unpacked first") {
    auto efficiency = perfect;
    efficiency.unpack_operations = 4.0;
    auto const body = product();
    BodyWeights const packed{.dense = 0.25e6, .dense_parameters = 500e3};
    CHECK(price(body, 1, packed, Pass::decode, efficiency).terms.compute == near(4.0 * 500e3 / 1e12));
    CHECK(price(body, 1, product_weights, Pass::decode, efficiency).terms.compute == 0.0);
    // fp8 on a device with a unit for it is no packing.
    BodyWeights const fp8{.dense = 0.5e6, .dense_parameters = 500e3};
    auto native = rates;
    native.product_bits = 8.0;
    CHECK(price(body, 1, fp8, Pass::decode, efficiency, native).terms.compute == 0.0);
    CHECK(price(body, 1, fp8, Pass::decode, efficiency).terms.compute > 0.0);
}

TEST_CASE("block price: few tokens read few experts, and ranks that share experts bring tokens of their own") {
    auto const model = *describe(presets::qwen3_30b_a3b);
    auto const& layer = model.program.bodies()[1];
    BodyWeights const experts{.experts = 128e6, .expert_parameters = 64e6};
    auto const read = [&](std::int64_t tokens, std::int64_t ep) {
        BlockSetting const setting{.pass = Pass::decode, .ep = RankGroup::in_node(ep, {})};
        Step const decode{.batch = tokens, .new_tokens = 1, .context = 1};
        auto const with = block_price(layer, decode, setting, experts, rates, {}, perfect).terms.memory;
        return (with - block_price(layer, decode, setting, {}, rates, {}, perfect).terms.memory) * 1e9 / 128e6;
    };
    // A token chooses 8 of 128; n tokens leave (1 - 8 / 128)^n of them alone.
    CHECK(read(1, 1) == near(8.0 / 128));
    CHECK(read(5, 1) == near(1.0 - std::pow(1.0 - 8.0 / 128, 5)));
    CHECK(read(5, 8) == near(1.0 - std::pow(1.0 - 8.0 / 128, 40)));
}

TEST_CASE("block price: a faster device is never slower, and every family's blocks have a finite price") {
    auto const device = *find_device_preset("A100-80GB");
    auto const base = device_rates(device, Dtype::bf16);
    auto better = base;
    better.products *= 1.5;
    better.vectors *= 1.5;
    better.memory *= 1.5;
    for (auto const& preset : model_presets) {
        auto const model = *describe(*preset.config);
        for (auto const& body : model.program.bodies()) {
            for (auto const pass : {Pass::prefill, Pass::training}) {
                auto const slow = price(body, 64, {.dense = 1e9}, pass, default_efficiency, base).terms.total();
                auto const fast = price(body, 64, {.dense = 1e9}, pass, default_efficiency, better).terms.total();
                CHECK(std::isfinite(slow));
                CHECK(fast > 0.0);
                CHECK(fast < slow);
            }
        }
    }
}

TEST_CASE("block price: a rank of four does about a quarter of a layer's products") {
    auto const model = *describe(presets::llama_2_7b);
    auto const& layer = model.program.bodies()[1];
    auto fast = rates;
    fast.memory = 1e15;
    auto const at = [&](std::int64_t tp) {
        BlockSetting const setting{.pass = Pass::prefill, .tp = RankGroup::in_node(tp, {})};
        return block_price(layer, step(512), setting, {}, fast, {}, perfect).terms.compute;
    };
    CHECK(at(4) == near(at(1) / 4.0).epsilon(0.01));
}

TEST_CASE("block price: attention takes what was measured of it, by length and element type of the cache") {
    auto const model = describe(presets::llama_3_8b).value();
    auto const& body = model.program.body(model.program.blocks()[1]);
    auto device = presets::four_a100_40gb[0];
    auto const seconds = [&](Pass pass, std::int64_t tokens, CacheKind const& cache) {
        Step const of{.batch = 4, .new_tokens = tokens, .context = 8192, .kv_dtype = cache.kv};
        auto const known = device_rates(device, Dtype::bf16, perfect, cache);
        return block_price(body, of, {.pass = pass, .batch = 4}, {}, known, {}, perfect).terms.total();
    };
    auto const before = seconds(Pass::decode, 1, {Dtype::bf16, 8192});
    auto const prompt_before = seconds(Pass::prefill, 8192, {Dtype::bf16, 8192});
    device.measured.attention[0] = {Dtype::bf16, 1024, 1e9, 1e10};
    device.measured.attention[1] = {Dtype::bf16, 4096, 1e8, 1e11};
    device.measured.attention[2] = {Dtype::i8, 4096, 1e30, 1e30};
    // 4 sequences of 8,192 tokens, each of 8 heads of 128 keys and as many values of 2 bytes.
    CHECK(seconds(Pass::decode, 1, {Dtype::bf16, 8192}) - before ==
          doctest::Approx(4.0 * 8192 * 4096 / 1e8).epsilon(0.01));
    CHECK(seconds(Pass::decode, 1, {Dtype::bf16, 4000}) - before ==
          doctest::Approx(4.0 * 8192 * 4096 / 1e9).epsilon(0.01));
    CHECK(seconds(Pass::decode, 1, {Dtype::bf16, 100}) == seconds(Pass::decode, 1, {Dtype::bf16, 1024}));
    CHECK(seconds(Pass::decode, 1, {Dtype::f32, 8192}) > before);
    CHECK(seconds(Pass::decode, 1, {Dtype::bf16, 0}) == before);
    // 32 heads of 128 by half of all pairs.
    auto const pairs = 4.0 * 8192 * 8193 / 2;
    CHECK(seconds(Pass::prefill, 8192, {Dtype::bf16, 8192}) - prompt_before ==
          doctest::Approx(pairs * 32 * (4 * 128 + 5) / 1e11).epsilon(0.05));
}

TEST_CASE("block price: measured attention counts on a device whose bandwidth nobody gave") {
    auto const model = describe(presets::llama_3_8b).value();
    auto const& body = model.program.body(model.program.blocks()[1]);
    Device device;
    device.measured.attention[0] = {Dtype::bf16, 1024, 1e9, 1e10};
    auto const known = device_rates(device, Dtype::bf16, perfect, {Dtype::bf16, 8192});
    Step const of{.batch = 4, .new_tokens = 1, .context = 8192, .kv_dtype = Dtype::bf16};
    auto const price = block_price(body, of, {.pass = Pass::decode, .batch = 4}, {}, known, {}, perfect);
    CHECK(price.terms.memory == doctest::Approx(4.0 * 8192 * 4096 / 1e9).epsilon(0.01));
}

TEST_CASE("device rates: peaks in the model's type, eight bits only where there is a unit for them") {
    auto const a100 = *find_device_preset("A100-80GB");
    auto const h100 = *find_device_preset("H100-80GB");
    CHECK(device_rates(a100, Dtype::bf16, perfect).products == 312e12);
    CHECK(device_rates(a100, Dtype::bf16, perfect).memory == 2039e9);
    CHECK(device_rates(h100, Dtype::f8_e4m3, perfect).products == 1979e12);
    CHECK(device_rates(h100, Dtype::f8_e4m3, perfect).attention == 989e12);
    CHECK(device_rates(h100, Dtype::f8_e4m3, perfect).product_bits == 8.0);
    CHECK(device_rates(a100, Dtype::f8_e4m3, perfect).product_bits == 16.0);
    CHECK(device_rates(a100, Dtype::bf16).products < 312e12);
}
