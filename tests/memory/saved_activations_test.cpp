// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>
#include <shardwise/memory/saved_activations.hpp>
#include <shardwise/model/arch/gpt2.hpp>
#include <shardwise/model/arch/llama.hpp>
#include <shardwise/model/arch/mixtral.hpp>
#include <shardwise/model/body_builder.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

using namespace shardwise;

namespace {

/// A layer of hidden size 64 with 4 heads of 16: norm, q, k, v, attention, out, residual.
BlockBody small_layer() {
    BodyBuilder body(64);
    auto const normed = body.norm(body.input(), NormKind::rms, "norm.weight");
    AttentionShape const shape{.heads = 4, .kv_heads = 4, .key_dim = 16, .value_dim = 16};
    auto const q = body.linear(normed, "q", "q", 64, UnitSplit::units(4));
    auto const k = body.linear(normed, "k", "k", 64, UnitSplit::units(4));
    auto const v = body.linear(normed, "v", "v", 64, UnitSplit::units(4));
    auto const attended = body.attention(body.rope(q, shape), body.rope(k, shape), v, shape);
    auto const out = body.linear(attended, "out", "o", 64, Spread::partial);
    (void)body.add(body.input(), out);
    return std::move(body).finish();
}

std::int64_t saved(TrainingPlan const& plan, OpRank const& rank = {}) {
    auto const body = small_layer();
    auto const context = op_context(body, {.batch = 2, .new_tokens = 8, .context = 8, .is_training = true}, rank);
    return saved_activations(body, context, plan).count();
}

constexpr TrainingPlan eager{.attention = AttentionKind::eager};
constexpr TrainingPlan selective{.recompute = Recompute::selective};
constexpr std::int64_t value = 16 * 64 * 2;
constexpr std::int64_t scales = 16 * 4;             // one number of each row that the norm read
constexpr std::int64_t log_sums = 16 * 4 * 4;       // one of each query and head
constexpr std::int64_t matrix = 2 * 4 * 8 * 8 * 2;  // batch * heads * queries * keys

/// One case of torch's saved tensors, from tests/golden.
struct TorchCase {
    std::string model;
    std::int64_t batch = 0;
    std::int64_t context = 0;
    /// Of one layer: plain and transformers' norms with blocked attention, the same with eager attention; and beside layers.
    std::array<std::int64_t, 8> bytes{};
};

List<TorchCase> torch_cases() {
    List<TorchCase> cases;
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/saved_activations.tsv");
    std::string line;
    while (std::getline(file, line)) {
        if (line.empty() || line[0] == '#' || line.rfind("model\t", 0) == 0) continue;
        std::istringstream words(line);
        TorchCase found;
        words >> found.model >> found.batch >> found.context;
        for (auto& bytes : found.bytes) words >> bytes;
        REQUIRE(static_cast<bool>(words));
        cases.push_back(found);
    }
    return cases;
}

/// The model that the golden script made.
Model torch_model(std::string_view name) {
    ModelConfig config;
    config.vocab_size = 512;
    config.hidden_size = 128;
    config.layers = 2;
    config.heads = config.kv_heads = 8;
    config.max_positions = 2048;
    config.dtype = Dtype::bf16;
    config.intermediate_size = 448;
    config.activation = ActivationKind::silu;
    if (name == "gpt2") {
        config.intermediate_size = 512;
        config.activation = ActivationKind::gelu_new;
        config.tie_word_embeddings = true;
        return describe<Gpt2>(config).value();
    }
    config.kv_heads = 2;
    if (name == "llama") return describe<Llama>(config).value();
    config.experts = 8;
    config.experts_per_token = 2;
    return describe<Mixtral>(config).value();
}

/// What a layer keeps, and all that is none; true where no more than 3 % from `theirs`.
bool is_close(std::int64_t ours, std::int64_t theirs) {
    return std::abs(static_cast<double>(ours) / static_cast<double>(theirs) - 1.0) <= 0.03;
}

struct Kept {
    std::int64_t layer = 0;
    std::int64_t rest = 0;
};
Kept kept(TorchCase const& test, TrainingPlan const& plan) {
    auto const model = torch_model(test.model);
    auto const estimate =
        estimate_memory(model, {.batch = test.batch, .context = test.context, .training = plan}).value();
    Kept sum;
    for (auto const& module : estimate.modules) {
        if (module.role == ModuleRole::layer) sum.layer = module.activations.count();
        else sum.rest += module.activations.count();
    }
    return sum;
}

}  // namespace

TEST_CASE("saved activations: within 3 % of torch's saved tensors for llama, gpt2 and mixtral at three lengths") {
    auto const cases = torch_cases();
    REQUIRE(cases.size() == 9);
    for (auto const& test : cases) {
        CAPTURE(test.model);
        CAPTURE(test.context);
        auto const plain = kept(test, {});
        auto const copies = kept(test, {.convention = MemoryConvention::transformers});
        CAPTURE(plain.layer);
        CAPTURE(copies.layer);
        CHECK(is_close(plain.layer, test.bytes[0]));
        CHECK(is_close(plain.rest, test.bytes[1]));
        CHECK(is_close(copies.layer, test.bytes[2]));
        CHECK(is_close(copies.rest, test.bytes[3]));
    }
}

TEST_CASE("saved activations: eager attention keeps what transformers' keeps of llama and mixtral within 3 %") {
    for (auto const& test : torch_cases()) {
        if (test.model == "gpt2") continue;  // its softmax makes no copy in fp32
        CAPTURE(test.model);
        CAPTURE(test.context);
        TrainingPlan const plan{.attention = AttentionKind::eager, .convention = MemoryConvention::transformers};
        CHECK(is_close(kept(test, plan).layer, test.bytes[6]));
    }
}

TEST_CASE("saved activations: gpt2's eager attention keeps one matrix of probabilities, as torch does") {
    for (auto const& test : torch_cases()) {
        if (test.model == "gpt2") CHECK(is_close(kept(test, eager).layer, test.bytes[4]));
    }
}

TEST_CASE("saved activations: what gradients read is kept once: input, normed, q, k, v, attention") {
    CHECK(saved({}) == 6 * value + scales + log_sums);
    CHECK(saved(eager) == 6 * value + scales + matrix);
}

TEST_CASE("saved activations: selective recomputation keeps q, k and v, and what attention makes is made again") {
    CHECK(saved(selective) == 5 * value + scales);
    auto both = selective;
    both.attention = AttentionKind::eager;
    CHECK(saved(both) == saved(selective));
    auto const body = small_layer();
    auto const context = op_context(body, {.batch = 2, .new_tokens = 8, .context = 8, .is_training = true});
    CHECK(remade_activations(body, context, {}) == Bytes{0});
    CHECK(remade_activations(body, context, selective) == Bytes{value + log_sums});
    CHECK(remade_activations(body, context, both) == Bytes{value + matrix});
}

TEST_CASE("saved activations: full recomputation keeps the block's input only") {
    TrainingPlan const full{.recompute = Recompute::full};
    CHECK(saved(full) == value);
    auto const body = small_layer();
    auto const context = op_context(body, {.batch = 2, .new_tokens = 8, .context = 8, .is_training = true});
    CHECK(remade_activations(body, context, full) == Bytes{saved({}) - value});
}

TEST_CASE("saved activations: transformers' norms keep their input in fp32 and the normed rows") {
    CHECK(saved({.convention = MemoryConvention::transformers}) == saved({}) + 2 * value);
}

TEST_CASE("saved activations: ranks keep their heads, the residual whole") {
    CHECK(saved({}, {.tp = 2}) == 2 * value + scales + (4 * value + log_sums) / 2);
}

TEST_CASE("saved activations: probabilities that no memory could hold do not overflow") {
    auto const body = small_layer();
    auto const context =
        op_context(body, {.batch = 1, .new_tokens = 1LL << 33, .context = 1LL << 33, .is_training = true});
    CHECK(saved_activations(body, context, eager).count() >= std::int64_t{1} << 50U);
}

TEST_CASE("training step: it computes every token at once") {
    auto const step = training_step({.batch = 3, .context = 100}, {});
    CHECK(step.is_training);
    CHECK(step.tokens() == 300);
}
