// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "arguments.hpp"
#include "monitor_listen.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace shardwise::cli {

/// What `monitor` is asked to do.
struct MonitorRequest {
    /// What comes out, and when.
    enum class Form { text, json, csv, prometheus };

    std::string devices;
    std::chrono::nanoseconds interval{std::chrono::seconds(1)};
    Form form = Form::text;
    /// One look only.
    bool is_once = false;
    /// The file of rows; "-" is the standard output, "" none.
    std::string csv;
    std::optional<ListenAddress> listen;
};

/// Reads and checks the flags of `monitor`.
///
/// Errors  invalid_argument
[[nodiscard]] Result<MonitorRequest> read_monitor_request(Arguments const& arguments);

}  // namespace shardwise::cli
