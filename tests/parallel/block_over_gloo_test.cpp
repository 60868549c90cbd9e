// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../comm/gloo_ranks.hpp"
#include "../parallel/block_cases.hpp"

#include <gloo/config.h>
#include <vector>

TEST_CASE("communicators: a deterministic block has the same bits over Gloo as alone") {
    using namespace shardwise::testing;
    GlooBody const body = [](shardwise::Gloo& comm) { return check_deterministic_block(comm); };
    for (std::size_t const ranks : {2U, 3U}) {
        for (auto const& outcome : run_gloo_ranks(std::vector<GlooBody>(ranks, body))) {
            CAPTURE(outcome.message);
            CHECK(outcome.has_answered);
            CHECK(outcome.succeeded);
        }
    }
}
