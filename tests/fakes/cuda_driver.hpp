// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_image.hpp"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace shardwise::testing {

/// What the fake driver (cuda_driver.cpp) is told and has seen, through shardwise_fake_cuda of the library.
struct FakeCuda {
    /// The current context of threads that shardwise_fake_cuda_context has given none.
    void* context = this;
    int capability = 80;
    /// Loads that fail from now on.
    int failing_loads = 0;
    std::size_t argument_bytes = 0;
    /// So many loads wait for each other, ten seconds at most: what a lock keeps apart does not meet.
    std::atomic<int> meeting_loads{0};

    std::atomic<int> loads{0};
    std::atomic<int> missed_meetings{0};
    /// Loads while a capture would have refused them.
    int captured_loads = 0;
    std::vector<FakeLaunch> launches;
};

}  // namespace shardwise::testing
