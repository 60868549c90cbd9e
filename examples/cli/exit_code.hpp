// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

namespace shardwise::cli {

/// What the program's exit status says; fixed by the interface.
enum class ExitCode : int { done = 0, failure = 1, usage = 2, does_not_fit = 3, no_such_device = 4 };

/// The exit status of a program that a signal ended in good order, as shells give it.
[[nodiscard]] constexpr ExitCode stopped_by(int signal) {
    return static_cast<ExitCode>(128 + signal);
}

/// Where an error came up: while the command line was read, or in the work that it asked for.
enum class Stage { arguments, work };

/// The exit status of an error.
[[nodiscard]] constexpr ExitCode exit_code_of(ErrorCode code, Stage stage) {
    switch (code) {
        case ErrorCode::no_such_device:
            return ExitCode::no_such_device;
        case ErrorCode::out_of_memory:
            return ExitCode::does_not_fit;
        case ErrorCode::backend_failure:
        case ErrorCode::file_not_found:
        case ErrorCode::file_unreadable:
        case ErrorCode::file_unwritable:
        case ErrorCode::malformed_file:
        case ErrorCode::missing_field:
        case ErrorCode::invalid_field:
        case ErrorCode::unsupported:
            // A broken driver or file is nobody's wrong usage, even where it shows while --devices is read.
            return ExitCode::failure;
        default:
            return stage == Stage::arguments ? ExitCode::usage : ExitCode::failure;
    }
}

}  // namespace shardwise::cli
