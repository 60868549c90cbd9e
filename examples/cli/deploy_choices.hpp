// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/deploy_request.hpp>

#include "values.hpp"

#include <array>
#include <cstdint>

namespace shardwise::cli {

/// What `deploy` writes.
enum class DeployFormat : std::uint8_t { docker, compose, kubernetes, apptainer };

inline constexpr std::array<Choice<Engine>, 5> engine_choices{{{"vllm", Engine::vllm},
                                                               {"sglang", Engine::sglang},
                                                               {"llama-server", Engine::llama_server},
                                                               {"tgi", Engine::tgi},
                                                               {"tei", Engine::tei}}};

inline constexpr std::array<Choice<DeployFormat>, 4> format_choices{{{"docker", DeployFormat::docker},
                                                                     {"compose", DeployFormat::compose},
                                                                     {"kubernetes", DeployFormat::kubernetes},
                                                                     {"apptainer", DeployFormat::apptainer}}};

inline constexpr std::array<Choice<DeviceKind>, 2> deploy_prefer_choices{
    {{"cuda", DeviceKind::cuda}, {"hip", DeviceKind::hip}}};

}  // namespace shardwise::cli
