// SPDX-License-Identifier: Apache-2.0
#include "run_energy.hpp"

#include "detect_options.hpp"

#include <cstdio>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::optional<double> difference(std::optional<double> end, std::optional<double> begin) {
    if (!end || !begin) return std::nullopt;
    return *end - *begin;
}

}  // namespace

Result<RunEnergy> RunEnergy::start() {
    // Ranks compute on the host's cores: no accelerator's energy is the run's.
    auto monitor = DeviceMonitor::open({"cpu", program_detection_options()});
    if (!monitor) return monitor.error();
    RunEnergy energy(*std::move(monitor));
    energy.begin_ = energy.look();
    return energy;
}

std::optional<double> RunEnergy::look() {
    // A look that fails leaves nothing of the one before.
    sample_.host = {};
    monitor_.read(sample_);
    looked_ = std::chrono::steady_clock::now();
    return sample_.host.energy;
}

void RunEnergy::take_token() {
    if (has_token_ && std::chrono::steady_clock::now() - looked_ < std::chrono::seconds(1)) return;
    auto const now = look();
    if (!has_token_) first_token_ = now;
    has_token_ = true;
}

EnergyAnswer RunEnergy::finish(std::int64_t decode_tokens) {
    EnergyAnswer answer;
    auto const end = look();
    answer.total = difference(end, begin_);
    answer.decode = difference(end, first_token_);
    if (answer.decode && decode_tokens > 0) answer.per_token = *answer.decode / static_cast<double>(decode_tokens);
    answer.notes = monitor_.notes();
    return answer;
}

std::string energy_text(EnergyAnswer const& energy) {
    if (!energy.total) return "shardwise: energy unknown\n";
    char line[160];
    if (energy.per_token) {
        std::snprintf(line, sizeof line, "shardwise: %.3g J in all, %.3g J a generated token (the whole machine's)\n",
                      *energy.total, *energy.per_token);
    } else {
        std::snprintf(line, sizeof line,
                      "shardwise: %.3g J in all (the whole machine's); no second token to count by\n", *energy.total);
    }
    return line;
}

}  // namespace shardwise::cli
