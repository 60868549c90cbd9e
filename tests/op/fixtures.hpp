// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/work.hpp>

#include <vector>

namespace op_test {

using namespace shardwise;

/// Values of hidden size 8: 0 the hidden state, 1 four query heads of 2, 2 two key heads of 2, 3 partial, 4 fp32
/// scores.
inline std::vector<Value> const values{
    {.name = "hidden", .width = 8},
    {.name = "q", .width = 8, .spread = Spread::sharded, .split = UnitSplit::units(4)},
    {.name = "k", .width = 4, .spread = Spread::sharded, .split = UnitSplit::kv(2, 4)},
    {.name = "out", .width = 8, .spread = Spread::partial},
    {.name = "scores", .width = 6, .is_fp32 = true},
    {.name = "routed", .rows = Rows::routed, .width = 10, .spread = Spread::sharded, .split = UnitSplit::units(10)},
    {.name = "last", .rows = Rows::sequences, .width = 8},
    {.name = "qkv", .width = 16, .spread = Spread::sharded, .split = UnitSplit::qkv(4, 2)},
};

/// Two sequences of 3 new tokens over a context of 5.
inline OpContext context(OpRank const& rank = {}) {
    return {.values = values, .step = {.batch = 2, .new_tokens = 3, .context = 5}, .rank = rank, .experts_per_token = 2,
            .experts = 6};
}

}  // namespace op_test
