// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../comm/gloo_ranks.hpp"
#include "training_over_ranks.hpp"

#include <gloo/config.h>
#include <vector>

TEST_CASE("Trainer: over Gloo buckets are exchanged beside backward passes, with the losses of one rank") {
    using namespace shardwise::testing;
    for (auto const zero :
         {shardwise::ZeroStage::none, shardwise::ZeroStage::optimizer, shardwise::ZeroStage::gradients}) {
        GlooBody const body = [zero](shardwise::Gloo& comm) { return check_training(comm, zero); };
        for (auto const& outcome : run_gloo_ranks(std::vector<GlooBody>(3, body))) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
}
