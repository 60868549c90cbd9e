// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/check_gradients.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

#include <bit>
#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

NamedValues named(std::string_view name, std::vector<float> const& values) {
    return {name, {values.data(), {static_cast<std::int64_t>(values.size())}}};
}

}  // namespace

TEST_CASE("find_bad_gradient: all ranks learn which rank, parameter and element it was") {
    struct Case {
        std::int32_t rank;
        std::size_t element;
        float value;
    };
    for (auto const& bad : {Case{2, 7, std::nanf("")}, Case{0, 0, HUGE_VALF}, Case{1, 9, -HUGE_VALF}}) {
        auto const found = on_threads(3, [&](Threads& comm) {
            auto const first = input_numbers(comm.rank(), 5);
            auto second = input_numbers(comm.rank(), 10);
            if (comm.rank() == bad.rank) second[bad.element] = bad.value;
            auto const at = find_bad_gradient(comm, List<NamedValues>{named("a", first), named("b", second)});
            return at && *at ? std::vector<std::int64_t>{(*at)->rank, (*at)->parameter, (*at)->element}
                             : std::vector<std::int64_t>{};
        });
        for (auto const& one : found)
            CHECK(one == std::vector<std::int64_t>{bad.rank, 1, static_cast<std::int64_t>(bad.element)});
    }
    auto const none = on_threads(2, [&](Threads& comm) {
        auto const largest = std::vector<float>{3.4028235e38F, -3.4028235e38F, 1e-45F};
        auto const at = find_bad_gradient(comm, List<NamedValues>{named("a", largest)});
        return at && !*at ? 1 : 0;
    });
    CHECK(none == std::vector<int>{1, 1});
    CHECK(BadGradient{2, 1, 7}.error("b.weight", 41).message() ==
          "rank 2, step 41: b.weight: the gradient of element 7 is infinite or undefined; lower the learning rate or "
          "the loss "
          "scale, or look for a broken machine if it is always this rank");
    CHECK(BadGradient{2, 1, 7, 3}.error("b.weight", 41).message().substr(0, 33) == "rank 2, bucket 3, step 41: b.weig");
}

TEST_CASE("SkippedSteps: as many in a row as are allowed end the run, and one fewer does not") {
    SkippedSteps skipped(3);
    auto const why = BadGradient{1, 0, 3}.error("w", 5);
    CHECK(skipped.skip(5, why));
    CHECK(skipped.skip(6, why));
    skipped.take();
    CHECK(skipped.skip(8, why));
    CHECK(skipped.skip(9, why));
    auto const ended = skipped.skip(10, why);
    REQUIRE_FALSE(ended);
    CHECK(ended.error().reason() ==
          "the gradient of element 3 is infinite or undefined; 3 steps in a row were skipped");
    CHECK(skipped.steps() == List<std::int64_t>{5, 6, 8, 9, 10});
    CHECK_FALSE(SkippedSteps(0).skip(1, why));
}

TEST_CASE("compare_replicas: any flipped bit on one rank is named on all") {
    for (unsigned bit = 0; bit < 32; ++bit) {
        auto const messages = on_threads(3, [&](Threads& comm) {
            auto const first = input_numbers(3, 100);
            auto second = input_numbers(5, 40);
            auto& value = second[bit];
            if (comm.rank() == 1) value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1U << bit));
            auto const same = compare_replicas(comm, List<NamedValues>{named("a", first), named("b", second)});
            return same ? std::string() : same.error().message();
        });
        for (auto const& message : messages)
            CHECK(
                message ==
                "rank 1: b: differs from what most ranks have; go on from the last checkpoint, without the machine if "
                "it is always this one");
    }
}

TEST_CASE("compare_replicas: equal ones pass; two ranks that differ cannot be told apart, and lists must be the same") {
    auto const equal = on_threads(4, [&](Threads& comm) {
        auto const values = input_numbers(3, 100);
        auto const same = compare_replicas(comm, List<NamedValues>{named("a", values)});
        return same && compare_replicas(comm, {}) ? 1 : 0;
    });
    CHECK(equal == std::vector<int>{1, 1, 1, 1});
    auto const reasons = on_threads(2, [&](Threads& comm) {
        auto const values = input_numbers(comm.rank(), 100);
        auto const same = compare_replicas(comm, List<NamedValues>{named("a", values)});
        return same ? std::string() : std::string(same.error().subject()) + " " + std::string(same.error().reason());
    });
    for (auto const& reason : reasons) CHECK(reason == "rank 1 differs from rank 0, and no side is the larger one");
    auto const codes = on_threads(2, [&](Threads& comm) {
        auto const values = input_numbers(3, 100);
        List<NamedValues> parameters{named("a", values)};
        if (comm.rank() == 1) parameters.push_back(named("b", values));
        auto const same = compare_replicas(comm, parameters);
        return same ? ErrorCode::unsupported : same.error().code();
    });
    CHECK(codes == std::vector<ErrorCode>(2, ErrorCode::shape_mismatch));
}
