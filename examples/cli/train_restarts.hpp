// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include "exit_code.hpp"
#include "train_answer.hpp"
#include "train_request.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// What the processes of a run that is started again after a failure (--max-restarts) know of it, and tell whoever starts them: lines of a
/// file without a name, which goes with the process that watches over them.
class RestartRecord {
public:
    /// That of this process; nothing where nobody watches over it.
    [[nodiscard]] static std::optional<RestartRecord> find();
    /// The words by which a process finds it, for the variable of that name.
    static constexpr char const* variable = "SHARDWISE_TRAIN_RUN";
    [[nodiscard]] std::string words() const;

    /// Takes over what differs from the command line: the degrees, and from the second start on where the run goes on.
    void apply(TrainRequest& request) const;
    /// Where the run goes on; and that the first step after it is finished.
    void begin(std::int64_t step) const;
    void take_step();
    /// The run is over, for this program's own reasons.
    void finish() const;
    /// Why this rank ends. True where the ranks are started again, so that it is not for this one to tell.
    [[nodiscard]] bool take_failure(Error const& error) const;
    [[nodiscard]] std::vector<TrainRestart> restarts() const;

    /// Of a rank that ends because another one is lost: no status of this program's own (sysexits.h calls it EX_TEMPFAIL).
    static constexpr int lost = 75;

    [[nodiscard]] std::int64_t ranks() const { return dp * tp * pp; }

    /// Starts before this one.
    std::int64_t number = 0;
    std::int64_t dp = 1;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    /// When the last of them failed, by the clock of all processes.
    std::chrono::steady_clock::time_point failed{};
    std::string path;

private:
    bool has_step_ = false;
};

/// Where a launcher starts a run that --resume lets begin anew (torchrun, shardwise launch, SLURM), a file in OUT says that it has begun: when
/// the launcher starts it again, checkpoints that are there are its own, and it goes on from them. A first start takes away what another run
/// left of that.
void resume_own_run(TrainRequest& request, bool is_first);
/// Says so, once the run's beginning is found, and no longer, once it has ended.
void mark_own_run(TrainRequest const& request, bool is_running);

/// The same error with what a user of `train` can do about lost ranks and time that is up.
[[nodiscard]] Error with_way_on(Error error, TrainRequest const& request, bool has_launcher);

/// Runs this very command as processes of its own, and anew when one of them dies, from the last checkpoint and with the ranks that are
/// left, as often as `request` allows. With `has_threads` the ranks are threads of one process.
///
/// Errors  rank_lost with what ended the last of them, also where too few ranks are left; those of LocalProcesses::start
[[nodiscard]] Result<ExitCode> run_with_restarts(TrainRequest const& request, bool has_threads);

}  // namespace shardwise::cli
