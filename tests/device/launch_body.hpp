// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>

#include <cstdint>

namespace shardwise::testing {

/// A body as a user writes it for `launch`.
struct AddIndex {
    float* data;

    SHARDWISE_DEVICE void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto i = begin; i < end; ++i) data[i] += static_cast<float>(i);
    }
};

}  // namespace shardwise::testing
