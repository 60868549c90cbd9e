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
