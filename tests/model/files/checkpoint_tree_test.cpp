// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint_tree.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"

#include <filesystem>
#include <string>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("an unknown architecture is mapped from its tensors' names, with a warning") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    tensors.push_back({"model.layers.0.mlp.gate_proj.weight.absmax", "F32", {1}, 4});
    write_model(folder, tensors, R"({"model_type": "lama", "hidden_size": 4})");
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->not_described);
    REQUIRE(checkpoint->warnings.size() == 2);
    CHECK(checkpoint->warnings[0].find("llama") != std::string::npos);
    CHECK(checkpoint->model.program.blocks().empty());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    CHECK(entries(checkpoint->model.tree).size() == tensors.size() - 1);
    CHECK(tensor_of(*checkpoint, "model.layers.2.self_attn.k_proj.weight").shape == Shape{2, 4});
    CHECK(checkpoint->model.tree.no_split_classes().size() == 1);
    // What nothing else says is guessed of the names.
    CHECK(tensor_of(*checkpoint, "model.layers.2.self_attn.k_proj.weight").use == TensorUse::attention_k);
    CHECK(tensor_of(*checkpoint, "model.layers.0.mlp.down_proj.weight").use == TensorUse::ffn_down);
    CHECK(tensor_of(*checkpoint, "model.embed_tokens.weight").use == TensorUse::embedding);

    // Without tensors there is nothing to map.
    std::filesystem::remove(folder.path("model.safetensors"));
    CHECK(read(folder.path()).error().code() == ErrorCode::unknown_name);
}

TEST_CASE("a class that its family does not describe is mapped from its tensors' names, with a warning that names it") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    tensors.push_back({"score.weight", "BF16", {2, 4}, 16});
    std::string config = tiny_llama;
    config.replace(config.find("LlamaForCausalLM"), 16, "LlamaForQuestionAnswering");
    write_model(folder, tensors, config);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->not_described);
    REQUIRE(checkpoint->warnings.size() == 2);
    CHECK(checkpoint->warnings[0] ==
          "LlamaForQuestionAnswering: architectures: is not a class of this family that can be counted; did you "
          "mean "
          "LlamaForCausalLM?");
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
}

TEST_CASE("a safetensors file alone is mapped from its names") {
    TemporaryFolder const folder;
    write_safetensors(folder.path("x.safetensors"), {{"a.weight", "F16", {2, 3}, 12}, {"b", "U8", {5}, 5}});
    auto const checkpoint = read(folder.path("x.safetensors"));
    REQUIRE(checkpoint.has_value());
    CHECK(stored_bytes(checkpoint->model.tree) == 17);
    CHECK(tensor_of(*checkpoint, "a.weight").dtype == Dtype::f16);
}

TEST_CASE("strange names of an unknown architecture stay apart") {
    TemporaryFolder const folder;
    write_safetensors(folder.path("x.safetensors"),
                      {{"a..b", "U8", {1}, 1}, {".a", "U8", {2}, 2}, {"../x", "U8", {4}, 4}});
    auto const checkpoint = read(folder.path("x.safetensors"));
    REQUIRE(checkpoint.has_value());
    CHECK(stored_bytes(checkpoint->model.tree) == 7);
}
