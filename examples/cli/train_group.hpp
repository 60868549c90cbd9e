// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>
#include <shardwise/train/checkpoint/run_settings.hpp>

#include "train_answer.hpp"

#include <cstdint>

namespace shardwise::cli {

/// What ranks that are processes tell each other before and after the steps. All of them call each function.

/// The smallest of all ranks' numbers.
///
/// Errors  as a collective
[[nodiscard]] Result<std::int64_t> least_of_ranks(HostCommunicator& world, std::int64_t own);

/// Compares what changes the result of a run with rank 0's.
///
/// Errors  collective_mismatch with the first rank that differs; as a collective
[[nodiscard]] Result<> agree_on_settings(HostCommunicator& world, RunSettings const& settings);

/// Gives all ranks the beginning that rank 0 has found: a folder, whose record they read.
///
/// Errors  rank 0's; as read_checkpoint_record, where a rank does not see the folder; as a collective
[[nodiscard]] Result<ResumePoint> share_begin(HostCommunicator& world, Result<ResumePoint> const& found);

/// Brings the peak and the traffic of each rank to all, and the signal that ended the run on any.
///
/// Errors  as a collective
[[nodiscard]] Result<> share_end(HostCommunicator& world, TrainAnswer& answer);

}  // namespace shardwise::cli
