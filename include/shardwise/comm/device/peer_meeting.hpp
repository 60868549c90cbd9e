// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/try_peers.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>

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
        auto const works = try_peers(comm, **joined, context, stream, options.limit);
        // Every rank has taken it by now.
        if (comm.rank() == 0) group.reset();
        if (works) return joined;
        (*joined)->leave(Rank{comm.rank()});
        return works.error();
    }

private:
    std::vector<DeviceContext<Api>*> contexts_;
    /// By the number of a group's first rank.
    std::vector<std::optional<Result<Peers>>> groups_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
