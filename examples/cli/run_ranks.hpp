// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/launch/distributed_context.hpp>
#include <shardwise/launch/local_processes.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardwise::cli {

/// The ranks of a run as this process sees them. Where a launcher started it, or it starts processes itself, it is one
/// rank of a group; else all ranks are threads of it.
class RunRanks {
public:
    /// Finds out what the ranks are, by --ranks and the launcher's variables; nothing is started.
    ///
    /// Errors  unknown_name for --ranks; what read_rank_environment refuses
    [[nodiscard]] static Result<RunRanks> find(Arguments const& arguments);

    /// Makes the degrees and the ranks agree: a launcher's ranks are all tensor-parallel unless --tp says otherwise.
    ///
    /// Errors  invalid_argument where the degrees ask for other ranks than there are
    [[nodiscard]] Result<> fit(Arguments const& arguments, RunOptions& options);

    /// Starts the processes where this one does that, and joins the other ranks.
    ///
    /// Errors  those of LocalProcesses::start and DistributedContext::join
    [[nodiscard]] Result<> join(RunOptions const& options);

    /// Only this rank prints.
    [[nodiscard]] bool is_first() const { return environment_.rank == 0; }
    [[nodiscard]] std::int32_t rank() const { return environment_.rank; }
    /// All ranks; null where they are threads.
    [[nodiscard]] HostCommunicator* world() { return context_ ? &context_->world() : nullptr; }
    [[nodiscard]] bool is_group() const { return is_group_; }
    /// True where a launcher ends the job as soon as one rank ends with a failure.
    [[nodiscard]] bool has_launcher() const { return is_group_ && !is_own_; }

    /// Waits for the processes that this one started.
    ///
    /// Errors  rank_lost with the rank that failed and how
    [[nodiscard]] Result<> finish();

private:
    RankEnvironment environment_;
    bool is_group_ = false;
    bool is_mpi_ = false;
    /// This process starts the others, or was started so.
    bool is_own_ = false;
    std::unique_ptr<LocalProcesses> started_ = std::make_unique<LocalProcesses>();
    std::optional<DistributedContext> context_;
};

/// Gives every rank what rank 0 has.
///
/// Errors  as a collective
[[nodiscard]] Result<> share_ids(HostCommunicator& world, std::vector<std::int32_t>& ids);

}  // namespace shardwise::cli
