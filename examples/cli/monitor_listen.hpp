// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

/// Where metrics are served.
struct ListenAddress {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;
};

/// Reads "9400", ":9400", "127.0.0.1:9400", "[::1]:9400"; without an address this machine alone reaches it.
///
/// Errors  invalid_argument
[[nodiscard]] Result<ListenAddress> read_listen_address(std::string_view word);

/// Answers `GET /metrics` over HTTP: nothing else, without encryption, a connection for each answer. Slow, silent and
/// many clients hold up neither each other nor the program.
class MetricsListener {
public:
    /// Begins to listen; port 0 takes a free one.
    ///
    /// Errors  invalid_argument for an address that is none; backend_failure with the system call
    [[nodiscard]] static Result<MetricsListener> open(ListenAddress const& address);
    MetricsListener(MetricsListener&& other) noexcept;
    MetricsListener& operator=(MetricsListener&&) = delete;
    ~MetricsListener();

    /// "127.0.0.1:9400"
    [[nodiscard]] std::string const& name() const { return name_; }
    /// Answers what has come, for at most this long; `text` gives the metrics.
    void serve(std::chrono::milliseconds limit, std::function<std::string()> const& text);

private:
    struct Client {
        int descriptor = -1;
        std::chrono::steady_clock::time_point since{};
        std::string request{};
        std::string answer{};
        std::size_t sent = 0;
    };
    MetricsListener(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
    void accept_clients();
    /// False once the client is done with.
    bool advance(Client& client, std::function<std::string()> const& text);

    int descriptor_ = -1;
    std::string name_;
    std::array<Client, 16> clients_{};
};

}  // namespace shardwise::cli
