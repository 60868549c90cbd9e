// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shardwise::testing {

/// What the fake driver (cuda_driver.cpp) is told and has seen, through shardwise_fake_cuda of the library.
struct FakeCuda {
    struct Launch {
        std::string symbol;
        unsigned blocks = 0;
        unsigned threads = 0;
        void* stream = nullptr;
        /// The first argument's first bytes, as many as were asked for.
        std::string argument;
    };

    void* context = this;
    int capability = 80;
    /// Loads that fail from now on.
    int failing_loads = 0;
    std::size_t argument_bytes = 0;

    int loads = 0;
    /// Loads while a capture would have refused them.
    int captured_loads = 0;
    int capture_mode = 0;
    std::vector<Launch> launches;
};

}  // namespace shardwise::testing
