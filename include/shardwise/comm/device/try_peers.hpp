// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Three sums of numbers that each rank knows, one after another, in `memory`, which goes once nothing in the stream looks at it.
template <class Api>
[[nodiscard]] Result<> meet_in_kernels(HostCommunicator& comm, PeerGroup<Api>& peers, DeviceContext<Api>& context,
                                       DeviceStream<Api>& stream, Buffer<float, DeviceBackend<Api>>& memory) {
    using Backend = DeviceBackend<Api>;
    constexpr std::int64_t elements = 1024;
    std::vector<float> values(elements, static_cast<float>(comm.rank() + 1));
    auto made = Buffer<float, Backend>::allocate(context, elements);
    if (made) {
        memory = std::move(*made);
        TensorView<float const, 1, Host> const from(values.data(), {elements});
        auto const copied = Backend::template copy<float>(from, memory.view(), stream);
        if (!copied) stream.fail(copied.error());
        (void)stream.synchronize(Deadline::after(context.limit()));
    } else {
        stream.fail(made.error());
    }
    // Nobody allocates while a kernel waits: a driver may do that only when nothing runs.
    if (auto const met = barrier(comm); !met) return met;
    for (std::int32_t turn = 0; turn < comm.size(); ++turn) {
        for (int i = 0; i < 3 && turn == comm.rank() && !stream.failure(); ++i) {
            TensorView<float const, 1, Backend> const in = memory.view();
            auto const put = all_reduce<float>(peers, Rank{comm.rank()}, in, memory.view(), stream);
            if (!put) stream.fail(put.error());
        }
        if (auto const met = barrier(comm); !met) return met;
    }
    // Who has put nothing in ends the others' wait.
    if (stream.failure()) (void)peers.give_up(Rank{comm.rank()});
    if (auto const done = stream.synchronize(Deadline::after(context.limit())); !done) return done;
    TensorView<float, 1, Host> const to(values.data(), {elements});
    auto const copied = Backend::template copy<float>(std::as_const(memory).view(), to, stream);
    if (!copied) return copied;
    if (auto const done = stream.synchronize(Deadline::after(context.limit())); !done) return done;
    auto const ranks = static_cast<float>(comm.size());
    auto const expected = ranks * (ranks + 1.0F) / 2.0F * ranks * ranks;
    if (std::all_of(values.begin(), values.end(), [&](float value) { return value == expected; })) return {};
    return Error{ErrorCode::backend_failure}
        .in("peers")
        .because("a sum over the ranks' devices is not what it is")
        .got(static_cast<std::int64_t>(values.front()))
        .expected(static_cast<std::int64_t>(expected));
}

}  // namespace detail

/// Tries a group of peers, of which every rank calls it: each puts sums into its stream before the next rank puts in its own, as it comes
/// in a run, so that a driver under which one rank's kernels keep another's from running is found out here. Success on all ranks or an
/// error on all; after an error the stream may have failed. `limit` is how long ranks wait for each other from then on.
///
/// Errors  deadline_exceeded where the ranks' kernels do not meet; unsupported where they do not on another rank; those of the collectives
template <class Api>
[[nodiscard]] Result<> try_peers(HostCommunicator& comm, PeerGroup<Api>& peers, DeviceContext<Api>& context,
                                 DeviceStream<Api>& stream, std::chrono::microseconds limit) {
    constexpr std::chrono::seconds trial_limit{10};
    Rank const own{comm.rank()};
    peers.wait_at_most(own, std::min<std::chrono::microseconds>(limit, trial_limit));
    Buffer<float, DeviceBackend<Api>> memory;
    auto const works = detail::meet_in_kernels(comm, peers, context, stream, memory);
    if (!works) {
        // No memory goes while a kernel looks at it.
        (void)peers.give_up(own);
        (void)stream.synchronize(Deadline::after(context.limit()));
    }
    std::int32_t all = works ? 1 : 0;
    auto const told = all_reduce(comm, TensorView<std::int32_t, 1, Host>(&all, {1}), ReduceOp::min);
    peers.wait_at_most(own, limit);
    if (!told) return told;
    if (!works) return works;
    if (all != 0) return {};
    return Error{ErrorCode::unsupported}
        .in("peers")
        .because("do not work on another rank's device")
        .fix("use staged collectives");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
