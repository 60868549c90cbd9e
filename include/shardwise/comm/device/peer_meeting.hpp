// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where ranks that are threads of one process find each other's devices. Whoever starts the threads has it, and it outlives them.
template <class Api>
class PeerMeeting {
public:
    using Peers = std::shared_ptr<PeerGroup<Api>>;

    /// For so many ranks, of one group or of groups that are split off it.
    explicit PeerMeeting(std::int32_t ranks)
        : contexts_(static_cast<std::size_t>(ranks)), groups_(static_cast<std::size_t>(ranks)) {}

    /// The peers of a group of these threads, of which every rank calls it: the same answer on all. The group has been tried: each rank
    /// puts sums into its stream before the next rank puts in its own, as it comes in a run, so that a driver under which one rank's
    /// kernels keep another's from running is found out here. After an error the stream may have failed.
    ///
    /// Errors  as PeerGroup::open; deadline_exceeded where the ranks' kernels do not meet; those of the collectives
    [[nodiscard]] Result<Peers> join(HostCommunicator& comm, DeviceContext<Api>& context, DeviceStream<Api>& stream,
                                     PeerOptions options) {
        auto const names = comm.rank_names();
        auto const place = [&](std::int32_t rank) { return static_cast<std::size_t>(names.in_whole(rank)); };
        contexts_[place(comm.rank())] = &context;
        if (auto const met = barrier(comm); !met) return met.error();
        auto& group = groups_[place(0)];
        if (comm.rank() == 0) {
            std::vector<DeviceContext<Api>*> contexts;
            for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
                contexts.push_back(contexts_[place(rank)]);
                options.numbers.push_back(names.in_whole(rank));
            }
            auto opened = PeerGroup<Api>::open(contexts, options);
            group.emplace(opened ? Result<Peers>(std::move(*opened)) : Result<Peers>(opened.error()));
        }
        if (auto const met = barrier(comm); !met) return met.error();
        auto joined = *group;
        if (!joined) return joined;
        auto& peers = **joined;
        Rank const own{comm.rank()};
        peers.wait_at_most(own, std::min<std::chrono::microseconds>(options.limit, trial_limit));
        auto const works = meet_in_kernels(comm, peers, context, stream);
        std::int32_t all = works ? 1 : 0;
        auto const told = all_reduce(comm, TensorView<std::int32_t, 1, Host>(&all, {1}), ReduceOp::min);
        // Every rank has taken it by now.
        if (comm.rank() == 0) group.reset();
        peers.wait_at_most(own, options.limit);
        if (told && all != 0) return joined;
        peers.leave(own);
        if (!told) return told.error();
        if (!works) return works.error();
        return Error{ErrorCode::unsupported}
            .in("peers")
            .because("do not work on another rank's device")
            .fix("use staged collectives");
    }

private:
    static constexpr std::chrono::seconds trial_limit{10};
    static constexpr std::int64_t trial_elements = 1024;

    /// Three sums of numbers that each rank knows, one after another.
    [[nodiscard]] Result<> meet_in_kernels(HostCommunicator& comm, PeerGroup<Api>& peers, DeviceContext<Api>& context,
                                           DeviceStream<Api>& stream) {
        using Backend = DeviceBackend<Api>;
        std::vector<float> values(trial_elements, static_cast<float>(comm.rank() + 1));
        auto memory = Buffer<float, Backend>::allocate(context, trial_elements);
        if (memory) {
            TensorView<float const, 1, Host> const from(values.data(), {trial_elements});
            auto const copied = Backend::template copy<float>(from, memory->view(), stream);
            if (!copied) stream.fail(copied.error());
            (void)stream.synchronize(Deadline::after(context.limit()));
        } else {
            stream.fail(memory.error());
        }
        // Nobody allocates while a kernel waits: a driver may do that only when nothing runs.
        if (auto const met = barrier(comm); !met) return met;
        for (std::int32_t turn = 0; turn < comm.size(); ++turn) {
            for (int i = 0; i < 3 && turn == comm.rank() && !stream.failure(); ++i) {
                TensorView<float const, 1, Backend> const in = memory->view();
                auto const put = all_reduce<float>(peers, Rank{comm.rank()}, in, memory->view(), stream);
                if (!put) stream.fail(put.error());
            }
            if (auto const met = barrier(comm); !met) return met;
        }
        // Who has put nothing in ends the others' wait.
        if (stream.failure()) (void)peers.give_up(Rank{comm.rank()});
        if (auto const done = stream.synchronize(Deadline::after(context.limit())); !done) return done;
        TensorView<float, 1, Host> const to(values.data(), {trial_elements});
        auto const copied = Backend::template copy<float>(std::as_const(*memory).view(), to, stream);
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

    std::vector<DeviceContext<Api>*> contexts_;
    /// By the number of a group's first rank.
    std::vector<std::optional<Result<Peers>>> groups_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
