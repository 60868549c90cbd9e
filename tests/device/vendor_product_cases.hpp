// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "activation_cases.hpp"
#include "model_cases.hpp"

#include <cstdint>
#include <string>
#include <type_traits>

// Whole models whose prompts have as many rows as the vendor's products take, and the memory of those.

namespace shardwise::testing {

/// All three requests' prompts are one step, of 22 rows.
inline constexpr std::int64_t rows_of_prompts = 22;

[[nodiscard]] inline ModelCase in_one_step(ModelCase of) {
    of.step_tokens = 24;
    return of;
}

/// What the fake vendor's library of products has done since; of real ones nothing is known.
class VendorProducts {
public:
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    /// `has_bias`: of some of them with a bias.
    void check(bool has_bias) const {
        auto const made = FakeMachine::get().calls("lt_matmul") - products_;
        CHECK(made > 0);
        CHECK(FakeMachine::get().products_with_workspace - with_workspace_ == made);
        CHECK((FakeMachine::get().calls("lt_bias") > biases_) == has_bias);
    }
    void check_none() const {
        CHECK(FakeMachine::get().calls("lt_matmul") == products_);
    }
    static void refuse(std::int64_t rows) {
        FakeMachine::get().rows_without_algorithm = rows;
    }

private:
    int products_ = FakeMachine::get().calls("lt_matmul");
    int with_workspace_ = FakeMachine::get().products_with_workspace;
    int biases_ = FakeMachine::get().calls("lt_bias");
#else
    void check(bool) const {}
    void check_none() const {}
    static void refuse(std::int64_t) {}
#endif
};

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: prompts by the vendor's products, with biases and without, give the host's tokens", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    bool const is_device = std::is_same_v<B, testing::TestDevice>;
    testing::ModelCase shared{testing::tiny_llama, 2};
    shared.comm = DeviceComm::staged;
    for (testing::ModelCase const& of : {testing::ModelCase{testing::tiny_gpt2}, shared}) {
        CAPTURE(std::string(of.config));
        testing::VendorProducts const products;
        testing::check_model<B>(testing::in_one_step(of));
        if (is_device) products.check(of.config == testing::tiny_gpt2);
    }
}

TEST_CASE("Models: prompts by the vendor's products in 16 bits move the logits by their rounding") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    for (auto const dtype : {Dtype::bf16, Dtype::f16}) {
        CAPTURE(traits(dtype).short_name);
        auto of = testing::in_one_step(testing::rounded(testing::tiny_gpt2, dtype));
        of.load = testing::held_in(dtype);
        testing::VendorProducts const products;
        (void)testing::check_rounded<TestDevice>(of);
        // That a bias cannot be added is found by asking, too.
        products.check(true);
    }
}

TEST_CASE("Models: shapes that the vendor has no algorithm for are computed by our own kernels") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::VendorProducts const products;
    testing::VendorProducts::refuse(testing::rows_of_prompts);
    testing::check_model<TestDevice>(testing::in_one_step({testing::tiny_gpt2}));
    testing::VendorProducts::refuse(-1);
    products.check_none();
}

TEST_CASE("Models: a workspace is predicted and taken where the vendor's products are, and only there") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const model(testing::tiny_gpt2);
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    REQUIRE(parameters);
    auto const predicted = [&]<class Policy>(Policy, std::int64_t step_tokens, Dtype activations,
                                             LoadOptions const& load = {}) {
        ExecutorLimits limits{2, 64, step_tokens};
        limits.activations = activations;
        auto const made = predict_memory<TestDevice, Policy>(described, formats_of(*parameters, load), {1, 0}, limits,
                                                             IsaLevel::portable);
        REQUIRE(made);
        return made->products;
    };
    auto const workspace = TestDevice::product_workspace();
    CHECK(predicted(Fast{}, 17, Dtype::f32) == workspace);
    CHECK(predicted(Fast{}, 17, Dtype::bf16, testing::held_in(Dtype::bf16)) == workspace);
    CHECK(predicted(Fast{}, 17, Dtype::f16, testing::held_in(Dtype::f16)) == workspace);
    // Of so few rows, of weights in another type than the activations, and in fixed sums our own kernels make them.
    CHECK(predicted(Fast{}, 16, Dtype::f32) == Bytes{0});
    CHECK(predicted(Fast{}, 17, Dtype::bf16) == Bytes{0});
    CHECK(predicted(Fast{}, 17, Dtype::f32, testing::held_in(Dtype::bf16)) == Bytes{0});
    CHECK(predicted(Deterministic{}, 17, Dtype::f32) == Bytes{0});
    // What a run holds is what was predicted (check_model), also where nothing is lent.
    testing::VendorProducts const products;
    auto fixed = testing::in_one_step({testing::tiny_gpt2});
    fixed.is_deterministic = true;
    testing::check_model<TestDevice>(fixed);
    products.check_none();
    // The block has place for it where layers come and go, too.
    auto fetched = testing::in_one_step({testing::deep_llama});
    fetched.new_tokens = 2;
    fetched.homes = {LayerHome::cpu, LayerHome::resident, LayerHome::disk, LayerHome::cpu, LayerHome::disk};
    testing::check_offload<TestDevice>(fetched);
}
