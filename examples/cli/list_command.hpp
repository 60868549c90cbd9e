// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.hpp"

#include <array>
#include <cstdint>

namespace shardwise::cli {

enum class ListedKind : std::uint8_t { models, devices, architectures, quants };

inline constexpr std::array<Choice<ListedKind>, 4> listed_choices{{{"models", ListedKind::models},
                                                                   {"devices", ListedKind::devices},
                                                                   {"architectures", ListedKind::architectures},
                                                                   {"quants", ListedKind::quants}}};

}  // namespace shardwise::cli
