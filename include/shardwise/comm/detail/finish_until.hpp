// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What `work` returns, or nothing where it has not returned by then: a system call that nobody can interrupt may hold it. It goes
/// on in a thread of its own, owns all that it uses, and what it returns in the end is dropped. Where the system has no
/// thread for it, it takes the time that it takes.
template <class Work>
[[nodiscard]] std::optional<std::invoke_result_t<Work&>> finish_until(Deadline const& deadline, Work work) {
    struct Shared {
        explicit Shared(Work given) : work(std::move(given)) {}
        Work work;
        std::mutex mutex;
        std::condition_variable done;
        std::optional<std::invoke_result_t<Work&>> result;
    };
    auto const shared = std::make_shared<Shared>(std::move(work));
    try {
        std::thread([shared] {
            auto result = shared->work();
            std::lock_guard const lock(shared->mutex);
            shared->result.emplace(std::move(result));
            shared->done.notify_one();
        }).detach();
    } catch (std::system_error const&) {
        return shared->work();
    }
    std::unique_lock lock(shared->mutex);
    shared->done.wait_until(lock, deadline.moment(), [&] { return shared->result.has_value(); });
    return std::exchange(shared->result, std::nullopt);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
