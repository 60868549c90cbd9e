// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/clip.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

#include <cmath>
#include <limits>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

using View = TensorView<float const, 1, Host>;

/// The norm of some gradients, cut over ranks at multiples of `piece`, on `threads` threads each.
std::vector<double> norms(std::vector<float> const& gradients, std::int32_t ranks, int threads,
                          std::int64_t piece = 997, bool is_fast = false) {
    return on_threads(ranks, [&](Threads& comm) {
        HostContext context({.threads = threads});
        auto stream = context.make_stream();
        List<View> own;
        auto const count = static_cast<std::int64_t>(gradients.size());
        for (std::int64_t begin = 0; begin < count; begin += piece) {
            if (begin / piece % ranks == comm.rank())
                own.push_back({gradients.data() + begin, {std::min(piece, count - begin)}});
        }
        auto const deadline = Deadline::after(std::chrono::seconds(20));
        auto const norm = is_fast ? fast_norm(comm, own, stream, deadline) : global_norm(comm, own, stream, deadline);
        return norm ? *norm : -1.0;
    });
}

}  // namespace

TEST_CASE("clip: the published coefficients") {
    // torch.nn.utils.clip_grad_norm_'s formula: (3, 4) and (12), the largest norm 1.
    auto const norm = norms({3.0F, 4.0F, 12.0F}, 2, 1, 2);
    CHECK(norm == std::vector<double>{13.0, 13.0});
    auto const coefficient = clip_coefficient(13.0, 1.0);
    REQUIRE(coefficient);
    auto const clipped = [&](float gradient) {
        return static_cast<double>(gradient * static_cast<float>(*coefficient));
    };
    CHECK(std::abs(clipped(3.0F) - 0.2307692170) <= 1e-8);
    CHECK(std::abs(clipped(4.0F) - 0.3076922894) <= 1e-8);
    CHECK(std::abs(clipped(12.0F) - 0.9230768681) <= 1e-7);
    CHECK(*clip_coefficient(0.5, 1.0) == 1.0);
    CHECK(*clip_coefficient(0.0, 1.0) == 1.0);
    CHECK_FALSE(clip_coefficient(1.0, 0.0));
    CHECK_FALSE(clip_coefficient(1.0, std::nan("")));
    // 0 times an infinite gradient would be undefined.
    CHECK_FALSE(clip_coefficient(HUGE_VAL, 1.0));
    CHECK_FALSE(clip_coefficient(std::nan(""), 1.0));
}

TEST_CASE("global_norm: the same bits on any ranks and threads, and near the sum in long double") {
    for (float const scale : {1.0F, 1e-30F, 1e-42F, 3e38F}) {
        auto gradients = input_numbers(3, 50'000);
        for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] *= i % 10 == 0 ? scale : scale * 1e-3F;
        long double sum = 0.0L;
        for (auto const gradient : gradients)
            sum += static_cast<long double>(gradient) * static_cast<long double>(gradient);
        auto const exact = static_cast<double>(std::sqrt(sum));
        auto const norm = norms(gradients, 1, 1)[0];
        // An element is off by half of 2^-62 of at most four times the largest square: 50,000 of them by 2^-46 of it.
        CHECK(std::abs(norm - exact) <= exact * 1e-14);
        for (std::int32_t const ranks : {1, 2, 3, 4}) {
            for (auto const other : norms(gradients, ranks, 3, 256 * ranks + 1)) CHECK(other == norm);
        }
    }
    CHECK(norms(std::vector<float>(10, 0.0F), 2, 1)[0] == 0.0);
    CHECK(norms({}, 2, 1)[0] == 0.0);
    CHECK(norms(std::vector<float>(5000, std::numeric_limits<float>::max()), 2, 2)[0] > 1e38);
}

TEST_CASE("global_norm: one undefined or infinite gradient on one rank makes it infinite on all") {
    for (float const bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
        auto gradients = input_numbers(3, 5000);
        gradients[4321] = bad;
        CHECK(norms(gradients, 3, 2) == std::vector<double>(3, HUGE_VAL));
    }
}

TEST_CASE(
    "fast_norm: near global_norm, the same on all ranks of a group and on any threads, infinite where a gradient is") {
    auto gradients = input_numbers(3, 50'000);
    auto const exact = norms(gradients, 1, 1)[0];
    for (std::int32_t const ranks : {1, 2, 3}) {
        auto const found = norms(gradients, ranks, 1, 20'000, true);
        // Sums in double: 50,000 squares, each addition off by 2^-53.
        CHECK(std::abs(found[0] - exact) <= exact * 5e4 * 0x1p-53);
        CHECK(found == std::vector<double>(static_cast<std::size_t>(ranks), found[0]));
        CHECK(found == norms(gradients, ranks, 3, 20'000, true));
    }
    CHECK(norms(std::vector<float>(5000, std::numeric_limits<float>::max()), 2, 2, 997, true)[0] > 1e38);
    CHECK(norms({}, 2, 1, 997, true)[0] == 0.0);
    for (float const bad : {std::nanf(""), HUGE_VALF}) {
        gradients[4321] = bad;
        CHECK(norms(gradients, 3, 2, 997, true) == std::vector<double>(3, HUGE_VAL));
    }
}

TEST_CASE("GradientNorm: a gradient above the largest that was taken is refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> gradients{1.0F, -1.5F};
    GradientMax largest;
    REQUIRE(largest.add(View{gradients.data(), {2}}, stream));
    CHECK(largest.value() == 1.5F);
    for (float const bad : {7.0F, std::nanf("")}) {
        gradients[0] = bad;
        GradientNorm norm(largest);
        auto other = context.make_stream();
        REQUIRE(norm.add(View{gradients.data(), {2}}, other));
        CHECK(other.synchronize(Deadline::after(std::chrono::seconds(5))).error().code() ==
              ErrorCode::invalid_argument);
    }
    CHECK(largest.add(View{nullptr, {2}}, stream).error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("global_norm: a rank that fails tells the others") {
    auto const codes = on_threads(2, [](Threads& comm) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        float const one = 1.0F;
        List<View> const own{comm.rank() == 0 ? View{&one, {1}} : View{nullptr, {1}}};
        auto const norm = global_norm(comm, own, stream, Deadline::after(std::chrono::seconds(5)));
        return norm ? 0 : 1;
    });
    CHECK(codes == std::vector<int>{1, 1});
}
