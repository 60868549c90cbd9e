// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The process that made it. Threads do not follow a process into its forks: what holds some there can neither join them nor
/// wake them, and must not wait for them.
class ProcessMark {
public:
    /// False in a fork.
    [[nodiscard]] bool is_here() const { return process_ == current(); }

private:
    [[nodiscard]] static std::int64_t current() {
#if defined(__unix__) || defined(__APPLE__)
        return getpid();
#else
        return 0;
#endif
    }

    std::int64_t process_ = current();
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
