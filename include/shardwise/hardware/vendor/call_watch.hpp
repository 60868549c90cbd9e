// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <atomic>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which vendor call is under way, so that whoever waits for it can name it.
class CallWatch {
public:
    /// Notes that `call` begins; the text must live as long as the program.
    void begin(char const* call) { current_.store(call, std::memory_order_relaxed); }
    /// The call that began last, "" before the first.
    [[nodiscard]] char const* current() const { return current_.load(std::memory_order_relaxed); }

private:
    std::atomic<char const*> current_{""};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
