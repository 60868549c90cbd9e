// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/vocab_head.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

#include <algorithm>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t vocabulary = 21;

/// A rank's columns of logits.
Floats own_columns(Floats const& logits, std::int64_t rows, UnitRange columns) {
    Floats own;
    for (std::int64_t row = 0; row < rows; ++row) {
        own.insert(own.end(), logits.begin() + row * vocabulary + columns.begin,
                   logits.begin() + row * vocabulary + columns.end);
    }
    return own;
}

}  // namespace

TEST_CASE("gather_logits: every rank gets every row whole") {
    for (std::int64_t const rows : {0, 1, 4}) {
        auto const logits = random_floats(rows * vocabulary, 1);
        for (std::int32_t const ranks : {1, 2, 3, 4, 8, 25}) {
            CAPTURE(rows);
            CAPTURE(ranks);
            auto const made = on_ranks(
                ranks,
                [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
                    auto const share = split_units(vocabulary, ranks, comm.rank());
                    auto const own = own_columns(logits, rows, share);
                    Floats out(logits.size(), 9.0F);
                    Floats workspace(index(gather_logits_workspace(rows, vocabulary)));
                    auto const gathered =
                        gather_logits<Host>(matrix(own, rows, share.size()), matrix(out, rows, vocabulary),
                                            vector(workspace), comm, stream);
                    if (!gathered) return gathered.error();
                    if (auto const finished = finish(stream); !finished) return finished.error();
                    return out;
                },
                ranks == 3 ? StreamMode::queued : StreamMode::immediate);
            REQUIRE(made);
            for (auto const& each : *made) CHECK(is_bitwise_equal(each, logits));
        }
    }
}

TEST_CASE("vocab_arg_max: the largest logit's id on every rank; of equals the lowest; what is no number never wins") {
    constexpr std::int64_t rows = 5;
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto const infinity = std::numeric_limits<float>::infinity();
    auto logits = random_floats(rows * vocabulary, 2, 8.0F);
    std::vector<std::int32_t> expected(rows);
    expected[0] =
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.begin() + vocabulary) - logits.begin());
    auto* const ties = logits.data() + vocabulary;
    std::fill_n(ties, vocabulary, -1.0F);
    ties[17] = ties[6] = 3.0F;
    expected[1] = 6;
    auto* const zeros = ties + vocabulary;
    std::fill_n(zeros, vocabulary, -2.0F);
    zeros[5] = -0.0F;
    zeros[20] = 0.0F;
    expected[2] = 5;
    auto* const odd = zeros + vocabulary;
    std::fill_n(odd, vocabulary, -infinity);
    odd[0] = nan;
    odd[19] = -1e30F;
    expected[3] = 19;
    std::fill_n(odd + vocabulary, vocabulary, nan);
    expected[4] = -1;
    for (std::int32_t const ranks : {1, 2, 4, 8, 25}) {
        CAPTURE(ranks);
        auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const share = split_units(vocabulary, ranks, comm.rank());
            auto const own = own_columns(logits, rows, share);
            std::vector<std::int32_t> ids(rows);
            std::vector<std::int64_t> workspace(rows);
            auto const found = vocab_arg_max(matrix(own, rows, share.size()), share.begin, vector(ids),
                                             vector(workspace), comm, stream);
            if (!found) return found.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return Floats(ids.begin(), ids.end());
        });
        REQUIRE(made);
        for (auto const& each : *made) CHECK(each == Floats(expected.begin(), expected.end()));
    }
}

TEST_CASE("vocab_head: parts that are not the rank's are refused") {
    auto group = ThreadsGroup::create(2).value();
    auto comm = group.join(0).value();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Floats const own(40);
    Floats out(2 * vocabulary);
    Floats workspace(2 * vocabulary);
    CHECK(gather_logits<Host>(matrix(own, 2, 10), matrix(out, 2, vocabulary), vector(workspace), comm, stream)
              .error()
              .code() == ErrorCode::shape_mismatch);
    CHECK(
        gather_logits<Host>(matrix(own, 2, 11), matrix(out, 2, vocabulary), vector(workspace).part(0, 41), comm, stream)
            .error()
            .message()
            .find("workspace") != std::string::npos);
    std::vector<std::int32_t> ids(2);
    std::vector<std::int64_t> keys(1);
    CHECK(vocab_arg_max(matrix(own, 2, 11), 0, vector(ids), vector(keys), comm, stream).error().code() ==
          ErrorCode::shape_mismatch);
}
