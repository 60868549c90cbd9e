// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/join_residual_norms.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What is wrong with a block is said when it is bound, in the words of the kernels that it would have gone to.
namespace {

using namespace shardwise;
using HostBlock = HeldBlock<Host, Fast>;

std::array<std::byte, 256> memory{};

BoundValue of_width(std::int64_t width) {
    return {memory.data(), width, Rows::tokens};
}

/// The message for one operation that reads values of some widths and makes another; "fits" where there is nothing to say.
std::string message_of(Operation const& op, HeldOperation<Host, Fast> held, std::vector<std::int64_t> const& inputs,
                       std::int64_t output, KvCache<Host> const& cache = {}, StepRotations<Host> const& rotations = {},
                       std::size_t layer = 0) {
    std::vector<HostBlock> blocks(1);
    BoundOperation<Host, Fast> bound;
    bound.op = &op;
    bound.cache_layer = layer;
    bound.held = std::move(held);
    for (std::size_t i = 0; i < inputs.size(); ++i) bound.inputs[i] = of_width(inputs[i]);
    bound.output = of_width(output);
    blocks[0].operations.push_back(std::move(bound));
    auto const fits = detail::check_bound<Host, Fast>(blocks, cache, rotations);
    return fits ? "fits" : fits.error().message();
}

bool says(std::string const& message, std::string const& part) {
    return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("check_bound: addends, norms and activations fit between their values, or say why not") {
    Operation add;
    add.kind = OpKind::add;
    CHECK(message_of(add, {}, {8, 8}, 8) == "fits");
    CHECK(says(message_of(add, {}, {8, 6}, 8), "add: the addends differ in width"));
    CHECK(says(message_of(add, {}, {8, 8}, 6), "add: the output is not as wide as the input"));

    HostContext context({.threads = 1});
    Operation norm;
    norm.kind = OpKind::norm;
    auto const of_norm = [&](std::int64_t width, std::int64_t weights, bool is_layer, std::int64_t shifts = 0) {
        HeldNorm<Host> held;
        held.weight = *Buffer<float, Host>::allocate(context, weights);
        held.bias = *Buffer<float, Host>::allocate(context, shifts);
        held.width = width;
        held.is_layer = is_layer;
        return HeldOperation<Host, Fast>{std::move(held)};
    };
    CHECK(message_of(norm, of_norm(8, 8, false), {8}, 8) == "fits");
    // Heads are rows.
    CHECK(message_of(norm, of_norm(4, 4, false), {8}, 8) == "fits");
    CHECK(says(message_of(norm, of_norm(8, 6, false), {8}, 8), "rms_norm: the parameters are not as wide as a row"));
    CHECK(says(message_of(norm, of_norm(8, 8, true, 6), {8}, 8), "layer_norm: the bias is not as wide as a row"));
    CHECK(says(message_of(norm, of_norm(8, 8, false), {8}, 6), "rms_norm: the output is not as wide as the input"));
    auto const of_heads = [&](std::int64_t width, std::int64_t weights) {
        auto held = of_norm(width, weights, true);
        std::get<HeldNorm<Host>>(held).has_head_weights = true;
        return held;
    };
    CHECK(message_of(norm, of_heads(4, 8), {8}, 8) == "fits");
    CHECK(says(message_of(norm, of_heads(4, 4), {8}, 8), "norm: does not have a weight for each head"));
    CHECK(says(message_of(norm, of_heads(3, 8), {8}, 8), "norm: does not have a weight for each head"));
    CHECK(says(message_of(norm, of_heads(4, 8), {8}, 4), "norm: does not have a weight for each head"));

    Operation activation;
    activation.kind = OpKind::activation;
    activation.details = ActivationKind::silu;
    auto const of_form = [](ActivationForm form) {
        HeldActivation<Host> held;
        held.form = form;
        return HeldOperation<Host, Fast>{std::move(held)};
    };
    CHECK(message_of(activation, of_form(ActivationForm::one), {8}, 8) == "fits");
    CHECK(message_of(activation, of_form(ActivationForm::pair), {8, 8}, 8) == "fits");
    CHECK(message_of(activation, of_form(ActivationForm::halves), {16}, 8) == "fits");
    CHECK(says(message_of(activation, of_form(ActivationForm::one), {6}, 8), "activation: the output is not as wide"));
    CHECK(says(message_of(activation, of_form(ActivationForm::pair), {8, 6}, 8), "is not as wide as the gate"));
    CHECK(
        says(message_of(activation, of_form(ActivationForm::halves), {14}, 8), "gated_activation: the output is not"));
    CHECK(message_of(activation, of_form(ActivationForm::one_gate), {1, 8}, 8) == "fits");
    CHECK(says(message_of(activation, of_form(ActivationForm::one_gate), {2, 8}, 8), "gate: does not have one number"));
    CHECK(says(message_of(activation, of_form(ActivationForm::one_gate), {1, 8}, 6), "scale_rows: the output is not"));
    activation.details = ActivationKind::xielu;
    CHECK(says(message_of(activation, of_form(ActivationForm::pair), {8, 8}, 8), "xielu"));
    CHECK(says(message_of(activation, of_form(ActivationForm::xielu), {8}, 8), "numbers: are not alpha_p"));
}

TEST_CASE("check_bound: scaled, cut, looked up and chosen rows fit between their values, or say why not") {
    auto const of_kind = [](OpKind kind) {
        Operation op;
        op.kind = kind;
        return op;
    };
    CHECK(message_of(of_kind(OpKind::scale), {}, {8}, 8) == "fits");
    CHECK(says(message_of(of_kind(OpKind::scale), {}, {8}, 6), "scale: the output is not as wide as the input"));

    // Of heads of 6 columns the last 4.
    auto part = of_kind(OpKind::part);
    part.in_features = 6;
    part.out_features = 4;
    part.details = PartColumns{2};
    CHECK(message_of(part, {}, {12}, 8) == "fits");
    CHECK(says(message_of(part, {}, {11}, 8), "part: the input does not have the columns"));
    CHECK(says(message_of(part, {}, {12}, 6), "part: the input does not have the columns"));
    part.details = PartColumns{3};
    CHECK(says(message_of(part, {}, {12}, 8), "part: the input does not have the columns"));

    auto embedding = of_kind(OpKind::embedding);
    embedding.out_features = 8;
    CHECK(message_of(embedding, HeldTable<Host>{}, {1}, 8) == "fits");
    CHECK(says(message_of(embedding, HeldTable<Host>{}, {1}, 6), "embedding: the output is not as wide as the table"));

    CHECK(message_of(of_kind(OpKind::last_token), {}, {8}, 8) == "fits");
    CHECK(says(message_of(of_kind(OpKind::last_token), {}, {8}, 6), "take_rows: the output is not as wide"));
    CHECK(message_of(of_kind(OpKind::combine), {}, {8, 4}, 8) == "fits");
    CHECK(says(message_of(of_kind(OpKind::combine), {}, {8, 4}, 6), "combine_rows: the output is not as wide"));

    HostContext context({.threads = 1});
    auto const router = [&](std::int64_t chosen, std::int64_t corrected) {
        HeldRouter<Host> held{*Buffer<float, Host>::allocate(context, corrected), {}};
        held.options.experts_per_token = chosen;
        return HeldOperation<Host, Fast>{std::move(held)};
    };
    auto const route = of_kind(OpKind::route);
    CHECK(message_of(route, router(2, 0), {8}, 4) == "fits");
    CHECK(says(message_of(route, router(2, 0), {8}, 6), "do not have a column per chosen expert"));
    CHECK(says(message_of(route, router(2, 7), {8}, 4), "the correction has another number of experts"));
}

TEST_CASE("check_bound: a gated delta rule has the columns and the state of its heads") {
    HostContext context({.threads = 1});
    DeltaShape const shape{.key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4, .kernel = 2};
    std::vector<KvLayer> const layers{{.state = shape.state_elements(1)}, {.state = shape.state_elements(1) + 1}};
    auto const cache = KvCache<Host>::create(context, layers, {.sequences = 1, .context = 16, .step_tokens = 16});
    REQUIRE(cache);
    Operation delta;
    delta.kind = OpKind::gated_delta;
    auto const held = [&] {
        HeldDelta<Host> of;
        of.shape = shape;
        return HeldOperation<Host, Fast>{std::move(of)};
    };
    auto const width = shape.channels() + shape.value_columns();
    CHECK(message_of(delta, held(), {width, 4}, 8, *cache) == "fits");
    CHECK(says(message_of(delta, held(), {width - 1, 4}, 8, *cache), "gated_delta: in: does not have the size"));
    CHECK(says(message_of(delta, held(), {width, 3}, 8, *cache), "gated_delta: ba: does not have the size"));
    CHECK(says(message_of(delta, held(), {width, 4}, 7, *cache), "gated_delta: out: does not have the size"));
    CHECK(says(message_of(delta, held(), {width, 4}, 8, *cache, {}, 1), "gated_delta: state: does not have the size"));
}

TEST_CASE("join_residual_norms: a norm adds what the addition before it does, where the values lie so") {
    // Addend, residual (the sum is made in its place) and what the norm makes, of 64 bytes each.
    Operation add;
    add.kind = OpKind::add;
    add.inputs = {0, 1};
    add.output = 1;
    Operation norm;
    norm.kind = OpKind::norm;
    norm.inputs[0] = 1;
    norm.output = 2;
    struct Case {
        std::array<std::int64_t, 3> places;
        std::int64_t normalised = 16;
        bool is_layer = false;
        bool is_swapped = false;
    };
    auto const joined = [&](Case const& of) {
        ActivationPlan plan;
        for (std::int64_t id = 0; id < 3; ++id) {
            plan.item_of.push_back(id);
            plan.items.push_back({.size = Bytes{64}});
            plan.layout.offsets.push_back(Bytes{of.places[static_cast<std::size_t>(id)]});
        }
        auto const at = [&](std::size_t id) { return BoundValue{memory.data() + of.places[id], 16, Rows::tokens}; };
        auto from = add;
        if (of.is_swapped) from.inputs = {1, 0};
        HostBlock block;
        block.operations.resize(2);
        block.operations[0].op = &from;
        block.operations[0].inputs = {at(of.is_swapped ? 1 : 0), at(of.is_swapped ? 0 : 1)};
        block.operations[0].output = at(1);
        HeldNorm<Host> held;
        held.width = of.normalised;
        held.is_layer = of.is_layer;
        block.operations[1].op = &norm;
        block.operations[1].held = std::move(held);
        block.operations[1].inputs[0] = at(1);
        block.operations[1].output = at(2);
        detail::join_residual_norms(block, plan);
        auto const& addend = block.operations[1].addend;
        CHECK(block.operations[0].is_joined == (addend.width > 0));
        return addend.width == 0 ? -1 : addend.data - memory.data();
    };
    CHECK(joined({{0, 64, 128}}) == 0);
    CHECK(joined({{128, 0, 64}, 16, false, true}) == 128);
    // What the norm makes may lie where the addend did, but for rows that others still read.
    CHECK(joined({{128, 0, 128}}) == 128);
    CHECK(joined({{128, 0, 96}}) == -1);
    // The norm writes over the sum; a norm of heads; another kind.
    CHECK(joined({{0, 64, 64}}) == -1);
    CHECK(joined({{0, 64, 128}, 8}) == -1);
    CHECK(joined({{0, 64, 128}, 16, true}) == -1);
}

TEST_CASE("check_bound: rows of tokens and rows of sequences do not meet in an operation") {
    auto const message = [](OpKind kind, HeldOperation<Host, Fast> held, std::vector<Rows> const& inputs, Rows output) {
        Operation op;
        op.kind = kind;
        if (kind == OpKind::activation) op.details = ActivationKind::silu;
        if (kind == OpKind::attention || kind == OpKind::rope) op.details = AttentionShape{};
        std::vector<HostBlock> blocks(1);
        BoundOperation<Host, Fast> bound;
        bound.op = &op;
        bound.held = std::move(held);
        for (std::size_t i = 0; i < inputs.size(); ++i) bound.inputs[i] = {memory.data(), 8, inputs[i]};
        bound.output = {memory.data(), 8, output};
        blocks[0].operations.push_back(std::move(bound));
        auto const fits = detail::check_bound<Host, Fast>(blocks, KvCache<Host>{}, StepRotations<Host>{});
        return fits ? std::string("fits") : fits.error().message();
    };
    auto const of = Rows::tokens;
    auto const last = Rows::sequences;
    CHECK(message(OpKind::add, {}, {last, last}, last) == "fits");
    CHECK(says(message(OpKind::add, {}, {of, last}, of), "add: has values with a row for each token"));
    CHECK(says(message(OpKind::add, {}, {last, of}, last), "add: has values with a row for each token"));
    HeldActivation<Host> gate;
    gate.form = ActivationForm::pair;
    CHECK(says(message(OpKind::activation, {std::move(gate)}, {of, last}, of), "activation: has values with a row"));
    CHECK(says(message(OpKind::attention, {HeldAttention<Host>{}}, {of, of, last}, of), "attention: has values with"));
    CHECK(says(message(OpKind::attention, {HeldAttention<Host>{}}, {last, last, last}, last), "attention: has values"));
    CHECK(says(message(OpKind::rope, {HeldRope{}}, {last}, last), "rope: has values with a row for each token"));
}

TEST_CASE("check_bound: experts' rows and logits have the columns of their rank") {
    auto experts = Operation{};
    experts.kind = OpKind::experts;
    auto const rows = [](TensorPlace place) {
        return HeldOperation<Host, Fast>{ExpertRows<Host, Fast>({12, 3, 4}, place, 8)};
    };
    CHECK(message_of(experts, rows({1, 0}), {12, 4}, 8) == "fits");
    CHECK(message_of(experts, rows({2, 0}), {6, 4}, 8) == "fits");
    CHECK(says(message_of(experts, rows({2, 1}), {12, 4}, 8), "expert_rows: input and output do not have"));
    CHECK(says(message_of(experts, rows({1, 0}), {12, 4}, 6), "expert_rows: input and output do not have"));

    HostContext context({.threads = 1});
    auto linear = Operation{};
    linear.kind = OpKind::linear;
    std::vector<std::byte> const weight(5 * 4 * sizeof(float));
    auto const logits = [&](std::int64_t vocabulary, TensorPlace place) {
        UnitRange const all[] = {{0, 5}};
        auto product = ColumnLinear<Host>::create(
            context, {.format = WeightFormat::f32, .outputs = 5, .inputs = 4, .data = weight, .scales = {}}, all);
        REQUIRE(product);
        return HeldOperation<Host, Fast>{HeldLogits<Host>{std::move(*product), vocabulary, place}};
    };
    CHECK(message_of(linear, logits(5, {1, 0}), {4}, 5) == "fits");
    CHECK(message_of(linear, logits(9, {2, 0}), {4}, 5) == "fits");
    CHECK(says(message_of(linear, logits(9, {2, 0}), {3}, 5), "column_linear: input and output do not have"));
    CHECK(says(message_of(linear, logits(9, {2, 1}), {4}, 5), "gather_logits: the input is not this rank's share"));
}

TEST_CASE("check_bound: what enters the cache is as wide as its layers, and whole heads rotate") {
    HostContext context({.threads = 1});
    std::vector<KvLayer> const layers{{2, 4, 6}};
    auto const cache = KvCache<Host>::create(context, layers, {.sequences = 1, .context = 16, .step_tokens = 16});
    REQUIRE(cache);
    Operation attention;
    attention.kind = OpKind::attention;
    auto const of_heads = [](bool is_fused) {
        HeldAttention<Host> held;
        held.options.shape = {.heads = 2, .kv_heads = 2, .key_dim = 4, .value_dim = 6};
        held.share = {{0, 2}, {0, 2}, 1};
        held.is_fused = is_fused;
        return HeldOperation<Host, Fast>{std::move(held)};
    };
    CHECK(message_of(attention, of_heads(false), {8, 8, 12}, 12, *cache) == "fits");
    CHECK(message_of(attention, of_heads(true), {28, 28, 28}, 12, *cache) == "fits");
    CHECK(says(message_of(attention, of_heads(false), {8, 6, 12}, 12, *cache), "keys"));
    CHECK(says(message_of(attention, of_heads(false), {8, 8, 8}, 12, *cache), "values"));
    CHECK(
        says(message_of(attention, of_heads(false), {6, 8, 12}, 12, *cache), "attention: the queries are not as wide"));
    CHECK(says(message_of(attention, of_heads(false), {8, 8, 12}, 8, *cache), "attention: the output is not as wide"));
    CHECK(says(message_of(attention, of_heads(true), {27, 27, 27}, 12, *cache),
               "attention: the queries are not as wide"));
    auto const of_scores = [&](std::int64_t numbers, bool is_by_distance, float scale = 0.0F) {
        auto of = of_heads(false);
        auto& held = std::get<HeldAttention<Host>>(of);
        held.per_head = *Buffer<float, Host>::allocate(context, numbers);
        held.is_by_distance = is_by_distance;
        held.options.scale = scale;
        return message_of(attention, std::move(of), {8, 8, 12}, 12, *cache);
    };
    CHECK(of_scores(2, false) == "fits");
    CHECK(says(of_scores(3, false), "attention: each head needs a sink"));
    CHECK(says(of_scores(3, true), "attention: each head needs a slope"));
    CHECK(says(of_scores(2, true, -1.0F), "attention: scale: must be at least 0"));

    std::vector<KvLayer> const latents{{1, 5, 0}};
    auto const latent_cache =
        KvCache<Host>::create(context, latents, {.sequences = 1, .context = 16, .step_tokens = 16});
    REQUIRE(latent_cache);
    auto const latent = [&](std::int64_t queries, std::int64_t columns, std::int64_t output) {
        HeldAttention<Host> held;
        held.options.shape = {.heads = 4, .kv_heads = 4, .key_dim = 6, .value_dim = 3, .latent = 5, .rotary = 2};
        // A rank's two of four heads.
        held.share = {{2, 4}, {2, 4}, 1};
        return message_of(attention, {std::move(held)}, {queries, columns}, output, *latent_cache);
    };
    CHECK(latent(12, 5, 6) == "fits");
    CHECK(says(latent(11, 5, 6), "latent_heads: queries or output are not as wide as the heads"));
    CHECK(says(latent(12, 5, 8), "latent_heads: queries or output are not as wide as the heads"));
    CHECK(says(latent(12, 4, 6), "keys: are not as wide as the layer's"));

    ModelConfig config;
    StepRotations<Host> rotations;
    AttentionShape const shape{.heads = 2, .kv_heads = 2, .key_dim = 4, .value_dim = 4};
    REQUIRE(rotations.add(context, config, shape, 16, {}));
    Operation rope;
    rope.kind = OpKind::rope;
    auto const of_columns = [](std::int64_t columns, std::int64_t head_dim) {
        HeldRope held;
        held.columns = columns;
        held.heads.head_dim = head_dim;
        return HeldOperation<Host, Fast>{held};
    };
    CHECK(message_of(rope, of_columns(8, 4), {8}, 8, {}, rotations) == "fits");
    CHECK(says(message_of(rope, of_columns(6, 4), {6}, 6, {}, rotations), "rope: a row is not made of whole heads"));
    CHECK(says(message_of(rope, of_columns(8, 2), {8}, 8, {}, rotations), "rope: more elements turn than a head has"));
}

TEST_CASE(
    "check_bound: a rotation of no elements leaves heads as they are, as in transformers; one of an odd number is "
    "refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    ModelConfig config;
    config.rope.partial_rotary_factor = 0.2;
    StepRotations<Host> rotations;
    // Of 4 elements none, of 8 one.
    AttentionShape const four{.heads = 2, .kv_heads = 2, .key_dim = 4, .value_dim = 4};
    REQUIRE(rotations.add(context, config, four, 16, {}));
    REQUIRE(rotations.allocate(context, 1));
    RotatedHeads const heads{.head_dim = 4};
    REQUIRE(rotations.check(0, 8, heads));
    auto table = *StepTable<Host>::create(context, {});
    std::int32_t const id = 1;
    StepSequence const sequence{.past = 5, .rows = 1};
    REQUIRE(table.write({.ids = {&id, 1}, .sequences = {&sequence, 1}}, stream));
    REQUIRE(rotations.prepare(table, stream));
    std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
    REQUIRE(rotations.rotate(0, TensorView<float, 2, Host>(values.data(), {1, 8}), table, heads, stream));
    CHECK(values == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
    AttentionShape const eight{.heads = 2, .kv_heads = 2, .key_dim = 8, .value_dim = 8};
    auto const odd = rotations.add(context, config, eight, 16, {});
    REQUIRE_FALSE(odd);
    CHECK(says(odd.error().message(), "rope: partial_rotary_factor: rotates an odd number of a head's elements"));
}
