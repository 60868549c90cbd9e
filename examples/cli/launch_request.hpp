// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/launch/launch_options.hpp>

#include "arguments.hpp"
#include "choices.hpp"

#include <array>

namespace shardwise::cli {

inline constexpr std::array<Choice<bool>, 2> prefix_choices{{{"rank", true}, {"none", false}}};
/// Whether processes are bound.
inline constexpr std::array<Choice<bool>, 2> bind_choices{{{"none", false}, {"numa", true}}};

/// What `launch` is asked to do.
struct LaunchRequest {
    LaunchOptions options{};
    bool is_masked = false;
    bool is_bound = false;
};

/// Reads and checks the flags of `launch`.
///
/// Errors  invalid_argument, unknown_name
[[nodiscard]] Result<LaunchRequest> read_launch_request(Arguments const& arguments);

}  // namespace shardwise::cli
