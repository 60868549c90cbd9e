// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/block_messages.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/body_builder.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace shardwise;

namespace {

/// Equal but for rounding, however small: seconds are.
doctest::Approx near(double value) {
    return doctest::Approx(value).scale(0.0);
}

constexpr Link nvlink{LinkType::nvlink, 300e9, 5e-6};

BlockBody const& layer_of(Model const& model) {
    for (auto const& block : model.program.blocks()) {
        if (block.is_numbered) return model.program.body(block);
    }
    return model.program.bodies().front();
}

BlockMessages messages(BlockBody const& body, Step const& step, std::int64_t tp, std::int64_t ep = 1,
                       bool is_sequence_parallel = false, bool is_table_dealt = false) {
    auto const context = op_context(body, step, {.tp = tp, .is_sequence_parallel = is_sequence_parallel});
    return block_messages(body, context,
                          {RankGroup::in_node(tp, nvlink), RankGroup::in_node(ep, nvlink), is_table_dealt});
}

double all_reduce(double bytes, std::int64_t ranks) {
    return all_reduce_seconds(bytes, RankGroup::in_node(ranks, nvlink));
}

Step const prompt{.batch = 2, .new_tokens = 100, .context = 100};
Step const training{.batch = 2, .new_tokens = 100, .context = 100, .is_training = true};

}  // namespace

// Shoeybi et al., Megatron-LM (arXiv 1909.08053), section 3: two all-reduces in a layer's forward pass, two in its
// backward pass
TEST_CASE("messages: a layer reduces attention and MLP, forwards and backwards") {
    auto const model = *describe(presets::llama_2_7b);
    auto const hidden = 2.0 * 100 * 4096 * 2;
    auto const layer = messages(layer_of(model), prompt, 4);
    CHECK(layer.forward == near(2.0 * all_reduce(hidden, 4)));
    CHECK(layer.backward == near(2.0 * all_reduce(hidden, 4)));
    CHECK(layer.routed == 0.0);
}

TEST_CASE("messages: a norm over sharded columns adds up three floats per row, in either pass") {
    auto const body_of = [](bool is_of_heads) {
        BodyBuilder body(64);
        auto const q = body.linear(body.input(), "q", "q", 64, UnitSplit::units(8));
        auto const normed =
            is_of_heads ? body.head_norm(q, NormKind::rms, "norm", 8) : body.norm(q, NormKind::rms, "norm");
        (void)body.linear(normed, "out", "out", 64, Spread::partial);
        return std::move(body).finish();
    };
    auto const heads = messages(body_of(true), prompt, 4);
    auto const all = messages(body_of(false), prompt, 4);
    CHECK(all.forward == near(heads.forward + all_reduce(12.0 * 200, 4)));
    CHECK(all.backward == near(heads.backward + all_reduce(12.0 * 200, 4)));
    auto const alone = messages(body_of(false), prompt, 1);
    CHECK(alone.forward + alone.backward == 0.0);
}

TEST_CASE("messages: one rank has none") {
    for (auto const* config : {&presets::llama_2_7b, &presets::mixtral_8x7b}) {
        auto const model = *describe(*config);
        for (auto const& body : model.program.bodies()) {
            auto const none = messages(body, training, 1);
            CHECK(none.forward + none.backward + none.routed == 0.0);
        }
    }
}

// Korthikanti et al. (arXiv 2205.05198), section 4.2.2: the same bytes as reduce-scatters and all-gathers
TEST_CASE("messages: sequence parallelism scatters and gathers instead") {
    auto const model = *describe(presets::llama_2_7b);
    auto const hidden = 2.0 * 100 * 4096 * 2;
    auto const gather = all_gather_seconds(hidden, RankGroup::in_node(4, nvlink));
    auto const layer = messages(layer_of(model), prompt, 4, 1, true);
    CHECK(layer.forward == near(4.0 * gather));
    CHECK(layer.backward == near(4.0 * gather));
}

TEST_CASE("messages: attention and MLP beside each other read one value, whose gradient is reduced once") {
    auto const model = *describe(presets::falcon_7b);
    auto const hidden = 2.0 * 100 * 4544 * 2;
    auto const layer = messages(layer_of(model), training, 2);
    CHECK(layer.forward == near(2.0 * all_reduce(hidden, 2)));
    CHECK(layer.backward == near(all_reduce(hidden, 2)));
}

TEST_CASE("messages: an embedding of sharded rows is summed, logits are gathered or scored in three sums") {
    auto const model = *describe(presets::llama_2_7b);
    auto const& embedding = model.program.body(model.program.blocks().front());
    auto const& head = model.program.body(model.program.blocks().back());
    auto const hidden = 2.0 * 100 * 4096 * 2;
    CHECK(messages(embedding, prompt, 4).forward == 0.0);
    CHECK(messages(embedding, prompt, 4, 1, false, true).forward == near(all_reduce(hidden, 4)));
    CHECK(messages(head, prompt, 4).forward ==
          near(all_gather_seconds(4.0 * 2 * 32000, RankGroup::in_node(4, nvlink))));
    CHECK(messages(head, training, 4).forward == near(3.0 * all_reduce(4.0 * 200, 4)));
    CHECK(messages(head, training, 4).backward == near(all_reduce(hidden, 4)));
}

TEST_CASE("messages: routed and shared experts are summed before one reduction") {
    auto const model = *describe(presets::qwen1_5_moe_a2_7b);
    auto const hidden = 2.0 * 100 * 2048 * 2;
    CHECK(messages(layer_of(model), prompt, 4).forward == near(2.0 * all_reduce(hidden, 4)));
}

TEST_CASE("messages: each token's rows go to its experts and come back") {
    auto const model = *describe(presets::mixtral_8x7b);
    auto const rows = 2.0 * 100 * 4096 * 2;
    auto const eight = RankGroup::in_node(8, nvlink);
    auto const layer = messages(layer_of(model), prompt, 1, 8);
    // How many rows each of the 8 experts gets goes before them.
    auto const counts = dispatch_seconds(8.0 * 8, 1, eight);
    CHECK(layer.routed == near(counts + 2.0 * dispatch_seconds(rows, 2, eight)));
    CHECK(layer.forward == 0.0);
    // Tensor-parallel ranks send a part of each row and gather the rows where they arrive.
    auto const both = messages(layer_of(model), prompt, 2, 8);
    CHECK(both.routed == near(counts + 2.0 * (dispatch_seconds(rows / 2.0, 2, eight) +
                                              all_gather_seconds(2.0 * rows, RankGroup::in_node(2, nvlink)))));
    CHECK(messages(layer_of(*describe(presets::llama_2_7b)), prompt, 1, 8).routed == 0.0);
    // Where products are in 8 bits, so are the rows that go to them; results come back in 16.
    auto const& body = layer_of(model);
    auto const context = op_context(body, prompt);
    CHECK(block_messages(body, context, {.ep = eight, .product_bits = 8.0}).routed ==
          near(counts + dispatch_seconds(rows / 2.0, 2, eight) + dispatch_seconds(rows, 2, eight)));
}
