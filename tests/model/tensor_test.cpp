// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tensor.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("Tensor: bytes are packed elements rounded up, or what the file stores") {
    CHECK(Tensor{.name = "w", .shape = {3}, .dtype = Dtype::i4}.bytes() == Bytes{2});
    CHECK(Tensor{.name = "w", .shape = {}, .dtype = Dtype::bf16}.bytes() == Bytes{2});
    CHECK(Tensor{.name = "w", .shape = {3}, .dtype = Dtype::f32, .stored_bytes = 7}.bytes() == Bytes{7});
    CHECK(Tensor{.name = "w", .shape = {3, 1}}.is_matrix());
    CHECK(!Tensor{.name = "w", .shape = {3}}.is_matrix());
}
