// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/comm/device/peer_meeting.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which sums over peers are measured.
struct PeerProbe {
    /// Bytes of a rank's vector, in floats.
    std::vector<std::int64_t> sizes{std::int64_t{1} << 13U, std::int64_t{1} << 15U, std::int64_t{1} << 17U,
                                    std::int64_t{1} << 18U, std::int64_t{1} << 19U, std::int64_t{1} << 20U,
                                    std::int64_t{1} << 22U, std::int64_t{1} << 24U};
    /// The best of so many rounds of sums, one after another.
    int rounds = 20;
    int sums = 8;
    Deadline deadline = Deadline::after(std::chrono::seconds(55));
};

namespace detail {

/// The seconds of one sum of each size on a rank, all of which call it; `memory` has the largest, and outlives what is in the stream.
template <class Api>
[[nodiscard]] Result<std::vector<double>> time_peers(DeviceCommunicator<Api>& comm,
                                                     Buffer<float, DeviceBackend<Api>>& memory,
                                                     std::chrono::nanoseconds limit, DeviceStream<Api>& stream,
                                                     PeerProbe const& probe) {
    using B = DeviceBackend<Api>;
    using Clock = std::chrono::steady_clock;
    std::vector<double> all;
    stream.submit([&](typename Api::Stream native) {
        return Api::clear(memory.data(), static_cast<std::size_t>(memory.size()) * sizeof(float), native);
    });
    for (auto const size : probe.sizes) {
        double best = 1e30;
        for (int round = 0; round <= probe.rounds; ++round) {
            auto const goes_on = comm.holds_on_all(!probe.deadline.has_passed());
            if (!goes_on) return goes_on.error();
            if (!*goes_on) return late({.name = "sums over devices"});
            auto const start = Clock::now();
            TensorView<float, 1, B> const out(memory.data(), {size / 4});
            auto const put = comm.put_together([&]() -> Result<> {
                for (int i = 0; i < probe.sums; ++i) {
                    auto const done =
                        all_reduce<float>(*comm.peers(), comm.own_rank(),
                                          TensorView<float const, 1, B>(out.data(), {size / 4}), out, stream);
                    if (!done) return done;
                }
                return {};
            });
            if (!put) return put.error();
            // Not until the deadline alone: all ranks end together.
            if (auto const done = stream.synchronize(Deadline::after(limit)); !done) return done.error();
            auto const seconds = std::chrono::duration<double>(Clock::now() - start).count() / probe.sums;
            // The first one loads code.
            if (round > 0) best = std::min(best, seconds);
        }
        all.push_back(std::max(best, 1e-9));
    }
    return all;
}

template <class Api>
[[nodiscard]] Result<std::vector<double>> time_peers_on(std::span<std::int32_t const> devices, std::int32_t ranks,
                                                        std::int64_t two_shot_bytes, PeerProbe const& probe) {
    std::vector<double> found;
    PeerMeeting<Api> meeting(ranks);
    PeerOptions options;
    options.two_shot_bytes = two_shot_bytes;
    options.on_device =
        (ranks + static_cast<std::int32_t>(devices.size()) - 1) / static_cast<std::int32_t>(devices.size());
    auto const run = [&](Threads& thread) -> Result<> {
        HostCommunicator world(std::move(thread));
        auto const device = devices[static_cast<std::size_t>(world.rank()) % devices.size()];
        auto context = DeviceBackend<Api>::Context::open({.device = device});
        auto const opened = context ? Result<>{} : Result<>{context.error()};
        if (auto const agreed = agree_on(world, opened); !agreed) return agreed;
        auto const largest = *std::max_element(probe.sizes.begin(), probe.sizes.end());
        auto memory = Buffer<float, DeviceBackend<Api>>::allocate(**context, largest / 4);
        auto const allocated = memory ? Result<>{} : Result<>{memory.error()};
        if (auto const agreed = agree_on(world, allocated); !agreed) return agreed;
        auto stream = (*context)->make_stream();
        auto joined = meeting.join(world, **context, stream, options);
        if (!joined) return joined.error();
        auto const limit = (*context)->limit();
        DeviceCommunicator<Api> comm(world, *joined, stream);
        auto times = time_peers(comm, *memory, limit, stream, probe);
        if (!times) (void)comm.peers()->give_up(comm.own_rank());
        (void)stream.synchronize(Deadline::after(limit));
        if (!times) return world.fail(times.error());
        if (world.rank() == 0) found = *std::move(times);
        // No memory goes while another rank's kernel may look at it.
        return barrier(world);
    };
    if (probe.deadline.has_passed()) return late({.name = "sums over devices"});
    // Ranks end together where it passes later: who left alone would take along what others still read.
    auto const limit = probe.deadline.left() + std::chrono::minutes(1);
    if (auto const done = run_threads(ranks, run, {.timeout = limit}); !done) return done.error();
    return found;
}

}  // namespace detail

/// How long sums over so many ranks take on these devices (rank r on devices[r % devices]), made in one step and in two, by size.
///
/// Memory  on each rank's device the largest size, and what a PeerGroup keeps
/// Errors  unsupported where devices do not reach each other; those of contexts and streams; deadline_exceeded
template <class Api>
[[nodiscard]] Result<List<AllReduceTime>> measure_peers(std::span<std::int32_t const> devices, std::int32_t ranks,
                                                        PeerProbe const& probe = {}) {
    constexpr auto never = std::numeric_limits<std::int64_t>::max();
    auto const one = detail::time_peers_on<Api>(devices, ranks, never, probe);
    if (!one) return one.error();
    auto const two = detail::time_peers_on<Api>(devices, ranks, 0, probe);
    if (!two) return two.error();
    auto const used = devices.first(std::min(devices.size(), static_cast<std::size_t>(ranks)));
    std::set<std::int32_t> const different(used.begin(), used.end());
    auto const count = static_cast<std::int32_t>(different.size());
    List<AllReduceTime> times;
    for (std::size_t i = 0; i < probe.sizes.size(); ++i)
        times.push_back({ranks, probe.sizes[i], (*one)[i], (*two)[i], count});
    return times;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
