#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/cost/collective.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace shardwise;

namespace {

/// A link on which every byte takes a second, or every message: the cost model then counts them.
RankGroup counting_group(std::int32_t ranks, double latency, double bandwidth) {
    Link link;
    link.latency = latency;
    link.bandwidth = bandwidth;
    RankGroup group;
    group.ranks = group.per_node = ranks;
    group.link = link;
    return group;
}
RankGroup by_bytes(std::int32_t ranks) {
    return counting_group(ranks, 0.0, 1.0);
}
RankGroup by_messages(std::int32_t ranks) {
    return counting_group(ranks, 1.0, 0.0);
}
constexpr Efficiency whole = [] {
    Efficiency efficiency = default_efficiency;
    efficiency.link = 1.0;
    return efficiency;
}();

/// What rank 0 counts of one call of each kind with `count` floats per rank where all have as many.
Traffic count_calls(std::int32_t ranks, std::int64_t count) {
    Traffic counted;
    auto const result = run_threads(ranks, [&](Threads& comm) -> Result<> {
        std::vector<float> own(static_cast<std::size_t>(count));
        std::vector<float> all(static_cast<std::size_t>(count * ranks));
        std::vector<float> other(all.size());
        std::vector<std::int64_t> const counts(static_cast<std::size_t>(ranks), count);
        TensorView<float, 1, Host> const own_view{own.data(), {count}};
        TensorView<float, 1, Host> const all_view{all.data(), {count * ranks}};
        TensorView<float, 1, Host> const other_view{other.data(), {count * ranks}};
        if (auto const done = all_reduce(comm, all_view); !done) return done;
        if (auto const done = all_gather<float>(comm, own_view, all_view, counts); !done) return done;
        if (auto const done = reduce_scatter<float>(comm, all_view, own_view, counts); !done) return done;
        if (auto const done = all_to_all<float>(comm, all_view, counts, other_view, counts); !done) return done;
        if (auto const done = broadcast(comm, all_view, ranks - 1); !done) return done;
        if (comm.rank() == 0 && ranks > 1) {
            if (auto const done = receive(comm, own_view, 1); !done) return done;
        } else if (comm.rank() == 1) {
            if (auto const done = send<float>(comm, own_view, 0); !done) return done;
        }
        if (comm.rank() == 0) counted = comm.traffic();
        return barrier(comm);
    });
    REQUIRE(result);
    return counted;
}

}  // namespace

TEST_CASE("Traffic: the bytes that a rank takes are those of the cost model, and so are the messages of two ranks") {
    for (std::int32_t const ranks : {1, 2, 3, 4, 8}) {
        for (std::int64_t const count : {1, 5, 40'000}) {
            // So that every rank's part of an all-reduce is as long.
            auto const traffic = count_calls(ranks, count);
            auto const part = static_cast<double>(count) * sizeof(float);
            auto const bytes = part * ranks;
            CAPTURE(ranks);
            CAPTURE(count);
            auto const check = [&](CollectiveKind kind, double model_bytes, double model_messages) {
                CAPTURE(name_of(kind));
                CHECK(static_cast<double>(traffic.of(kind).bytes) == doctest::Approx(model_bytes).epsilon(1e-12));
                if (ranks <= 2) CHECK(static_cast<double>(traffic.of(kind).messages) == model_messages);
                // Ranks that see all others at once need no rounds of doubling.
                CHECK(static_cast<double>(traffic.of(kind).messages) <= model_messages);
                CHECK(traffic.of(kind).calls == 1);
            };
            auto const gathers = all_gather_seconds(bytes, by_bytes(ranks), whole);
            auto const rounds = all_gather_seconds(bytes, by_messages(ranks), whole);
            check(CollectiveKind::all_gather, gathers, rounds);
            check(CollectiveKind::reduce_scatter, gathers, rounds);
            check(CollectiveKind::all_to_all, dispatch_seconds(bytes, 1, by_bytes(ranks), whole),
                  dispatch_seconds(bytes, 1, by_messages(ranks), whole));
            // The model's all-reduce takes the faster way: the direct one where only messages count, the halved one where
            // only bytes do.
            bool const is_direct = traffic.of(CollectiveKind::all_reduce).messages <= 1;
            check(CollectiveKind::all_reduce,
                  is_direct ? (ranks - 1) * bytes : all_reduce_seconds(bytes, by_bytes(ranks), whole),
                  is_direct ? all_reduce_seconds(bytes, by_messages(ranks), whole) : 2.0 * rounds);
            if (ranks == 1) continue;
            CHECK(static_cast<double>(traffic.of(CollectiveKind::receive).bytes) ==
                  send_seconds(part, by_bytes(2).link, whole));
            CHECK(static_cast<double>(traffic.of(CollectiveKind::receive).messages) ==
                  send_seconds(part, by_messages(2).link, whole));
            CHECK(static_cast<double>(traffic.of(CollectiveKind::broadcast).bytes) == bytes);
            CHECK(traffic.of(CollectiveKind::broadcast).messages == 1);
        }
    }
}

TEST_CASE("Traffic: clear begins anew, and the total is that of all kinds") {
    Traffic traffic;
    traffic.begin(CollectiveKind::all_reduce);
    traffic.take(CollectiveKind::all_reduce, 2, 100);
    traffic.begin(CollectiveKind::barrier);
    CHECK(traffic.total() == CollectiveTraffic{2, 2, 100});
    traffic.clear();
    CHECK(traffic.total() == CollectiveTraffic{});
}
