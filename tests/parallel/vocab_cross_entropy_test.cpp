// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/vocab_cross_entropy.hpp>

#include <doctest/doctest.h>

#include "bounded.hpp"

#include <algorithm>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t vocabulary = 37;
constexpr std::int64_t rows = 5;
/// The second row has no loss, the third's target is in the last columns.
std::vector<std::int32_t> const targets{3, -100, 36, 0, 20};
float const loss_scale = 0.25F;

struct Expected {
    Bounds loss;
    Bounds gradient;
};

Expected expected_of(Floats const& logits) {
    Expected out{Bounds(rows), Bounds(index(rows * vocabulary))};
    for (std::int64_t row = 0; row < rows; ++row) {
        auto const* const values = logits.data() + row * vocabulary;
        auto const largest = static_cast<double>(*std::max_element(values, values + vocabulary));
        AnyOrderSum total;
        Bounds terms;
        for (std::int64_t i = 0; i < vocabulary; ++i) {
            terms.push_back(exponential(Bounded(static_cast<double>(values[i])) + Bounded(-largest)));
            total.add(terms.back());
        }
        auto const target = targets[index(row)];
        if (target < 0) continue;
        auto const sum = total.sum();
        Bounded const logarithm{std::log(sum.value), sum.error / (sum.value - sum.error) +
                                                         2.0 * unit_roundoff * std::abs(std::log(sum.value))};
        auto const chosen = static_cast<double>(values[target]) - largest;
        out.loss[index(row)] = logarithm + Bounded(-chosen, unit_roundoff * std::abs(chosen));
        for (std::int64_t i = 0; i < vocabulary; ++i) {
            auto const probability = terms[index(i)] * reciprocal(sum);
            out.gradient[index(row * vocabulary + i)] =
                (probability + Bounded(i == target ? -1.0 : 0.0)) * Bounded(static_cast<double>(loss_scale));
        }
    }
    return out;
}

/// Of each rank the losses of all rows, and after them its columns of the gradients.
auto losses_and_gradients(Floats const& logits, std::vector<std::int32_t> const& of, std::int32_t ranks,
                          StreamMode mode = StreamMode::immediate) {
    return on_ranks(
        ranks,
        [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const share = split_units(vocabulary, ranks, comm.rank());
            Floats own;
            for (std::int64_t row = 0; row < rows; ++row)
                own.insert(own.end(), logits.begin() + row * vocabulary + share.begin,
                           logits.begin() + row * vocabulary + share.end);
            Floats loss(rows);
            Floats workspace(index(vocab_cross_entropy_workspace(rows)));
            Floats const factors(rows, loss_scale);
            VocabShard<Host> const shard{matrix(own, rows, share.size()), share.begin};
            auto const done = vocab_cross_entropy(shard, vector(of), vector(loss), vector(workspace), comm, stream);
            if (!done) return done.error();
            auto const back = vocab_cross_entropy_backward(shard, vector(of), vector(factors), stream);
            if (!back) return back.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            loss.insert(loss.end(), own.begin(), own.end());
            return loss;
        },
        mode);
}

}  // namespace

TEST_CASE("vocab_cross_entropy: loss and gradient equal float64, whatever ranks the vocabulary is sharded over") {
    for (float const scale : {1.0F, 60.0F}) {
        auto const logits = random_floats(rows * vocabulary, 1, scale);
        auto const expected = expected_of(logits);
        for (std::int32_t const ranks : {1, 2, 3, 4, 8, 40}) {
            CAPTURE(scale);
            CAPTURE(ranks);
            auto const made = losses_and_gradients(logits, targets, ranks,
                                                   ranks == 4 ? StreamMode::queued : StreamMode::immediate);
            REQUIRE(made);
            Floats gradient(index(rows * vocabulary));
            for (std::int32_t rank = 0; rank < ranks; ++rank) {
                auto const& each = (*made)[static_cast<std::size_t>(rank)];
                CHECK(wrong(expected.loss, Floats(each.begin(), each.begin() + rows)) == 0);
                auto const share = split_units(vocabulary, ranks, rank);
                for (std::int64_t row = 0; row < rows; ++row) {
                    std::copy_n(each.begin() + rows + row * share.size(), share.size(),
                                gradient.begin() + row * vocabulary + share.begin);
                }
            }
            CHECK(wrong(expected.gradient, gradient) == 0);
        }
    }
}

TEST_CASE("vocab_cross_entropy: a logit that is no number makes the row's loss none") {
    auto logits = random_floats(rows * vocabulary, 2);
    logits[5] = std::numeric_limits<float>::quiet_NaN();
    auto const made = losses_and_gradients(logits, targets, 2);
    REQUIRE(made);
    for (auto const& loss : *made) {
        CHECK(std::isnan(loss[0]));
        CHECK(std::isfinite(loss[2]));
    }
}

TEST_CASE("vocab_cross_entropy: a target beyond the vocabulary gives its row no number, and the other rows theirs") {
    auto const logits = random_floats(rows * vocabulary, 3);
    for (std::int32_t const ranks : {1, 2, 40}) {
        CAPTURE(ranks);
        std::vector<std::int32_t> const beyond{vocabulary, -1, 36, 1'000'000, 0};
        auto const made = losses_and_gradients(logits, beyond, ranks);
        REQUIRE(made);
        for (auto const& each : *made) {
            auto const width = (static_cast<std::int64_t>(each.size()) - rows) / rows;
            for (std::int64_t row = 0; row < rows; ++row) {
                bool const is_beyond = row == 0 || row == 3;
                CHECK(std::isnan(each[index(row)]) == is_beyond);
                for (std::int64_t i = 0; i < width; ++i)
                    CHECK(std::isnan(each[index(rows + row * width + i)]) == is_beyond);
            }
            CHECK(each[1] == 0.0F);
        }
    }
}

TEST_CASE("vocab_cross_entropy: rows without a target or a place for their loss are refused") {
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Floats logits(index(rows * vocabulary));
    Floats loss(rows);
    Floats workspace(index(vocab_cross_entropy_workspace(rows)));
    VocabShard<Host> const shard{matrix(logits, rows, vocabulary), 0};
    auto const few = vector(targets).part(0, 4);
    CHECK(vocab_cross_entropy(shard, few, vector(loss), vector(workspace), comm, stream).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(vocab_cross_entropy(shard, vector(targets), vector(loss), vector(workspace).part(0, 14), comm, stream)
              .error()
              .message()
              .find("workspace") != std::string::npos);
    CHECK(vocab_cross_entropy_backward(shard, vector(targets), vector(std::as_const(loss)).part(0, 2), stream)
              .error()
              .code() == ErrorCode::shape_mismatch);
}
