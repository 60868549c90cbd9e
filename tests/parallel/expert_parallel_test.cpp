// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/expert_parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
}

/// Tokens of all ranks together, sharded by split_units: everything is a function of the token's number.
struct Job {
    ExpertShape shape;
    std::int64_t tokens = 0;
    /// All tokens choose the first experts.
    bool is_skewed = false;

    [[nodiscard]] std::int32_t id(std::int64_t token, std::int64_t i) const {
        auto const first = is_skewed ? 0 : token * 7 + token / 3;
        return static_cast<std::int32_t>((first + i * (is_skewed ? 1 : 2)) % shape.experts);
    }
    [[nodiscard]] static float weight(std::int64_t token, std::int64_t i) {
        return 0.3F + 0.1F * static_cast<float>((token + i) % 5);
    }
    [[nodiscard]] static float value(std::int64_t token, std::int64_t c) {
        return 0.01F * static_cast<float>((token * 13 + c * 5) % 97) - 0.4F;
    }
    /// What expert `e` makes of a value.
    [[nodiscard]] static float apply(std::int64_t e, float x, std::int64_t c) {
        return x * (1.0F + 0.25F * static_cast<float>(e)) - 0.125F * static_cast<float>(c);
    }
    [[nodiscard]] float result(std::int64_t token, std::int64_t c) const {
        auto sum = 0.0F;
        for (std::int64_t i = 0; i < shape.experts_per_token; ++i)
            sum += weight(token, i) * apply(id(token, i), value(token, c), c);
        return sum;
    }
};

void check(Job const& job, std::int32_t ranks, std::int64_t experts_with_gaps = 0) {
    CAPTURE(ranks);
    CAPTURE(job.tokens);
    std::atomic<std::int64_t> pairs{0};
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto const own = split_units(job.tokens, comm.size(), comm.rank());
        auto shape = job.shape;
        shape.max_tokens = split_units(job.tokens, comm.size(), 0).size();
        auto layer = ExpertParallel<Host, Threads>::create(context, comm, shape);
        if (!layer) return layer.error();
        CHECK(context.memory().current() == layer->bytes());
        CHECK(ExpertParallel<Host, Threads>::bytes_for(shape, comm.size(), comm.rank()).value() == layer->bytes());
        auto const width = shape.width;
        auto const chosen = shape.experts_per_token;
        std::vector<float> rows(static_cast<std::size_t>(own.size() * width) + 1);
        std::vector<float> weights(static_cast<std::size_t>(own.size() * chosen) + 1);
        std::vector<std::int32_t> ids(weights.size());
        for (std::int64_t t = 0; t < own.size(); ++t) {
            for (std::int64_t c = 0; c < width; ++c)
                rows[static_cast<std::size_t>(t * width + c)] = Job::value(own.begin + t, c);
            for (std::int64_t i = 0; i < chosen; ++i) {
                weights[static_cast<std::size_t>(t * chosen + i)] = Job::weight(own.begin + t, i);
                ids[static_cast<std::size_t>(t * chosen + i)] = job.id(own.begin + t, i);
            }
        }
        // By expert, then by token.
        std::vector<float> pair_rows(static_cast<std::size_t>(own.size() * chosen * width) + 1);
        std::size_t next = 0;
        for (std::int64_t e = 0; e < shape.experts; ++e) {
            for (std::int64_t pair = 0; pair < own.size() * chosen; ++pair) {
                if (ids[static_cast<std::size_t>(pair)] != e) continue;
                for (std::int64_t c = 0; c < width; ++c)
                    pair_rows[next++] = rows[static_cast<std::size_t>(pair / chosen * width + c)];
            }
        }
        std::int64_t calls = 0;
        auto const expert = [&](std::int64_t local, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                HostStream&) -> Result<> {
            ++calls;
            auto const e = layer->local_experts().begin + local;
            for (std::int64_t r = 0; r < in.extent(0); ++r) {
                for (std::int64_t c = 0; c < width; ++c) out.row(r)[c] = Job::apply(e, in.row(r)[c], c);
            }
            return {};
        };
        TensorView<float, 2, Host> const view(rows.data(), {own.size(), width});
        auto const ran = layer->forward(view, TensorView<std::int32_t, 2, Host>(ids.data(), {own.size(), chosen}),
                                        TensorView<float, 2, Host>(weights.data(), {own.size(), chosen}), view, expert,
                                        stream, soon());
        if (!ran) return ran;
        // One call per expert that has rows.
        CHECK(calls <= layer->local_experts().size() - experts_with_gaps);
        pairs += layer->pairs_computed();
        auto const check_results = [&] {
            for (std::int64_t t = 0; t < own.size(); ++t) {
                for (std::int64_t c = 0; c < width; ++c)
                    CHECK(rows[static_cast<std::size_t>(t * width + c)] == job.result(own.begin + t, c));
            }
        };
        check_results();
        // Of a row for each pair the same.
        std::fill(rows.begin(), rows.end(), -1.0F);
        TensorView<float const, 2, Host> const all(pair_rows.data(), {own.size() * chosen, width});
        auto const again = layer->forward(all, TensorView<std::int32_t, 2, Host>(ids.data(), {own.size(), chosen}),
                                          TensorView<float, 2, Host>(weights.data(), {own.size(), chosen}), view,
                                          expert, stream, soon(), ExpertInput::of_pairs);
        if (!again) return again;
        check_results();
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    CHECK(pairs == job.tokens * job.shape.experts_per_token);
}

TEST_CASE("ExpertParallel: the same bits for any number of ranks, each pair computed once") {
    for (std::int32_t const ranks : {1, 2, 3, 4, 8}) {
        check({{8, 2, 5}, 13}, ranks);
        check({{5, 3, 4}, 7}, ranks);
        check({{8, 8, 3}, 4}, ranks);
    }
}

TEST_CASE("ExpertParallel: no row is dropped where all tokens choose one rank's experts") {
    for (std::int32_t const ranks : {2, 4}) check({{8, 2, 4}, 32, true}, ranks);
}

TEST_CASE("ExpertParallel: ranks without tokens and ranks without experts take part") {
    check({{4, 2, 3}, 0}, 3);
    check({{4, 2, 3}, 1}, 3);
    check({{2, 1, 3}, 9}, 4);
}

TEST_CASE("ExpertParallel: what cannot be is refused on every rank") {
    auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        using Layer = ExpertParallel<Host, Threads>;
        auto const greedy = Layer::create(context, comm, {4, 5, 3, 2});
        REQUIRE_FALSE(greedy);
        CHECK(greedy.error().message().find("experts_per_token") != std::string::npos);
        auto const message_of = [&](ExpertShape const& shape) {
            auto const layer = Layer::create(context, comm, shape);
            return layer ? std::string() : layer.error().message();
        };
        CHECK(message_of({0, 1, 3, 2}) ==
              "expert parallelism: experts: are less than one (got 0, expected at least 1)");
        CHECK(message_of({4, 1, 0, 2}) == "expert parallelism: width: is less than one (got 0, expected at least 1)");
        CHECK(message_of({4, 1, 3, -2}) ==
              "expert parallelism: max_tokens: are less than none (got -2, expected at least 0)");
        auto const huge = Layer::create(context, comm, {4, 2, std::int64_t{1} << 40, std::int64_t{1} << 40});
        REQUIRE_FALSE(huge);
        CHECK(huge.error().code() == ErrorCode::size_overflow);
        CHECK(huge.error().message().find("max_tokens: and a width give rows of more bytes") != std::string::npos);

        auto layer = Layer::create(context, comm, {4, 1, 2, 1});
        REQUIRE(layer);
        std::vector<float> row{1, 2};
        std::vector<float> weight{1};
        std::vector<std::int32_t> id{comm.rank() == 1 ? 4 : 0};
        auto const copy = [](std::int64_t, TensorView<float const, 2, Host>, TensorView<float, 2, Host>, HostStream&) {
            return Result<>{};
        };
        TensorView<float, 2, Host> const view(row.data(), {1, 2});
        auto const ran = layer->forward(view, TensorView<std::int32_t, 2, Host>(id.data(), {1, 1}),
                                        TensorView<float, 2, Host>(weight.data(), {1, 1}), view, copy, stream, soon());
        REQUIRE_FALSE(ran);
        CHECK(ran.error().message().find("name no expert (got 4, expected 0 to 3)") != std::string::npos);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

TEST_CASE("ExpertParallel: tokens that name one expert twice are refused where their rows have no room") {
    auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        // A rank holds one of the two experts: room for one row per token.
        auto layer = ExpertParallel<Host, Threads>::create(context, comm, {2, 2, 3, 4});
        REQUIRE(layer);
        std::vector<float> rows(12, 1.0F);
        std::vector<float> const weights(8, 0.5F);
        std::vector<std::int32_t> const ids(8, 0);
        auto const copy = [](std::int64_t, TensorView<float const, 2, Host>, TensorView<float, 2, Host>, HostStream&) {
            return Result<>{};
        };
        TensorView<float, 2, Host> const view(rows.data(), {4, 3});
        auto const ran =
            layer->forward(view, TensorView<std::int32_t const, 2, Host>(ids.data(), {4, 2}),
                           TensorView<float const, 2, Host>(weights.data(), {4, 2}), view, copy, stream, soon());
        REQUIRE_FALSE(ran);
        CHECK(ran.error().code() == ErrorCode::capacity_exceeded);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

}  // namespace
