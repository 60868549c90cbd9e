// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <exception>
#include <thread>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Starts a thread, or returns false where the system gives none. A program without exceptions ends there, as std::thread does.
#if defined(__cpp_exceptions)
template <class Function>
[[nodiscard]] bool start_thread(std::thread& thread, Function&& function) {
    try {
        thread = std::thread(std::forward<Function>(function));
        return true;
    } catch (std::exception const&) {
        return false;
    }
}
#else
template <class Function>
[[nodiscard]] bool start_thread(std::thread& thread, Function&& function) {
    thread = std::thread(std::forward<Function>(function));
    return true;
}
#endif

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
