// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/gradient_buckets.hpp>

#include <doctest/doctest.h>

#include "../comm/gloo_ranks.hpp"
#include "training_over_ranks.hpp"

#include <chrono>
#include <gloo/config.h>
#include <string>
#include <thread>
#include <vector>

TEST_CASE(
    "Trainer: over Gloo buckets are exchanged beside backward passes, and a rank that fails while some are under way "
    "ends the step on all") {
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

TEST_CASE("GradientBuckets: over Gloo a gradient that is ready twice while its bucket is under way ends all ranks") {
    using namespace shardwise;
    using namespace shardwise::testing;
    auto const body = [](Gloo& comm) -> Result<> {
        HostContext context{HostOptions{.threads = 1, .streams = StreamMode::queued}};
        auto stream = context.make_stream();
        List<BucketParameter> parameters;
        for (auto const* const name : {"first", "last"}) parameters.push_back({.name = name, .elements = 2'000'000});
        auto buckets = GradientBuckets<Gloo>::create(comm, context, parameters, {},
                                                     {.sizes = {.first = Bytes{1}}, .is_view = true});
        if (!buckets) return buckets.error();
        if (auto const begun = buckets->begin(); !begun) return begun;
        // Rank 1 waits in the bucket's exchange as it fails.
        if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (auto const sent = buckets->ready(1, stream); !sent) return sent;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        auto ended = buckets->ready(comm.rank() == 1 ? 1 : 0, stream);
        if (comm.rank() != 1 && ended) ended = buckets->finish(stream, Deadline::after(std::chrono::seconds(20)));
        (void)stream.synchronize(Deadline::after(std::chrono::seconds(20)));
        bool const is_told = !ended && ended.error().message().find("rank 1") != std::string::npos &&
                             ended.error().message().find("was ready twice") != std::string::npos;
        if (is_told) return {};
        return ended ? Error{ErrorCode::invalid_argument}.because("has ended well") : ended.error();
    };
    for (int i = 0; i < 3; ++i) {
        for (auto const& outcome : run_gloo_ranks(std::vector<GlooBody>(2, body))) {
            CAPTURE(outcome.message);
            CHECK(outcome.succeeded);
        }
    }
}
