// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/collectives.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

#include <numeric>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("collectives: in a queued stream they stand between what is before and after them") {
    constexpr std::int32_t ranks = 3;
    auto const made = on_ranks(
        ranks,
        [](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            Floats values(4);
            auto const set = [&values, &comm] {
                std::fill(values.begin(), values.end(), static_cast<float>(comm.rank() + 1));
                return Result<>{};
            };
            auto const doubled = [&values] {
                for (auto& value : values) value *= 2.0F;
                return Result<>{};
            };
            stream.submit(set);
            submit_all_reduce(comm, vector(values), ReduceOp::sum, stream);
            stream.submit(doubled);
            submit_all_reduce(comm, vector(values), ReduceOp::max, stream);
            if (auto const finished = finish(stream); !finished) return finished.error();
            return values;
        },
        StreamMode::queued);
    REQUIRE(made);
    for (auto const& each : *made) CHECK(each == Floats(4, 12.0F));
}

TEST_CASE("collectives: a failed one stops the stream, whose synchronize says why") {
    for (auto const mode : {StreamMode::immediate, StreamMode::queued}) {
        auto const done = on_ranks(
            2,
            [](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
                // The ranks bring different numbers of values.
                Floats values(static_cast<std::size_t>(3 + comm.rank()));
                bool is_behind_run = false;
                submit_all_reduce(comm, vector(values), ReduceOp::sum, stream);
                stream.submit([&is_behind_run] {
                    is_behind_run = true;
                    return Result<>{};
                });
                auto const finished = finish(stream);
                if (finished || is_behind_run) return Error{ErrorCode::invalid_argument}.in("the failure was not seen");
                return finished.error();
            },
            mode);
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::collective_mismatch);
    }
}

TEST_CASE("gather_tokens: every rank gets all rows, also where it has none of its own") {
    constexpr std::int64_t width = 3;
    for (std::int64_t const tokens : {0, 2, 7}) {
        Floats all(index(tokens * width));
        std::iota(all.begin(), all.end(), 0.0F);
        for (std::int32_t const ranks : {1, 2, 4}) {
            CAPTURE(tokens);
            CAPTURE(ranks);
            auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
                auto const own = split_units(tokens, ranks, comm.rank());
                Floats out(all.size(), -1.0F);
                auto const rows = matrix(std::as_const(all), tokens, width).rows(own.begin, own.size());
                auto const gathered = gather_tokens<Host>(comm, rows, matrix(out, tokens, width), stream);
                if (!gathered) return gathered.error();
                if (auto const finished = finish(stream); !finished) return finished.error();
                return out;
            });
            REQUIRE(made);
            for (auto const& each : *made) CHECK(each == all);
        }
    }
}

TEST_CASE("collectives: groups beyond the number of ranks that layers work with, and rows of others, are refused") {
    CHECK(detail::check_group(max_group_ranks));
    CHECK(detail::check_group(max_group_ranks + 1).error().code() == ErrorCode::capacity_exceeded);
    auto group = ThreadsGroup::create(2).value();
    auto comm = group.join(0).value();
    HostStream stream;
    Floats const in(6);
    Floats out(9);
    CHECK(gather_tokens<Host>(comm, matrix(in, 1, 3), matrix(out, 3, 3), stream).error().code() ==
          ErrorCode::shape_mismatch);
}
