// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace shardwise::cli {

/// The status that an HTTP server answers a GET of `path` with; 0 where none answers in time. An address that means all of
/// this machine's is asked on its loopback.
[[nodiscard]] int http_status(std::string const& address, std::int32_t port, std::string const& path,
                              std::chrono::milliseconds limit);

/// "http://127.0.0.1:8000", as a client on this machine writes it.
[[nodiscard]] std::string http_address(std::string const& address, std::int32_t port);

}  // namespace shardwise::cli
