// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/launch/distributed_context.hpp>
#include <shardwise/launch/local_processes.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"
#include "console.hpp"
#include "rank_kind.hpp"
#include "train_request.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
    /// The same for training, where a launcher's ranks are data-parallel unless --dp says otherwise; with --mode auto they are left to be
    /// chosen.
    [[nodiscard]] Result<> fit(Arguments const& arguments, TrainRequest& request);

    /// Starts the processes where this one does that, and joins the other ranks. A call waits for them as long as `timeout`.
    ///
    /// Errors  those of LocalProcesses::start and DistributedContext::join
    [[nodiscard]] Result<> join(std::chrono::nanoseconds timeout);

    /// Only this rank prints.
    [[nodiscard]] bool is_first() const { return environment_.rank == 0; }
    [[nodiscard]] std::int32_t rank() const { return environment_.rank; }
    /// All ranks; null where they are threads.
    [[nodiscard]] HostCommunicator* world() { return context_ ? &context_->world() : nullptr; }
    [[nodiscard]] bool is_group() const { return is_group_; }
    /// True where a launcher ends the job as soon as one rank ends with a failure.
    [[nodiscard]] bool has_launcher() const { return is_group_ && !is_own_; }
    /// True in a process that this program has started as one of its ranks.
    [[nodiscard]] bool is_started() const { return is_own_ && !is_starter_; }
    /// Of this machine.
    [[nodiscard]] std::int32_t local_ranks() const { return environment_.local_ranks; }
    [[nodiscard]] RankKind kind() const;
    /// Whether they meet over MPI, or over Gloo as ranks of several machines do, where one thread of a rank at a time may exchange.
    [[nodiscard]] bool has_one_thread() const {
        return kind() == RankKind::mpi || (has_launcher() && !environment_.is_one_machine());
    }

    /// Leaves the others, or does not wait for them any longer: this process trains by itself.
    void leave();

    /// Waits for the processes that this one started.
    ///
    /// Errors  rank_lost with the rank that failed and how
    [[nodiscard]] Result<> finish();

private:
    /// Takes rank 0 of so many that this process starts.
    void become_starter(std::int64_t ranks);
    [[nodiscard]] std::string launcher() const;

    RankEnvironment environment_;
    bool is_group_ = false;
    bool is_mpi_ = false;
    /// This process starts the others, or was started so.
    bool is_own_ = false;
    bool is_starter_ = false;
    std::unique_ptr<LocalProcesses> started_ = std::make_unique<LocalProcesses>();
    std::optional<DistributedContext> context_;
};

/// Gives every rank what rank 0 has.
///
/// Errors  as a collective
[[nodiscard]] Result<> share_ids(HostCommunicator& world, std::vector<std::int32_t>& ids);

/// Says what went wrong, on rank 0 only where the ranks have come together. Before that a rank says it itself, unless
/// its launcher has ended the job by then, because rank 0 said the same.
[[nodiscard]] ExitCode report_of_rank(Error const& error, Stage stage, RunRanks& ranks, bool is_json);

/// Set for the processes that this program starts itself as its ranks: they join its group whatever else is set.
inline constexpr char const* own_rank_variable = "SHARDWISE_RUN";

/// This process's own command line, as it was given, with the path of this very program.
///
/// Errors  backend_failure where the system does not say
[[nodiscard]] Result<std::vector<std::string>> own_command();

}  // namespace shardwise::cli
