// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "values.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace shardwise::cli {

enum class Shell : std::uint8_t { bash, zsh, fish };

inline constexpr std::array<Choice<Shell>, 3> shell_choices{
    {{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}}};

/// The script that completes the program's command lines in bash; made from the table of commands, as the others are.
[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();
[[nodiscard]] std::string fish_completion();

}  // namespace shardwise::cli
