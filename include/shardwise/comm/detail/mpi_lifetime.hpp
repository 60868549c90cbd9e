// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mpi.h>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// MPI's own words.
[[nodiscard]] inline std::string mpi_text(int status) {
    char text[MPI_MAX_ERROR_STRING + 1] = {};
    int length = 0;
    MPI_Error_string(status, text, &length);
    return std::string(text, static_cast<std::size_t>(length));
}

/// MPI, started and ended in one thread of its own, as MPI wants it, because neither call knows a deadline: what has not
/// returned in time is left behind.
class MpiLifetime {
public:
    /// The one that all who join together keep, started by the first; null where MPI is not ours to end.
    ///
    /// Errors  backend_failure with MPI's or the system's words; deadline_exceeded
    [[nodiscard]] static Result<std::shared_ptr<MpiLifetime>> share(std::chrono::nanoseconds timeout) {
        // (A time point further away than a year or two would overflow.)
        auto const limit = std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24 * 365));
        auto const deadline = Deadline::after(limit);
        auto& one = known();
        std::unique_lock const lock(one.mutex, limit);
        if (!lock) return not_started();
        if (auto lifetime = one.lifetime.lock()) return lifetime;
        if (one.is_endless) return std::shared_ptr<MpiLifetime>();
        int is_started = 0;
        int is_over = 0;
        MPI_Initialized(&is_started);
        MPI_Finalized(&is_over);
        if (is_over != 0 || one.has_run) {
            return Error{ErrorCode::backend_failure}
                .in("MPI_Finalized")
                .because("MPI was ended before and cannot be started again");
        }
        if (is_started != 0 && !one.has_begun) return std::shared_ptr<MpiLifetime>();
        Error failed{ErrorCode::backend_failure};
        failed.in("MPI_Init_thread");
        if (std::exchange(one.has_begun, true)) return failed.because("was called before and did not succeed");
        auto lifetime = start(deadline.left());
        if (lifetime) {
            one.has_run = true;
            one.lifetime = *lifetime;
        }
        return lifetime;
    }
    MpiLifetime(MpiLifetime const&) = delete;
    MpiLifetime& operator=(MpiLifetime const&) = delete;
    /// Waits for all ranks as long as `share` would have, and as long again for MPI_Finalize. Without those that do not come
    /// the process ends without MPI_Finalize, which ends the job.
    ~MpiLifetime() {
        if (is_endless_) return;
        shared_->enter(Phase::ending);
        (void)shared_->reaches(Phase::over, 2 * shared_->timeout);
    }

    /// MPI is not ended any more: it would wait for ranks that do not answer.
    void leave_running() { known().is_endless = is_endless_ = true; }

private:
    [[nodiscard]] static Error not_started() {
        return Error{ErrorCode::deadline_exceeded}
            .in("MPI")
            .because("was not started in time: some processes of the job have not called MPI_Init")
            .fix("let all ranks of the job join");
    }
    [[nodiscard]] static Result<std::shared_ptr<MpiLifetime>> start(std::chrono::nanoseconds timeout) {
        Error failed{ErrorCode::backend_failure};
        failed.in("MPI_Init_thread");
        auto shared = std::make_shared<Shared>();
        shared->timeout = timeout;
        try {
            std::thread([shared] { live(*shared); }).detach();
        } catch (std::system_error const& problem) {
            return failed.because(problem.what());
        }
        if (!shared->reaches(Phase::running, shared->timeout)) return not_started();
        if (shared->status != MPI_SUCCESS) return failed.because(mpi_text(shared->status));
        return std::shared_ptr<MpiLifetime>(new MpiLifetime(std::move(shared)));
    }

    enum class Phase { starting, running, ending, over };

    struct Shared {
        std::mutex mutex;
        std::condition_variable changed;
        std::chrono::nanoseconds timeout{};
        Phase phase = Phase::starting;
        int status = MPI_SUCCESS;

        void enter(Phase next) {
            std::lock_guard const lock(mutex);
            phase = next;
            changed.notify_all();
        }
        [[nodiscard]] bool reaches(Phase least, std::chrono::nanoseconds limit) {
            std::unique_lock lock(mutex);
            return changed.wait_for(lock, limit, [&] { return phase >= least; });
        }
    };

    /// There is one MPI in a process: who joins while another starts it waits.
    struct Known {
        std::timed_mutex mutex;
        std::weak_ptr<MpiLifetime> lifetime;
        bool has_begun = false;
        bool has_run = false;
        std::atomic<bool> is_endless{false};
    };
    [[nodiscard]] static Known& known() {
        static Known one;
        return one;
    }

    explicit MpiLifetime(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

    static void live(Shared& shared) {
        int threads = MPI_THREAD_SINGLE;
        shared.status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads);
        shared.enter(Phase::running);
        if (shared.status != MPI_SUCCESS) return;
        {
            std::unique_lock lock(shared.mutex);
            shared.changed.wait(lock, [&] { return shared.phase == Phase::ending; });
        }
        if (all_ranks_end(shared.timeout)) MPI_Finalize();
        shared.enter(Phase::over);
    }

    /// Whether all processes of the job have come to their end. Ranks that wait in MPI_Finalize when the job is ended make
    /// mpirun 4.1.4 hang or crash now and then (in PMIx_server_finalize), and MPI_Finalize knows no deadline.
    [[nodiscard]] static bool all_ranks_end(std::chrono::nanoseconds timeout) {
        auto const deadline = std::chrono::steady_clock::now() + timeout;
        MPI_Request request = MPI_REQUEST_NULL;
        int have_come = 0;
        if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
        while (MPI_Test(&request, &have_come, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            if (have_come != 0) return true;
            if (std::chrono::steady_clock::now() > deadline) return false;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        return false;
    }

    std::shared_ptr<Shared> shared_;
    std::atomic<bool> is_endless_{false};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
