// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
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
using Block = HeldBlock<Host, Fast>;

std::array<std::byte, 256> memory{};

BoundValue of_width(std::int64_t width) {
    return {memory.data(), width, Rows::tokens};
}

/// The message for one operation that reads values of some widths and makes another; "fits" where there is nothing to say.
std::string message_of(Operation const& op, HeldOperation<Host, Fast> held, std::vector<std::int64_t> const& inputs,
                       std::int64_t output, KvCache<Host> const& cache = {},
                       StepRotations<Host> const& rotations = {}) {
    std::vector<Block> blocks(1);
    BoundOperation<Host, Fast> bound;
    bound.op = &op;
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

    Operation activation;
    activation.kind = OpKind::activation;
    activation.activation = ActivationKind::silu;
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
    activation.activation = ActivationKind::xielu;
    CHECK(says(message_of(activation, of_form(ActivationForm::pair), {8, 8}, 8), "xielu"));
}

TEST_CASE("check_bound: rows of tokens and rows of sequences do not meet in an operation") {
    auto const message = [](OpKind kind, HeldOperation<Host, Fast> held, std::vector<Rows> const& inputs, Rows output) {
        Operation op;
        op.kind = kind;
        op.activation = ActivationKind::silu;
        std::vector<Block> blocks(1);
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
