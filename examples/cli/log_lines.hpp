// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/log.hpp>

#include <optional>

namespace shardwise::cli {

/// The program's log: lines on stderr, "[rank2] 1234.567890 debug: model.layers.3: ...", as SHARDWISE_LOG says. The
/// seconds are of the clock that only goes forwards: one for all processes of a machine.
class LogLines {
public:
    /// Reads SHARDWISE_LOG; unset or empty, nothing is logged.
    ///
    /// Errors  unknown_name for another level than error, warn, info and debug
    [[nodiscard]] static Result<LogLines> from_environment();

    /// What the library logs to; this outlives it.
    [[nodiscard]] Log log() const { return most_ ? Log(*this, *most_) : Log(); }
    /// Writes one line, whole, whoever else writes.
    void operator()(LogLine const& line) const;

private:
    std::optional<LogLevel> most_;
};

}  // namespace shardwise::cli
