// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/catch_exceptions.hpp>
#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/process_mark.hpp>
#include <shardwise/backend/host/start_thread.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/op/product_activations.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a host stream runs what is put into it.
enum class StreamMode : std::uint8_t {
    immediate,  // at once, in the thread that asks: nothing overlaps
    queued,     // in order, in a thread of its own
};

/// Work in order on the host. The first failure stops the stream: what follows is skipped, and `synchronize` returns it. What a
/// task throws is a failure like any other.
///
/// In a fork of the process a queued stream has failed: its thread is not there.
///
/// Order   tasks run one after another; tasks of two streams are ordered by events only
/// Memory  an immediate stream allocates nothing per task
class HostStream {
public:
    using Task = std::function<Result<>()>;
    using Mark = std::function<void(std::optional<Error> const&)>;

    /// `pool` is what kernels of this stream share their loops with; it outlives the stream. Without one they run in the
    /// stream's own thread. `isa` is the instruction set of its products, or why there is none. A queued stream's thread stays
    /// on the `core`-th of the cores that the caller may use; none where it is negative. Where the system gives a queued stream
    /// no thread, the stream has failed from the start. `activations` is what its products make of those.
    explicit HostStream(StreamMode mode = StreamMode::immediate, ThreadPool* pool = nullptr,
                        Result<IsaLevel> const& isa = choose_isa(), int core = -1,
                        ProductActivations activations = ProductActivations::full)
        : state_(std::make_unique<State>()), pool_(pool), isa_(isa), activations_(activations) {
        if (mode != StreamMode::queued) return;
        if (!detail::start_thread(state_->worker, [state = state_.get(), core] {
                CorePin const pin(core);
                state->run();
            })) {
            state_->fail(Error{ErrorCode::capacity_exceeded}
                             .in("stream")
                             .because("the system gives it no thread of its own")
                             .fix("use fewer queued streams, or StreamMode::immediate"));
        }
    }
    HostStream(HostStream&&) noexcept = default;
    HostStream& operator=(HostStream&&) = delete;
    /// Waits for what was put in.
    ~HostStream() {
        if (!state_ || !state_->worker.joinable()) return;
        if (!state_->process.is_here()) {
            // What ends a thread or a condition would wait for the thread.
            (void)state_.release();
            return;
        }
        {
            std::lock_guard const lock(state_->mutex);
            state_->is_closed = true;
        }
        state_->changed.notify_all();
        state_->worker.join();
    }

    /// Puts a task in: a function without arguments that returns Result<>. Its failure, like an earlier one, is what
    /// `synchronize` returns.
    template <class Function>
    void submit(Function&& task) {
        if (!state_->worker.joinable()) {
            if (state_->has_failed.load(std::memory_order_acquire)) return;
            if (auto const done = State::call(task); !done) state_->fail(done.error());
            return;
        }
        if (!is_behind()) push(Entry{Task(std::forward<Function>(task)), nullptr});
    }

    /// Calls `mark(failure)` when the stream gets here, also where it has failed before: with the first failure, or nothing.
    template <class Function>
    void submit_mark(Function&& mark) {
        if (is_behind()) return mark(stayed_behind());
        if (!state_->worker.joinable()) return state_->finish(State::call(mark, state_->first_failure()));
        push(Entry{nullptr, Mark(std::forward<Function>(mark))});
    }

    /// Runs body(begin, end) over pieces of [0, count) of at least `grain` each, on all threads of the pool.
    template <class Body>
    void submit_ranges(std::int64_t count, std::int64_t grain, Body body) {
        submit([count, grain, body, pool = pool_] {
            if (pool != nullptr) {
                pool->run_ranges(count, grain, body);
            } else if (count > 0) {
                body(std::int64_t{0}, count);
            }
            return Result<>{};
        });
    }

    /// What kernels share their loops with; null where they run in the stream's own thread.
    [[nodiscard]] ThreadPool* pool() const { return pool_; }
    /// The threads that take part in a kernel of this stream.
    [[nodiscard]] int threads() const { return pool_ == nullptr ? 1 : pool_->size(); }
    [[nodiscard]] Result<IsaLevel> const& isa() const { return isa_; }
    [[nodiscard]] ProductActivations product_activations() const { return activations_; }

    /// Memory in which this stream's products bring activations into a kernel's form, one after another, where it is enough: they
    /// allocate nothing. It outlives what is put in meanwhile; none takes it back.
    void lend_to_products(std::span<std::byte> memory) { lent_ = memory; }
    [[nodiscard]] std::span<std::byte> lent_to_products() const { return lent_; }

    /// Waits until everything that was put in is done.
    ///
    /// Errors  the first failure of a task; deadline_exceeded
    [[nodiscard]] Result<> synchronize(Deadline deadline) {
        if (is_behind()) return stayed_behind();
        std::unique_lock lock(state_->mutex);
        bool const is_done = state_->changed.wait_until(
            lock, deadline.moment(), [this] { return state_->tasks.empty() && !state_->is_running; });
        if (state_->failure) return *state_->failure;
        if (!is_done) {
            return Error{ErrorCode::deadline_exceeded}
                .in("stream")
                .because("did not finish before its deadline")
                .got(static_cast<std::int64_t>(state_->tasks.size()))
                .fix("allow more time, or find the task that blocks");
        }
        return {};
    }

private:
    /// One of the two is set.
    struct Entry {
        Task task;
        Mark mark;
    };
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<Entry> tasks;
        std::optional<Error> failure;
        /// Whether there is a failure, for who has not the mutex.
        std::atomic<bool> has_failed{false};
        bool is_running = false;
        bool is_closed = false;
        std::thread worker;
        detail::ProcessMark process;

        template <class Function>
        static Result<> call(Function& task) {
            return detail::catch_exceptions(ErrorCode::backend_failure, "stream", task);
        }
        template <class Function>
        static Result<> call(Function& mark, std::optional<Error> const& failure) {
            return detail::catch_exceptions(ErrorCode::backend_failure, "stream", [&] {
                mark(failure);
                return Result<>{};
            });
        }

        std::optional<Error> first_failure() {
            std::lock_guard const lock(mutex);
            return failure;
        }
        void fail(Error const& error) {
            std::lock_guard const lock(mutex);
            if (!failure) failure = error;
            has_failed.store(true, std::memory_order_release);
        }
        void finish(Result<> const& result) {
            if (!result) fail(result.error());
            {
                std::lock_guard const lock(mutex);
                is_running = false;
            }
            changed.notify_all();
        }
        void run() {
            while (true) {
                Entry entry;
                std::optional<Error> before;
                {
                    std::unique_lock lock(mutex);
                    changed.wait(lock, [this] { return is_closed || !tasks.empty(); });
                    if (tasks.empty()) return;
                    entry = std::move(tasks.front());
                    tasks.pop_front();
                    is_running = true;
                    before = failure;
                }
                Result<> result;
                if (entry.mark) {
                    result = call(entry.mark, before);
                } else if (!before) {
                    result = call(entry.task);
                }
                // What it holds goes before anybody learns that it is done.
                entry = {};
                finish(result);
            }
        }
    };

    /// In a fork: the thread is not there, and may have held the mutex.
    [[nodiscard]] bool is_behind() const { return state_->worker.joinable() && !state_->process.is_here(); }
    [[nodiscard]] static Error stayed_behind() {
        return Error{ErrorCode::unsupported}
            .in("stream")
            .because("its thread stayed behind in the process that this one is a fork of")
            .fix("make a context of its own after the fork");
    }

    void push(Entry entry) {
        {
            std::lock_guard const lock(state_->mutex);
            state_->tasks.push_back(std::move(entry));
        }
        state_->changed.notify_all();
    }

    std::unique_ptr<State> state_;
    ThreadPool* pool_;
    Result<IsaLevel> isa_;
    ProductActivations activations_;
    std::span<std::byte> lent_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
