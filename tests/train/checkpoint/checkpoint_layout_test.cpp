// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/sgd.hpp>

#include <doctest/doctest.h>

#include "../../executor/formula_model.hpp"

#include <set>

using namespace shardwise;
using shardwise::testing::FormulaModel;

namespace {

std::string config(std::string_view members) {
    return R"({"vocab_size":97,"hidden_size":32,"intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":4,)"
           R"("num_key_value_heads":2,"max_position_embeddings":64,"model_type":"llama",)" +
           std::string(members) + R"("architectures":["LlamaForCausalLM"]})";
}

std::set<std::string> names_of(SafetensorsLayout const& file) {
    std::set<std::string> out;
    for (auto const& tensor : file.tensors()) out.insert(tensor.name);
    return out;
}

}  // namespace

TEST_CASE("CheckpointLayout: weights in the config's dtype, with float32 beside where that is narrower") {
    FormulaModel const single(config(""));
    auto const layout = CheckpointLayout::create(single.checkpoint->model, AdamW{});
    REQUIRE(layout);
    CHECK(layout->dtype() == Dtype::f32);
    REQUIRE(layout->files().size() == 2);
    CHECK(layout->files()[0].file() == "model.safetensors");
    CHECK(layout->files()[1].file() == "optimizer.safetensors");
    CHECK(layout->index().empty());
    CHECK(names_of(layout->files()[0]).size() == 21);
    CHECK(names_of(layout->files()[1]).size() == 42);
    CHECK(layout->state("exp_avg_sq.model.layers.1.mlp.up_proj.weight"));
    CHECK_FALSE(layout->state("master.lm_head.weight"));
    CHECK_FALSE(layout->state("exp_avg.lm_head"));

    FormulaModel const half(config(R"("torch_dtype":"bfloat16",)"));
    auto const narrow = CheckpointLayout::create(half.checkpoint->model, AdamW{});
    REQUIRE(narrow);
    CHECK(narrow->tensor(narrow->weight(0)).dtype == Dtype::bf16);
    CHECK(names_of(narrow->files()[1]).size() == 63);
    auto const master = narrow->state("master.lm_head.weight");
    REQUIRE(master);
    CHECK(narrow->tensor(*master).shape == Shape{97, 32});
    CHECK(narrow->tensor(*master).dtype == Dtype::f32);

    // The states of a matrix of 3,104 elements stay floats; of one that large they are bytes with a float for each block.
    FormulaModel const wide(config(R"("head_dim":32,)"));
    auto const bytes = CheckpointLayout::create(wide.checkpoint->model, Adam8bit{});
    REQUIRE(bytes);
    auto const codes = bytes->state("exp_avg.model.layers.0.self_attn.q_proj.weight");
    REQUIRE(codes);
    CHECK(bytes->tensor(*codes).dtype == Dtype::u8);
    CHECK(bytes->tensor(*codes).shape == Shape{128, 32});
    auto const largest = bytes->state("exp_avg_absmax.model.layers.0.self_attn.q_proj.weight");
    REQUIRE(largest);
    CHECK(bytes->tensor(*largest).shape == Shape{16});
    CHECK(bytes->tensor(*bytes->state("exp_avg.lm_head.weight")).dtype == Dtype::f32);

    auto const none = CheckpointLayout::create(single.checkpoint->model, Sgd{.momentum = 0.0});
    REQUIRE(none);
    CHECK(none->files()[1].tensors().empty());
}

TEST_CASE("CheckpointLayout: above a size the weights lie in shards that an index names") {
    FormulaModel const model(config(""));
    auto const layout = CheckpointLayout::create(model.checkpoint->model, AdamW{}, 20'000);
    REQUIRE(layout);
    auto const& files = layout->files();
    REQUIRE(files.size() > 3);
    CHECK(files[0].file() == "model-00001-of-0000" + std::to_string(files.size() - 1) + ".safetensors");
    std::set<std::string> names;
    for (std::size_t i = 0; i + 1 < files.size(); ++i) {
        auto const own = names_of(files[i]);
        CHECK((own.size() == 1 || files[i].bytes() <= 20'000 + static_cast<std::int64_t>(files[i].header().size())));
        names.insert(own.begin(), own.end());
    }
    CHECK(names.size() == 21);
    CHECK(layout->index().find("\"lm_head.weight\": \"" + files[files.size() - 2].file()) != std::string::npos);
    CHECK(layout->tensors() == 63);
    CHECK(layout->number(*layout->state("exp_avg.lm_head.weight")) == 21);
}

TEST_CASE("CheckpointLayout: what it does not write is refused by name") {
    FormulaModel model(config(""));
    auto& changed = model.checkpoint->model;
    changed.config.dtype = Dtype::f64;
    auto const wide = CheckpointLayout::create(changed, AdamW{});
    REQUIRE_FALSE(wide);
    CHECK(wide.error().code() == ErrorCode::unsupported);
    CHECK(wide.error().message().find("float64") != std::string::npos);
    changed.config.dtype = Dtype::f32;
    changed.config.is_text_part = true;
    CHECK_FALSE(CheckpointLayout::create(changed, AdamW{}));
}
