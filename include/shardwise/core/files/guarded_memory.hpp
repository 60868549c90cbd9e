// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// An entry of the list that the signal handler walks. Entries are used again and never freed: a handler may stand on one.
struct GuardedRange {
    std::atomic<std::uintptr_t> begin{0};
    /// 0: the entry is free.
    std::atomic<std::uintptr_t> end{0};
    std::atomic<bool> was_absent{false};
    GuardedRange* next = nullptr;
};

/// What the handler of SIGBUS needs. A signal's handler is the whole process's, so this cannot lie in a context: it is the
/// library's only state of its own, and it is there as long as a mapping is.
struct BusHandler {
    std::atomic<GuardedRange*> ranges{nullptr};
    std::mutex lock;
    std::size_t used = 0;
    /// Another handler was set over ours, and may call it: ours stays where it is.
    bool is_buried = false;
    struct sigaction before {};
};

inline constinit BusHandler bus_handler;

/// Gives the signal to whoever handled it before, or lets it end the process.
inline void pass_bus_error_on(int signal, siginfo_t* info, void* context) {
    auto const& before = bus_handler.before;
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
    (void)std::signal(signal, SIG_DFL);
    (void)::raise(signal);
}

/// Puts zeros in the place of a mapped file's pages that the system cannot give.
inline void on_bus_error(int signal, siginfo_t* info, void* context) {
    auto const saved = errno;
    auto const address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    // Signals that a process sent have no address.
    auto* range = info->si_code > 0 ? bus_handler.ranges.load() : nullptr;
    while (range != nullptr && (address < range->begin.load() || address >= range->end.load())) range = range->next;
    if (range != nullptr) {
        auto const first = address - address % static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        // The pages after it are beyond the file's end, too.
        auto* const zeros = ::mmap(reinterpret_cast<void*>(first), range->end.load() - first, PROT_READ,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        range->was_absent.store(true);
        errno = saved;
        if (zeros != MAP_FAILED) return;
    }
    errno = saved;
    pass_bus_error_on(signal, info, context);
}

}  // namespace detail

/// Guards memory in which a file is mapped: where the file has become shorter, or the disk fails, reading gives zeros and
/// `was_absent` tells, instead of the signal SIGBUS, which ends the process. The handler of that signal is ours as long as
/// a guard lives; faults elsewhere go on to the handler that was there before.
class GuardedMemory {
public:
    GuardedMemory() = default;
    /// Guards whole pages: `first` is the first byte of one.
    GuardedMemory(void const* first, std::size_t bytes) {
        auto& handler = detail::bus_handler;
        std::lock_guard const hold(handler.lock);
        if (handler.used++ == 0 && !handler.is_buried) {
            struct sigaction ours {};
            ours.sa_sigaction = &detail::on_bus_error;
            ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
            (void)::sigaction(SIGBUS, &ours, &handler.before);
        }
        range_ = handler.ranges.load();
        while (range_ != nullptr && range_->end.load() != 0) range_ = range_->next;
        if (range_ == nullptr) {
            range_ = new detail::GuardedRange;
            range_->next = handler.ranges.load();
            handler.ranges.store(range_);
        }
        range_->was_absent.store(false);
        range_->begin.store(reinterpret_cast<std::uintptr_t>(first));
        range_->end.store(reinterpret_cast<std::uintptr_t>(first) + bytes);
    }
    GuardedMemory(GuardedMemory&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
    GuardedMemory& operator=(GuardedMemory&& other) noexcept {
        std::swap(range_, other.range_);
        return *this;
    }
    GuardedMemory(GuardedMemory const&) = delete;
    GuardedMemory& operator=(GuardedMemory const&) = delete;
    /// To be called after the last look at the memory and before it is given back.
    ~GuardedMemory() {
        if (range_ == nullptr) return;
        auto& handler = detail::bus_handler;
        std::lock_guard const hold(handler.lock);
        range_->begin.store(0);
        range_->end.store(0);
        if (--handler.used > 0 || handler.is_buried) return;
        struct sigaction current {};
        (void)::sigaction(SIGBUS, nullptr, &current);
        bool const is_ours = (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == &detail::on_bus_error;
        if (is_ours) (void)::sigaction(SIGBUS, &handler.before, nullptr);
        handler.is_buried = !is_ours;
    }

    /// True after reading has met a page that the system could not give.
    [[nodiscard]] bool was_absent() const { return range_ != nullptr && range_->was_absent.load(); }

private:
    detail::GuardedRange* range_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
