// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/check_gguf_whole.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace shardwise;

TEST_CASE("check_unused_tensors: a tensor of the model's own layers that nothing reads is refused by name") {
    auto const check = [&](std::string const& name) {
        return detail::check_unused_tensors({"rope_freqs.weight", name}, 2, "m.gguf");
    };
    for (auto const* const name : {"blk.0.attn_q_norm.weight", "blk.1.attn_output.bias", "blk.1.ffn_down.scale", "output.bias",
                                   "output_norm.bias", "token_embd_norm.weight", "position_embd.weight"}) {
        auto const refused = check(name);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::unsupported);
        CHECK(refused.error().place() == name);
    }
    // Multi-token prediction, frequencies, and what no layer has.
    for (auto const* const name : {"blk.2.nextn.eh_proj.weight", "rope_factors_long.weight", "blk.0.attn_rot_embd", "cls.weight"})
        CHECK(check(name).has_value());
}
