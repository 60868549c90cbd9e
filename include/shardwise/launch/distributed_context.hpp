// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/launch/rank_environment.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#ifdef SHARDWISE_HAS_GLOO
#include <shardwise/comm/barrier.hpp>
#include <shardwise/launch/detail/meeting_folder.hpp>
#include <shardwise/launch/detail/own_address.hpp>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a process joins the other ranks.
struct DistributedOptions {
    /// How long a call waits for the other ranks, and how long joining waits for all to come.
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);
    /// Ranks of MPI whatever variables are set.
    bool is_mpi = false;
    /// A folder that all machines see and only this user may write, where ranks of several machines meet over Gloo. Where it
    /// is not there, it is made and goes once they have met.
    std::string folder{};
    /// Asked while others are waited for: an error ends the waiting.
    std::function<std::optional<Error>()> gives_up{};
};

namespace detail {

/// The name under which the ranks of a job find each other's memory.
[[nodiscard]] inline std::string group_key(RankEnvironment const& environment) {
    std::string key = environment.address + "-" + std::to_string(environment.port) + "-" + environment.run;
    for (char& c : key) {
        bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '.' && c != '-' && c != '_') c = '_';
    }
    // Long names keep their ends: a port and a run are told apart there.
    return key.size() <= 150 ? key : key.substr(key.size() - 150);
}

}  // namespace detail

/// This process among the ranks that a launcher started: its number, and a communicator with all of them.
class DistributedContext {
public:
    /// Joins the other ranks: those of MPI where a launcher serves it (mpirun, srun --mpi) or it is asked for; else, by
    /// torchrun's or SLURM's variables, over shared memory where all are on this machine, and over Gloo where they are
    /// on several.
    ///
    /// Errors  unsupported where MPI or Gloo is needed and not built in, with what to install; invalid_argument without
    ///         a folder for Gloo; what the communicators' join refuses
    [[nodiscard]] static Result<DistributedContext> join(RankEnvironment const& environment,
                                                         DistributedOptions const& options = {}) {
        bool const is_none = environment.launcher == RankLauncher::none;
        if (options.is_mpi || environment.has_mpi || is_none) return join_mpi(environment, options);
        if (environment.is_one_machine()) {
            SharedMemoryOptions shared;
            shared.timeout = options.timeout;
            shared.gives_up = options.gives_up;
            return hold(environment, SharedMemory::join(detail::group_key(environment), environment.rank,
                                                        environment.ranks, shared));
        }
        return join_gloo(environment, options);
    }

    [[nodiscard]] RankEnvironment const& environment() const { return environment_; }
    /// One rank of all: the one that prints and writes.
    [[nodiscard]] bool is_main() const { return environment_.rank == 0; }
    /// This machine's number among the job's; nothing where the launcher does not say.
    [[nodiscard]] std::optional<std::int32_t> node() const {
        if (!environment_.node && environment_.is_one_machine()) return 0;
        return environment_.node;
    }
    /// Among this machine's ranks.
    [[nodiscard]] std::int32_t local_rank() const { return environment_.local_rank; }
    /// All ranks.
    [[nodiscard]] HostCommunicator& world() { return world_; }

private:
    DistributedContext(RankEnvironment environment, HostCommunicator world)
        : environment_(std::move(environment)), world_(std::move(world)) {}

    template <class Joined>
    [[nodiscard]] static Result<DistributedContext> hold(RankEnvironment environment, Joined joined) {
        if (!joined) return joined.error();
        HostCommunicator world(std::move(*joined));
        environment.rank = world.rank();
        environment.ranks = world.size();
        return Result<DistributedContext>(DistributedContext(std::move(environment), std::move(world)));
    }

    [[nodiscard]] static Result<DistributedContext> join_mpi(RankEnvironment const& environment,
                                                             DistributedOptions const& options) {
#ifdef SHARDWISE_HAS_MPI
        return hold(environment, Mpi::join({.timeout = options.timeout}));
#else
        (void)environment;
        (void)options;
        return Error{ErrorCode::unsupported}
            .in("MPI")
            .because("is not built into this program")
            .fix("install an MPI for C++ (Debian: libopenmpi-dev) and build with -DSHARDWISE_MPI=ON");
#endif
    }

    [[nodiscard]] static Result<DistributedContext> join_gloo(RankEnvironment const& environment,
                                                              DistributedOptions const& options) {
#ifdef SHARDWISE_HAS_GLOO
        auto const& folder = options.folder.empty() ? environment.folder : options.folder;
        if (folder.empty()) {
            return Error{ErrorCode::invalid_argument}
                .in("SHARDWISE_RENDEZVOUS")
                .because("is not set, and ranks of several machines meet in a folder")
                .fix("set it to an empty folder of this job that all machines see");
        }
        auto const meeting = detail::MeetingFolder::open(folder, options.folder.empty());
        if (!meeting) return meeting.error();
        // Any port will do where the launcher names none: nothing is sent to it.
        auto address = detail::own_address(environment.address, std::max(environment.port, 1));
        if (!address) return address.error();
        auto joined = hold(environment, Gloo::join(folder, environment.rank, environment.ranks,
                                                   {.timeout = options.timeout, .address = *std::move(address)}));
        // Others may still read there until all have joined.
        if (joined) {
            if (auto const met = barrier(joined->world()); !met) return met.error();
        }
        return joined;
#else
        (void)options;
        return Error{ErrorCode::unsupported}
            .in("Gloo")
            .because("is not built into this program, and the ranks are on several machines")
            .got(environment.local_ranks)
            .expected(environment.ranks)
            .fix("install Gloo (Debian: libgloo-dev) and build with -DSHARDWISE_GLOO=ON, or start the ranks by mpirun");
#endif
    }

    RankEnvironment environment_;
    HostCommunicator world_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
