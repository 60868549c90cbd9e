// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/check_kernels.hpp>
#include <shardwise/executor/check_rank.hpp>
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include "../device/fake_vendor.hpp"
#include "formula_model.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

using namespace shardwise;
using detail::KernelList;

/// The fake vendor has some of its kernels here.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
KernelList compiled_kernels<testing::FakeApi>() {
    return KernelList{"bf16,elements:bf16,heads:64"};
}
template <>
std::string_view compiled_architectures<testing::FakeApi>() {
    return "fake32";
}
template <>
Result<bool> has_device_code<testing::FakeApi>() {
    return testing::FakeMachine::get().has_code;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

namespace {

/// What a build with these kernels says of a rank of a model whose weights are in one format but for one of them.
template <class Policy = Fast>
std::string said(char const* list, Model const& model, ParameterFormat held, Dtype activations,
                 StageBlocks const& stage = {}, WeightFormat down = WeightFormat::bf16, TensorPlace place = {}) {
    auto const format_of = [&](std::string const& name) -> Result<ParameterFormat> {
        bool const is_down = name.find("layers.5.mlp.down_proj") != std::string::npos;
        return is_down ? ParameterFormat{down, 32, false} : held;
    };
    ExecutorLimits limits{.sequences = 1, .context = 16, .step_tokens = 16};
    limits.activations = activations;
    auto const checked =
        check_kernels<testing::Fake, Policy>(KernelList{list}, model, format_of, place, limits, {}, stage);
    return checked ? "" : checked.error().message();
}

}  // namespace

TEST_CASE(
    "check_kernels: a model whose kernels a build lacks is refused before it is loaded, by what is missing and the "
    "option") {
    auto const described = describe(presets::llama_3_8b);
    REQUIRE(described);
    auto const& model = *described;
    ParameterFormat const bf16{WeightFormat::bf16, 32, false};
    CHECK(said("all", model, {WeightFormat::q8_0, 32, false}, Dtype::f32).empty());
    CHECK(said("bf16,elements:bf16,heads:128", model, bf16, Dtype::bf16).empty());
    CHECK(said("bf16,elements:bf16", model, bf16, Dtype::f16) ==
          "fake: elements:fp16: activations are of this type, whose kernels were left out of this build; configure "
          "CMake with "
          "elements:fp16 in SHARDWISE_KERNELS, or with all");
    CHECK(said("bf16,heads:64", model, bf16, Dtype::bf16) ==
          "fake: heads:128: attention has heads of 128 elements, whose kernels were left out of this build; configure "
          "CMake with "
          "heads:128 in SHARDWISE_KERNELS, or with all");
    // One weight of another format, in the sixth layer alone: block 6 is that after the embedding.
    auto const mixed = said("bf16", model, bf16, Dtype::bf16, {}, WeightFormat::q6_k);
    CHECK(mixed.find("fake: q6_k: model.layers.5.mlp.down_proj.weight is held in this format") == 0);
    CHECK(mixed.find("SHARDWISE_KERNELS") != std::string::npos);
    CHECK(said("bf16", model, bf16, Dtype::bf16, {.begin = 0, .end = 6}, WeightFormat::q6_k).empty());
    CHECK_FALSE(said("bf16", model, bf16, Dtype::bf16, {.begin = 6, .end = 7}, WeightFormat::q6_k).empty());
}

TEST_CASE("check_kernels: groups of int4 are judged by the share of a weight that the rank holds") {
    // Rows of 64 and, of the second product of a layer's gate, of 96.
    testing::FormulaModel const formula(
        R"({"model_type":"llama","vocab_size":96,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":1,)"
        R"("num_attention_heads":4,"num_key_value_heads":4,"head_dim":16,"max_position_embeddings":64})");
    auto const& model = formula.checkpoint->model;
    // Block 1 is the layer, whose rows of 64 are one group each.
    StageBlocks const layer{.begin = 1, .end = 2};
    auto const asked = [&](std::int64_t group, TensorPlace place) {
        return said("int4,bf16", model, {WeightFormat::int4, group, false}, Dtype::bf16, layer, WeightFormat::bf16,
                    place);
    };
    // Groups of 80 are read where a row is one: the whole down_proj's of 96 are two, which are held as values.
    CHECK(asked(80, {1, 0}).find("fp32: model.layers.0.mlp.down_proj.weight is held in this format") !=
          std::string::npos);
    // Of two ranks the first has the group of 80, the second the 16 inputs that are left.
    for (auto const rank : {0, 1}) {
        CAPTURE(rank);
        CHECK(asked(80, {2, rank}).empty());
    }
    // A rank that holds nothing of it needs nothing.
    CHECK(asked(96, {1, 0}).empty());
    CHECK(asked(96, {2, 0}).empty());
    CHECK(asked(96, {2, 1}).empty());
    CHECK(said("bf16", model, {WeightFormat::int4, 96, false}, Dtype::bf16, layer).find("int4: ") != std::string::npos);
    // Rows of a table are as wide as the hidden state, not as the vocabulary.
    CHECK(said("int4", model, {WeightFormat::int4, 80, false}, Dtype::bf16, {.begin = 0, .end = 1}).empty());
}

TEST_CASE("check_rank: asks a back end's build for its kernels, unless they were asked for already") {
    testing::FormulaModel const model(
        R"({"model_type":"llama","vocab_size":96,"hidden_size":128,"intermediate_size":256,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":4,"head_dim":32,"max_position_embeddings":64})");
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    REQUIRE(parameters);
    ExecutorLimits limits{.sequences = 1, .context = 16, .step_tokens = 16};
    HostContext host({.threads = 1});
    auto& machine = testing::FakeMachine::get();
    auto const context = std::move(*testing::Fake::Context::open());
    auto const said = [&](Dtype activations, Dtype weights, bool was_asked = false) {
        limits.activations = activations;
        LoadOptions options;
        options.dtype = weights;
        options.has_checked_kernels = was_asked;
        auto const checked = detail::check_rank<testing::Fake, Fast>({host, *context}, described, *parameters, {},
                                                                     limits, {}, options, {});
        return checked ? "" : checked.error().message();
    };
    CHECK(said(Dtype::bf16, Dtype::bf16).empty());
    CHECK(said(Dtype::f32, Dtype::bf16).find("elements:fp32: activations are of this type") != std::string::npos);
    CHECK(said(Dtype::bf16, Dtype::f32).find("fp32: model.embed_tokens.weight is held in this format") !=
          std::string::npos);
    CHECK(said(Dtype::bf16, Dtype::f32, true).empty());
    machine.has_code = false;
    auto const elsewhere = said(Dtype::bf16, Dtype::bf16);
    auto const asked = said(Dtype::bf16, Dtype::bf16, true);
    machine.has_code = true;
    CHECK(elsewhere.find("fake:0: fake16: has no kernels in this program, which was compiled for fake32") == 0);
    CHECK(asked.empty());
}
