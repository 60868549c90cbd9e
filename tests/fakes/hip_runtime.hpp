// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_image.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace shardwise::testing {

/// What the fake HIP runtime (hip_runtime.cpp) is told and has seen.
struct FakeHip {
    /// The current device; below 0 there is none.
    int device = 0;
    std::string processor = "gfx90a:sramecc+:xnack-";
    /// Loads and launches that fail from now on.
    int failing_loads = 0;
    int failing_launches = 0;
    std::size_t argument_bytes = 0;

    int loads = 0;
    /// Loads while a capture would have refused them.
    int captured_loads = 0;
    std::vector<FakeLaunch> launches;
    /// hipStreamCaptureModeGlobal, as of a new thread.
    int capture_mode = 0;
    int last_error = 0;
};

[[nodiscard]] FakeHip& fake_hip();

}  // namespace shardwise::testing
