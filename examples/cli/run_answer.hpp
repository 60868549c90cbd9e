#pragma once

#include <shardwise/session/run_on_threads.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What `run` has to say.
struct RunAnswer {
    std::string model;
    std::vector<std::int32_t> prompt;
    RunReport report;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string run_json(RunAnswer const& answer);
[[nodiscard]] std::string run_text(RunAnswer const& answer);

}  // namespace shardwise::cli
