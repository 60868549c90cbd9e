// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/send_receive.hpp>

#include "../comm/collective_cases.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// Nothing where a call failed with these words.
inline Result<> expect_words(Result<> const& done, std::string const& words) {
    auto const message = done ? "nothing" : done.error().message();
    if (message.find(words) != std::string::npos) return {};
    return Error{ErrorCode::unsupported}.in(words).because(message);
}

/// What two ranks of a part do that differs, and what both are told where these are ranks 1 and 3 of the whole.
template <class C>
struct PartFault {
    std::function<Result<>(C&)> act;
    std::string words;
};
template <class C>
std::vector<PartFault<C>> faults_of_parts() {
    auto const count_of = [](C& part) { return static_cast<std::size_t>(1 + part.rank()); };
    // As long as an error takes: the other rank gets all of it.
    std::string const reason(200, 'r');
    std::string const advice(200, 'a');
    return {
        {[=](C& part) {
             std::vector<float> data(count_of(part));
             return all_reduce(part, flat(data));
         },
         "ranks 0 (of all: rank 1) and 1 (of all: rank 3): differ: rank 0 is at"},
        {[=](C& part) {
             std::vector<std::int64_t> const counts{2, part.rank() == 0 ? 1 : 2};
             std::vector<float> own(static_cast<std::size_t>(counts[static_cast<std::size_t>(part.rank())]));
             std::vector<float> all(static_cast<std::size_t>(counts[0] + counts[1]));
             return all_gather<float>(part, flat(std::as_const(own)), flat(all), counts);
         },
         "ranks 0 (of all: rank 1) and 1 (of all: rank 3): differ: rank 0 is at"},
        {[=](C& part) {
             std::vector<std::int64_t> const sent{1, part.rank() == 0 ? 2 : 1};
             std::vector<std::int64_t> const expected{1, 1};
             std::vector<float> in(static_cast<std::size_t>(sent[0] + sent[1]));
             std::vector<float> out(2);
             return all_to_all<float>(part, flat(std::as_const(in)), sent, flat(out), expected);
         },
         "rank 0 (of all: rank 1): sends fp32 x 2 to rank 1 (of all: rank 3) in all_to_all"},
        {[=](C& part) {
             std::vector<float> data(count_of(part));
             if (part.rank() == 1) return receive(part, flat(data), 0);
             if (auto const sent = send(part, flat(std::as_const(data)), 1); !sent) return sent;
             return barrier(part);
         },
         "rank 0 (of all: rank 1): sends fp32 x 1 where rank 1 (of all: rank 3) receives fp32 x 2"},
        {[=](C& part) {
             auto const own = Error{ErrorCode::out_of_memory}.in("weights").because(reason).fix(advice);
             return agree_on(part, part.rank() == 1 ? Result<>(own) : Result<>{});
         },
         "rank 1 (of all: rank 3): weights: " + reason + "; " + advice},
    };
}

/// Ranks 1 and 3 of four make a part, as do 0 and 2: both fail in one way.
template <class C>
Result<> check_fault_of_parts(C& comm, PartFault<C> const& fault) {
    auto part = comm.split(comm.rank() % 2);
    if (!part) return part.error();
    return expect_words(fault.act(*part), comm.rank() % 2 == 1 ? fault.words : "of all: rank 2)");
}

/// Parts fail in every way, one after the other.
template <class C>
Result<> check_names_of_parts(C& comm) {
    for (auto const& fault : faults_of_parts<C>()) {
        if (auto const named = check_fault_of_parts(comm, fault); !named) return named;
    }
    // A part of a part is named by the numbers of the whole, too.
    auto part = comm.split(comm.rank() == 0 ? 0 : 1);
    if (!part) return part.error();
    auto pair = part->split(part->rank() == 0 ? 0 : 1);
    if (!pair) return pair.error();
    if (pair->size() == 2) {
        std::vector<float> data(static_cast<std::size_t>(1 + pair->rank()));
        auto const done = all_reduce(*pair, flat(data));
        auto const named = expect_words(done, "ranks 0 (of all: rank 2) and 1 (of all: rank 3)");
        if (!named) return named;
    }
    return barrier(comm);
}

/// Rank 1 of the part of ranks 1 and 3 leaves it, but not the whole group: what rank 1 of all is told where it waits in a barrier or
/// for a message.
template <class C>
Result<> leave_part(C& comm, bool is_for_message = false) {
    Result<> told;
    {
        auto part = comm.split(comm.rank() % 2);
        if (comm.rank() == 1) {
            if (!part) return part.error();
            std::vector<float> data(1);
            auto const done = is_for_message ? receive(*part, flat(data), 1) : barrier(*part);
            told = expect_words(done, "rank 1 (of all: rank 3): left the group");
        }
    }
    // Until rank 1 is done: where a part's failure is that of the whole, the others are told here.
    (void)barrier(comm);
    return told;
}

/// Ranks 1 and 3 of the part of ranks 1, 3, 4 and 5 are `late` for a call: what the others are told at the deadline.
template <class C>
Result<> come_late_to_part(C& comm, std::chrono::milliseconds late) {
    bool const is_outside = comm.rank() == 0 || comm.rank() == 2;
    auto part = comm.split(is_outside ? 0 : 1);
    if (!part) return part.error();
    if (is_outside) return {};
    if (comm.rank() == 3 || comm.rank() == 5) std::this_thread::sleep_for(late);
    return expect_words(barrier(*part), "by rank 1, 3 (of all: rank 3, 5)");
}

}  // namespace shardwise::testing
