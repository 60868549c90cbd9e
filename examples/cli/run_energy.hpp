// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/device_monitor.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What the tokens of a run took of this machine's energy, whoever else used it. What cannot be read is empty.
struct EnergyAnswer {
    /// From before loading to the last token, and of that what followed the first token.
    ///
    /// Units  joules
    std::optional<double> total{};
    std::optional<double> decode{};
    /// Of the tokens after the first of each request.
    std::optional<double> per_token{};
    /// Why something is unknown.
    std::vector<std::string> notes{};
};

/// Reads the energy counters of what a run computes on: the processors', which RAPL tells.
///
/// Order  of one thread at a time
class RunEnergy {
public:
    /// Takes the first look.
    ///
    /// Errors  as DeviceMonitor::open
    [[nodiscard]] static Result<RunEnergy> start();

    /// A token has come. Looks at the first one, and again each second, so that no counter wraps twice between two looks.
    void take_token();
    /// Takes the last look.
    [[nodiscard]] EnergyAnswer finish(std::int64_t decode_tokens);

private:
    explicit RunEnergy(DeviceMonitor monitor) : monitor_(std::move(monitor)) {}

    /// What was used since the first look.
    [[nodiscard]] std::optional<double> look();

    DeviceMonitor monitor_;
    MonitorSample sample_;
    std::optional<double> begin_;
    std::optional<double> first_token_;
    bool has_token_ = false;
    std::chrono::steady_clock::time_point looked_{};
};

/// One line for people.
[[nodiscard]] std::string energy_text(EnergyAnswer const& energy);

}  // namespace shardwise::cli
