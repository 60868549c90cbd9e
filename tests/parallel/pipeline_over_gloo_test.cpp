// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../comm/gloo_ranks.hpp"
#include "../parallel/pipeline_cases.hpp"

#include <gloo/config.h>
#include <vector>

TEST_CASE(
    "PipelineParallel: over Gloo, between forked processes, tables of every kind run and long messages do not block") {
    using namespace shardwise::testing;
    GlooBody const body = [](shardwise::Gloo& comm) { return pipelines::check_pipelines(comm); };
    for (auto const& outcome : run_gloo_ranks(std::vector<GlooBody>(3, body))) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}
