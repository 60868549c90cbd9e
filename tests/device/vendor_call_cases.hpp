// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model_cases.hpp"

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)

#include <map>
#include <string>
#include <vector>

namespace shardwise::testing {

/// The vendor's calls of a run of one request that generates so many tokens, by name; but those that ask whether something is done, which
/// are as many as the waiting is long, and those that select a device.
inline std::map<std::string, int> calls_of_run(FormulaModel const& model, std::int64_t tokens, double temperature) {
    ModelCase of{tiny_llama, 1, 1, 8, tokens};
    auto requests = model_requests(of);
    requests.resize(1);
    requests[0].sampling.temperature = static_cast<float>(temperature);
    auto const before = FakeMachine::get().all_calls();
    auto const ran = run_model<TestDevice>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
    CHECK(ran->graphs.captured == 1);
    CHECK(ran->graphs.replayed >= 3);
    auto calls = FakeMachine::get().all_calls();
    for (auto const& [name, count] : before) calls[name] -= count;
    for (auto const* const name : {"is_reached", "select_device"}) calls.erase(name);
    return calls;
}

/// Fails each call of a run in its turn: the next one after `n` is next(n). The run ends with an error that names the call, or that the
/// device has no memory, and nothing stays. It goes on where a graph cannot be taken down, where weights come through less pinned memory, and
/// where a stream or a table goes that has been waited for and waits once more.
template <class Next>
void fail_in_turn(ModelCase const& of, Next const& next) {
    auto& machine = FakeMachine::get();
    FormulaModel const model(of.config);
    auto requests = model_requests(of);
    requests.resize(1);
    auto const whole = run_model<TestDevice>(model, of, requests, nullptr);
    REQUIRE(whole);
    for (int number = 1;; number = next(number)) {
        CAPTURE(number);
        machine.fail_call(number);
        auto const ran = run_model<TestDevice>(model, of, requests, nullptr);
        auto const failed = machine.failed();
        machine.fail_call(0);
        CAPTURE(failed);
        CHECK(machine.is_empty());
        if (failed.empty()) {
            CHECK(ran);
            break;
        }
        if (ran) {
            CHECK(ran->generations[0].tokens == whole->generations[0].tokens);
            bool const is_done_without = failed == "record" || failed == "is_reached" || failed == "allocate_pinned" ||
                                         !ran->graphs.reason.empty();
            CHECK(is_done_without);
            continue;
        }
        CAPTURE(ran.error().message());
        CHECK((ran.error().message().find(failed) != std::string::npos ||
               (failed == "allocate" && ran.error().code() == ErrorCode::out_of_memory)));
    }
}

}  // namespace shardwise::testing

TEST_CASE("Models: a step that is replayed copies a table, launches a graph, chooses and copies a token, and no more") {
    using namespace shardwise;
    using testing::calls_of_run;
    testing::FormulaModel const model(testing::tiny_llama);
    for (bool const is_greedy : {true, false}) {
        CAPTURE(is_greedy);
        auto const temperature = is_greedy ? 0.0 : 0.7;
        auto step = calls_of_run(model, 8, temperature);
        for (auto const& [name, count] : calls_of_run(model, 7, temperature)) step[name] -= count;
        std::erase_if(step, [](auto const& call) { return call.second == 0; });
        // The token is chosen beside the graph, as whoever asks for it says. Sampling has a table of its own, which is copied and marked.
        using Calls = std::map<std::string, int>;
        auto const expected = is_greedy ? Calls{{"copy", 2}, {"launch_graph", 1}, {"arg_max", 1}, {"record", 3}}
                                        : Calls{{"copy", 3}, {"launch_graph", 1}, {"sample", 1}, {"record", 4}};
        std::string all;
        for (auto const& [name, count] : step) all += name + " " + std::to_string(count) + "; ";
        CAPTURE(all);
        CHECK(step == expected);
    }
}

TEST_CASE("Models: whichever call of the vendor fails, a run ends with an error that names it, and nothing stays") {
    using namespace shardwise;
    testing::fail_in_turn({testing::tiny_llama, 1, 1, 8, 3}, [](int number) { return number + 1 + number / 5; });
}

TEST_CASE("Models: each call of the vendor that fails ends a run, of ranks that add up too" *
          doctest::test_suite("long")) {
    using namespace shardwise;
    testing::fail_in_turn({testing::tiny_llama, 1, 1, 8, 3}, [](int number) { return number + 1; });
    testing::ModelCase ranks{testing::tiny_llama, 2, 1, 8, 3};
    ranks.timeout = std::chrono::seconds{20};
    testing::fail_in_turn(ranks, [](int number) { return number + 1 + number / 20; });
}

#endif
