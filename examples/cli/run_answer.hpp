// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/run_on_threads.hpp>

#include "run_energy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What `run` has to say.
struct RunAnswer {
    std::string model;
    std::vector<std::int32_t> prompt;
    RunReport report;
    /// Nothing where there is no tokenizer.
    std::optional<std::string> text;
    std::vector<std::string> warnings;
    /// Where it was asked for.
    std::optional<EnergyAnswer> energy{};
    /// Where ranks computed; empty: on the processor.
    RunDevices devices{};
};

[[nodiscard]] std::string run_json(RunAnswer const& answer);
/// The ids on a line, where there is no text.
[[nodiscard]] std::string run_ids(RunAnswer const& answer);
/// What was measured, on a line.
[[nodiscard]] std::string run_rates(RunAnswer const& answer);

}  // namespace shardwise::cli
