// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/vocab_embedding.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t vocabulary = 11;
constexpr std::int64_t width = 6;
std::vector<std::int32_t> const ids{3, 0, 10, 3, 7};

}  // namespace

TEST_CASE("vocab_embedding: every rank gets the rows of the whole table, bit by bit") {
    auto table = random_floats(vocabulary * width, 1);
    table[0] = -0.0F;
    for (std::int32_t const ranks : {1, 2, 3, 4, 8, 13}) {
        CAPTURE(ranks);
        auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const own = split_units(vocabulary, ranks, comm.rank());
            Floats out(ids.size() * width, 9.0F);
            auto const found = vocab_embedding(
                vector(ids), matrix(std::as_const(table), vocabulary, width).rows(own.begin, own.size()), own.begin,
                matrix(out, static_cast<std::int64_t>(ids.size()), width), comm, stream);
            if (!found) return found.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return out;
        });
        REQUIRE(made);
        Floats expected;
        for (auto const id : ids) {
            for (std::int64_t i = 0; i < width; ++i) expected.push_back(table[index(id * width + i)] + 0.0F);
        }
        for (auto const& each : *made) CHECK(is_bitwise_equal(each, expected));
    }
}

TEST_CASE("vocab_embedding_scattered: each rank gets its tokens' rows of the whole table, bit by bit") {
    auto table = random_floats(vocabulary * width, 1);
    table[0] = -0.0F;
    auto const tokens = static_cast<std::int64_t>(ids.size());
    Floats expected;
    for (auto const id : ids) {
        for (std::int64_t i = 0; i < width; ++i) expected.push_back(table[index(id * width + i)] + 0.0F);
    }
    for (std::int32_t const ranks : {1, 2, 3, 4, 8, 13}) {
        CAPTURE(ranks);
        auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const rows = split_units(vocabulary, ranks, comm.rank());
            auto const own = split_units(tokens, ranks, comm.rank()).size();
            Floats out(index(own * width), 9.0F);
            Floats workspace(index(vocab_embedding_workspace(tokens, width, ranks)), 9.0F);
            auto const found = vocab_embedding_scattered(
                vector(ids), matrix(std::as_const(table), vocabulary, width).rows(rows.begin, rows.size()), rows.begin,
                matrix(out, own, width), vector(workspace), comm, stream);
            if (!found) return found.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            // One reduce-scatter: as many bytes as the rows that it gets, from each other rank.
            auto const& traffic = comm.traffic();
            CHECK(traffic.total().calls == (ranks > 1 ? 1 : 0));
            CHECK(traffic.of(CollectiveKind::reduce_scatter).bytes == (ranks - 1) * own * width * 4);
            return out;
        });
        REQUIRE(made);
        Floats all;
        for (auto const& each : *made) all.insert(all.end(), each.begin(), each.end());
        CHECK(is_bitwise_equal(all, expected));
    }
    auto const refused = on_ranks(2, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
        Floats out(index(tokens * width));
        Floats workspace(index(tokens * width));
        auto const rows = matrix(std::as_const(table), vocabulary, width);
        auto const own = split_units(tokens, 2, comm.rank()).size();
        auto const all = vocab_embedding_scattered(vector(ids), rows, 0, matrix(out, tokens, width), vector(workspace),
                                                   comm, stream);
        CHECK(all.error().message().find("share of the tokens") != std::string::npos);
        auto const small = vocab_embedding_scattered(vector(ids), rows, 0, matrix(out, own, width),
                                                     vector(workspace).part(0, width), comm, stream);
        CHECK(small.error().message().find("workspace is too small") != std::string::npos);
        return out;
    });
    CHECK(refused);
}

TEST_CASE("vocab_embedding_backward: each rank's rows gather the gradients of their ids, as float64 does") {
    auto const tokens = static_cast<std::int64_t>(ids.size());
    auto const gradient = random_floats(tokens * width, 2);
    Exact exact{Doubles(index(vocabulary * width), 0.25), Doubles(index(vocabulary * width))};
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t i = 0; i < width; ++i) {
            auto const place = index(ids[index(token)] * width + i);
            exact.values[place] += static_cast<double>(gradient[index(token * width + i)]);
            // At most two summands and the first value meet.
            exact.tolerance[place] += 3.0 * unit_roundoff * (1.0 + std::abs(exact.values[place]));
        }
    }
    for (std::int32_t const ranks : {1, 2, 4, 13}) {
        auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const own = split_units(vocabulary, ranks, comm.rank());
            Floats out(index(own.size() * width), 0.25F);
            auto const added = vocab_embedding_backward(vector(ids), matrix(gradient, tokens, width), own.begin,
                                                        matrix(out, own.size(), width), stream);
            if (!added) return added.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return out;
        });
        REQUIRE(made);
        Floats whole;
        for (auto const& each : *made) whole.insert(whole.end(), each.begin(), each.end());
        CHECK(exact.wrong(whole) == 0);
    }
}

TEST_CASE("vocab_embedding: shapes that do not belong together are refused") {
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const table = random_floats(vocabulary * width, 1);
    Floats out(5 * (width + 1));
    auto const rows = matrix(table, vocabulary, width);
    auto const apart = matrix(out, 5, width + 1).columns(0, width);
    CHECK(vocab_embedding(vector(ids), rows, 0, apart, comm, stream).error().message().find("lie apart") !=
          std::string::npos);
    CHECK(vocab_embedding(vector(ids), rows, 0, matrix(out, 4, width), comm, stream).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(vocab_embedding_backward(vector(ids), rows, 0, matrix(out, 5, width), stream).error().code() ==
          ErrorCode::shape_mismatch);
}
