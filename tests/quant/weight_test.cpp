// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/weight.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("Linear modules are known by their classes") {
    CHECK(is_linear_class("Linear"));
    CHECK(is_linear_class("FalconLinear"));
    CHECK(is_linear_class("Conv1D"));
    CHECK_FALSE(is_linear_class("Embedding"));
}

TEST_CASE("Inputs and outputs follow the layout") {
    Weight weight{.shape = {8, 3, 5}};
    CHECK(weight.inputs() == 5);
    CHECK(weight.outputs() == 3);
    weight.is_transposed = true;
    CHECK(weight.inputs() == 3);
    CHECK(weight.outputs() == 5);
    CHECK(Weight{.shape = {1, 1, 7}}.dimensions() == 1);
    CHECK(Weight{.shape = {7, 1}}.dimensions() == 2);
    CHECK(Weight{.shape = {}}.inputs() == 1);
}
