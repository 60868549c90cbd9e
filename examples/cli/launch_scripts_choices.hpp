// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "values.hpp"

#include <array>
#include <cstdint>

namespace shardwise::cli {

/// Whose launcher starts the ranks of a plan.
enum class ScriptLauncher : std::uint8_t { slurm, mpirun, torchrun, kubernetes };

inline constexpr std::array<Choice<ScriptLauncher>, 4> script_launcher_choices{
    {{"slurm", ScriptLauncher::slurm},
     {"mpirun", ScriptLauncher::mpirun},
     {"torchrun", ScriptLauncher::torchrun},
     {"kubernetes", ScriptLauncher::kubernetes}}};

}  // namespace shardwise::cli
