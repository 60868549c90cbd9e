// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/sync_batch_norm.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// A layer on one rank, with everything that it reads and writes.
struct Layer {
    std::int64_t channels;
    std::vector<float> weight;
    std::vector<float> bias;
    std::vector<float> running_mean = std::vector<float>(weight.size(), 0.0F);
    std::vector<float> running_variance = std::vector<float>(weight.size(), 1.0F);
    std::vector<float> out{};
    std::vector<float> in_gradient{};
    std::vector<float> weight_gradient = std::vector<float>(weight.size());
    std::vector<float> bias_gradient = std::vector<float>(weight.size());

    static TensorView<float, 1, Host> view(std::vector<float>& values) {
        return {values.data(), {static_cast<std::int64_t>(values.size())}};
    }
    TensorView<float const, 2, Host> rows(std::vector<float> const& values) const {
        return {values.data(), {static_cast<std::int64_t>(values.size()) / channels, channels}};
    }
    TensorView<float, 2, Host> rows(std::vector<float>& values) const {
        return {values.data(), {static_cast<std::int64_t>(values.size()) / channels, channels}};
    }

    Result<> step(Threads& comm, SyncBatchNorm& norm, HostContext& context, std::vector<float> const& in,
                  std::vector<float> const& out_gradient) {
        auto stream = context.make_stream();
        out.resize(in.size());
        in_gradient.resize(in.size());
        auto const went = norm.forward(comm, rows(in), view(weight), view(bias), view(running_mean),
                                       view(running_variance), rows(out), stream);
        if (!went) return went;
        auto const came = norm.backward(comm, rows(in), rows(out_gradient), view(weight), rows(in_gradient),
                                        view(weight_gradient), view(bias_gradient), stream);
        if (!came) return came;
        return stream.synchronize(Deadline::after(std::chrono::seconds(20)));
    }
};

std::vector<float> part(std::vector<float> const& values, std::int64_t begin, std::int64_t end) {
    return {values.begin() + begin, values.begin() + end};
}

/// Compares the ranks' rows, one after another, or the sum over ranks, with numbers in float64.
void check_near(std::vector<float> const& got, std::vector<double> const& expected, double tolerance) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK(std::abs(static_cast<double>(got[i]) - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
    }
}

constexpr double unit = 1.0 / (1 << 24U);

}  // namespace

TEST_CASE("SyncBatchNorm: the published gradients of five rows on two ranks") {
    // torch.nn.BatchNorm1d on the joined rows, in float64.
    std::vector<float> const in{1, 2, 3, 5, 4, -1, 0, 2, 7, 7};
    std::vector<float> const gradient{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    auto const layers = on_threads(2, [&](Threads& comm) {
        Layer layer{.channels = 2, .weight = {1, 1}, .bias = {0, 0}};
        HostContext context({.threads = 1});
        auto norm = SyncBatchNorm::create(2);
        auto const begin = comm.rank() == 0 ? 0 : 4;
        auto const end = comm.rank() == 0 ? 4 : 10;
        CHECK(layer.step(comm, *norm, context, part(in, begin, end), part(gradient, begin, end)));
        CHECK(norm->rows() == 5);
        return layer;
    });
    check_near(part(layers[0].in_gradient, 0, 2), {-1.1430950772, -1.3173114475}, 2.0 * unit);
    for (std::size_t c = 0; c < 2; ++c) {
        double const expected[] = {7.3484631046, 5.0783304098};
        auto const sum =
            static_cast<double>(layers[0].weight_gradient[c]) + static_cast<double>(layers[1].weight_gradient[c]);
        CHECK(std::abs(sum - expected[c]) <= 8.0 * 4.0 * unit);
        CHECK(layers[0].bias_gradient[c] + layers[1].bias_gradient[c] == (c == 0 ? 20.0F : 25.0F));
    }
    for (auto const& layer : layers) {
        check_near(layer.running_mean, {0.3, 0.3}, unit);
        check_near(layer.running_variance, {1.65, 1.85}, unit);
    }
}

TEST_CASE("SyncBatchNorm: torch's batch norm of the joined batch, with unequal shares and ranks without rows") {
    auto const golden = golden_lines("batch_norm.txt");
    std::vector<std::vector<std::int64_t>> const cuts{{23}, {11, 12}, {0, 23}, {1, 0, 21, 1}, {5, 18, 0}};
    for (auto const& counts : cuts) {
        auto const ranks = static_cast<std::int32_t>(counts.size());
        struct Seen {
            Layer first;
            Layer second;
            std::vector<float> evaluated;
        };
        auto const seen = on_threads(ranks, [&](Threads& comm) {
            Layer layer{.channels = 5, .weight = input_numbers(50, 5), .bias = input_numbers(60, 5)};
            HostContext context({.threads = 2});
            auto norm = SyncBatchNorm::create(5);
            std::int64_t begin = 0;
            for (std::int32_t rank = 0; rank < comm.rank(); ++rank) begin += 5 * counts[static_cast<std::size_t>(rank)];
            auto const end = begin + 5 * counts[static_cast<std::size_t>(comm.rank())];
            std::vector<Layer> steps;
            std::vector<float> in;
            for (int step = 0; step < 2; ++step) {
                in = input_numbers(100 + 1000 * step, 23 * 5);
                for (auto& value : in) value = value * 8.0F + 3.0F;
                in = part(in, begin, end);
                CHECK(layer.step(comm, *norm, context, in, part(input_numbers(700 + 1000 * step, 23 * 5), begin, end)));
                steps.push_back(layer);
            }
            std::vector<float> evaluated(in.size());
            auto stream = context.make_stream();
            CHECK(norm->evaluate(layer.rows(in), Layer::view(layer.weight), Layer::view(layer.bias),
                                 Layer::view(layer.running_mean), Layer::view(layer.running_variance),
                                 layer.rows(evaluated), stream));
            return Seen{steps[0], steps[1], evaluated};
        });
        std::size_t line = 0;
        auto const expected = [&](std::string const& what) {
            REQUIRE(golden[line][0][0] == what);
            return numbers_of(golden[line++][1]);
        };
        for (auto const step : {&Seen::first, &Seen::second}) {
            auto const joined = [&](auto member) {
                std::vector<float> all;
                for (auto const& one : seen)
                    all.insert(all.end(), ((one.*step).*member).begin(), ((one.*step).*member).end());
                return all;
            };
            auto const summed = [&](auto member) {
                std::vector<float> all(5);
                for (auto const& one : seen) {
                    for (std::size_t c = 0; c < 5; ++c) all[c] += ((one.*step).*member)[c];
                }
                return all;
            };
            // Computed in double and rounded once; the input was rounded once, too, and is up to 7 in size.
            check_near(joined(&Layer::out), expected("out"), 2.0 * unit);
            check_near(joined(&Layer::in_gradient), expected("in_gradient"), 2.0 * unit);
            check_near(summed(&Layer::weight_gradient), expected("weight_gradient"), 8.0 * unit);
            check_near(summed(&Layer::bias_gradient), expected("bias_gradient"), 8.0 * unit);
            auto const mean = expected("running_mean");
            auto const variance = expected("running_variance");
            for (auto const& one : seen) {
                check_near((one.*step).running_mean, mean, 4.0 * unit);
                check_near((one.*step).running_variance, variance, 4.0 * unit);
                CHECK((one.*step).running_mean == (seen[0].*step).running_mean);
            }
        }
        std::vector<float> evaluated;
        for (auto const& one : seen) evaluated.insert(evaluated.end(), one.evaluated.begin(), one.evaluated.end());
        check_near(evaluated, expected("evaluated"), 8.0 * unit);
    }
}

TEST_CASE("SyncBatchNorm: fewer than two rows in all are refused on every rank, as are wrong shapes") {
    auto const codes = on_threads(3, [](Threads& comm) {
        Layer layer{.channels = 2, .weight = {1, 1}, .bias = {0, 0}};
        HostContext context({.threads = 1});
        auto norm = SyncBatchNorm::create(2);
        std::vector<float> const in(comm.rank() == 1 ? 2U : 0U, 1.0F);
        auto const done = layer.step(comm, *norm, context, in, in);
        return done ? std::string() : done.error().message();
    });
    for (auto const& code : codes)
        CHECK(
            code ==
            "sync_batch_norm: the ranks have fewer than two rows together, which have no variance (got 1, expected at "
            "least 2)");

    (void)on_threads(1, [](Threads& comm) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto norm = SyncBatchNorm::create(2);
        Layer layer{.channels = 2, .weight = {1, 1, 1}, .bias = {0, 0}};
        std::vector<float> in(8);
        CHECK(layer.step(comm, *norm, context, in, in).error().code() == ErrorCode::shape_mismatch);
        Layer other{.channels = 4, .weight = {1, 1}, .bias = {0, 0}};
        CHECK(other.step(comm, *norm, context, in, in).error().code() == ErrorCode::shape_mismatch);
        // Backward before forward.
        REQUIRE(
            norm->backward(comm, {in.data(), {4, 2}}, {in.data(), {4, 2}}, {}, {in.data(), {4, 2}}, {}, {}, stream));
        CHECK_FALSE(stream.synchronize(Deadline::after(std::chrono::seconds(5))));
        return 0;
    });
    CHECK_FALSE(SyncBatchNorm::create(0));
    CHECK_FALSE(SyncBatchNorm::create(2, {.epsilon = 0.0}));
    CHECK_FALSE(SyncBatchNorm::create(2, {.momentum = 1.5}));
}
