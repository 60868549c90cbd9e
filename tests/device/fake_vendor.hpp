// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/device_code.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_sums.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/kernels/detail/pack.hpp>

#include "compared_orders.hpp"
#include "emulator.hpp"
#include "fake_memory.hpp"
#include "fake_shared.hpp"

// Written in names that the emulator brings.
#include <shardwise/backend/detail/matrix_tile.cuh>

#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

// How wide the devices' warps are. 16, narrower than launchers count by, as AMD's are of one generation: no vendor's warps are that
// narrow, and a kernel that counts on 32 or 64 goes wrong here. Programs of their own have 32 and 64.
#if !defined(SHARDWISE_TEST_WARPS)
#define SHARDWISE_TEST_WARPS 16
#endif

namespace shardwise::testing {

/// A machine with devices that are this process's memory and threads. It counts what is alive, and fails where a test says.
struct FakeMachine {
    std::int32_t devices = 2;
    std::int32_t warp_size = SHARDWISE_TEST_WARPS;
    std::int32_t multiprocessors = 8;
    /// Which of the machine's devices this process's first one is: a process may see a few of them.
    std::int32_t first_device = 0;
    /// Whether kernels of several processes run at once on a device.
    bool runs_processes_at_once = false;
    /// Which kernels the program was linked with, as SHARDWISE_KERNELS lists them.
    std::string_view kernels = "all";
    FakeShared shared;
    FakeMemory own;
    ComparedOrders orders;
    /// What a device says is free, whatever was taken.
    std::atomic<std::int64_t> free_bytes{1234};
    std::atomic<int> memory{0};
    std::atomic<int> pinned{0};
    std::atomic<int> streams{0};
    std::atomic<int> events{0};
    std::atomic<int> graphs{0};

    /// The call of that name fails, after it has succeeded `after` times.
    void fail(std::string call, int after = 0) {
        std::lock_guard const lock(mutex_);
        failing_ = std::move(call);
        after_ = after;
    }
    void mend() { fail(""); }
    /// The so many-th call from now on fails, whichever it is.
    void fail_call(int number) {
        std::lock_guard const lock(mutex_);
        calls_to_failure_ = number;
        failed_.clear();
    }
    /// The call that failed since; empty: none.
    [[nodiscard]] std::string failed() {
        std::lock_guard const lock(mutex_);
        return failed_;
    }
    /// The process ends as if it was killed, at its so many-th call of the vendor from now on.
    void die_at_call(int number) {
        std::lock_guard const lock(mutex_);
        calls_to_live_ = number;
    }

    /// From now on a kernel's first launch on a device, and an allocation, wait until all that was put into the device's streams is done, and
    /// keep every other launch from going on meanwhile: what a driver may do that loads code when it is first called.
    void load_lazily(bool does) {
        std::lock_guard const lock(driver_);
        loads_lazily_ = does;
        loaded_.clear();
    }
    /// Held during a launch.
    [[nodiscard]] std::unique_lock<std::mutex> drive(std::int32_t device, void const* kernel) {
        std::unique_lock lock(driver_);
        if (loads_lazily_ && (kernel == nullptr || loaded_.insert({device, kernel}).second)) {
            while (pending_[static_cast<std::size_t>(device)] > 0) std::this_thread::yield();
        }
        return lock;
    }
    /// From now on a kernel begins when the one before it has ended, whatever their streams: what some drivers do of ranks on one device.
    void run_kernels_in_turn(bool does) { runs_in_turn_ = does; }
    /// Held while a kernel runs.
    [[nodiscard]] std::unique_lock<std::mutex> run_kernel() {
        return runs_in_turn_ ? std::unique_lock(turn_) : std::unique_lock<std::mutex>();
    }
    /// Tasks in the streams of a device.
    [[nodiscard]] std::atomic<int>& pending(std::int32_t device) { return pending_[static_cast<std::size_t>(device)]; }

    [[nodiscard]] int calls(std::string const& call) {
        std::lock_guard const lock(mutex_);
        return calls_[call];
    }
    [[nodiscard]] std::map<std::string, int> all_calls() {
        std::lock_guard const lock(mutex_);
        return calls_;
    }
    [[nodiscard]] bool is_empty() const {
        return memory == 0 && pinned == 0 && streams == 0 && events == 0 && graphs == 0;
    }

    [[nodiscard]] Result<> enter(std::string_view call, ErrorCode code = ErrorCode::backend_failure) {
        std::lock_guard const lock(mutex_);
        ++calls_[std::string(call)];
        if (calls_to_live_ > 0 && --calls_to_live_ == 0) (void)std::raise(SIGKILL);
        bool const is_turn = calls_to_failure_ > 0 && --calls_to_failure_ == 0;
        if (!is_turn && (failing_ != call || after_-- > 0)) return {};
        failed_ = call;
        return Error{code}.in(call).because("was told to fail");
    }

    static FakeMachine& get() {
        static FakeMachine machine;
        return machine;
    }

private:
    std::mutex turn_;
    std::atomic<bool> runs_in_turn_{false};
    std::mutex driver_;
    bool loads_lazily_ = false;
    std::set<std::pair<std::int32_t, void const*>> loaded_;
    std::array<std::atomic<int>, 16> pending_{};
    std::mutex mutex_;
    std::string failing_;
    int after_ = 0;
    int calls_to_live_ = 0;
    int calls_to_failure_ = 0;
    std::string failed_;
    std::map<std::string, int> calls_;
};

/// What was put into a stream while it was captured.
struct FakeGraph {
    std::vector<std::function<void()>> tasks;
    bool is_broken = false;
};

/// A stream: a thread that does what it is given, in order.
class FakeStream {
public:
    explicit FakeStream(std::int32_t on) : device(on), worker_([this] { run(); }) {}
    ~FakeStream() {
        put([this] { is_closed_ = true; });
        worker_.join();
    }
    void put(std::function<void()> task) {
        if (capture) return capture->tasks.push_back(std::move(task));
        ++FakeMachine::get().pending(device);
        {
            std::lock_guard const lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        changed_.notify_one();
    }

    std::int32_t const device;
    /// Set between the begin and the end of a capture.
    std::unique_ptr<FakeGraph> capture;

private:
    void run() {
        while (!is_closed_) {
            std::function<void()> task;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [this] { return !tasks_.empty(); });
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task();
            --FakeMachine::get().pending(device);
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool is_closed_ = false;
    std::thread worker_;
};

/// An event: a flag for each record, and the time at which it was reached.
struct FakeEvent {
    using Time = std::chrono::steady_clock::time_point;

    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(true);
    bool is_timed = false;
    std::shared_ptr<Time> at = std::make_shared<Time>();
};

class FakeProducts;

/// The vendor functions of a FakeMachine.
struct FakeApi {
    using Stream = FakeStream*;
    using Event = FakeEvent*;
    using Graph = FakeGraph*;
    using Products = FakeProducts;

    static constexpr std::string_view name = "fake";
    static constexpr std::int32_t warp_size = SHARDWISE_TEST_WARPS > 32 ? SHARDWISE_TEST_WARPS : 32;
    static constexpr std::int32_t least_warp_size = SHARDWISE_TEST_WARPS;
    static constexpr bool co_resident_blocks = true;
    /// Whether ranks add up by kernels that wait for each other without being asked to.
    static constexpr bool tries_peers = true;
    static constexpr std::int64_t ticks_per_microsecond = 1000;
    /// The vendor's library of collectives, as the loader finds it.
    static constexpr std::string_view nccl_name = "libshardwise-no-nccl.so";

    static FakeMachine& machine() { return FakeMachine::get(); }
    static std::int32_t& current() {
        static thread_local std::int32_t device = 0;
        return device;
    }

    static Result<std::int32_t> count_devices() {
        if (auto const result = machine().enter("count_devices"); !result) return result.error();
        return machine().devices;
    }
    static Result<std::int32_t> current_device() { return current(); }
    static Result<> select_device(std::int32_t device) {
        if (auto const result = machine().enter("select_device"); !result) return result;
        current() = device;
        return {};
    }
    static Result<detail::DeviceFacts> describe(std::int32_t) {
        if (auto const result = machine().enter("describe"); !result) return result.error();
        return detail::DeviceFacts{machine().warp_size, machine().multiprocessors};
    }
    static Result<Bytes> free_memory() { return Bytes{machine().free_bytes}; }

    static Result<void*> allocate(std::size_t bytes) {
        if (auto const result = machine().enter("allocate", ErrorCode::out_of_memory); !result) return result.error();
        if (capturing() != nullptr) return break_capture(capturing(), "allocate").error();
        auto const lock = machine().drive(current(), nullptr);
        auto* const memory = machine().own.allocate(bytes);
        if (memory == nullptr) return Error{ErrorCode::out_of_memory}.in("allocate");
        ++machine().memory;
        return memory;
    }
    static void release(void* memory) {
        --machine().memory;
        if (machine().shared.release(memory)) return;
        machine().own.release(memory);
    }
    static Result<void*> allocate_shared(std::size_t bytes) {
        if (auto const result = machine().enter("allocate", ErrorCode::out_of_memory); !result) return result.error();
        if (capturing() != nullptr) return break_capture(capturing(), "allocate").error();
        auto const lock = machine().drive(current(), nullptr);
        auto memory = machine().shared.make(bytes);
        if (memory) ++machine().memory;
        return memory;
    }
    static Result<detail::SharedHandle> export_shared(void* memory) {
        if (auto const result = machine().enter("export_shared"); !result) return result.error();
        return machine().shared.export_handle(memory);
    }
    static Result<void*> open_shared(detail::SharedHandle handle) {
        if (auto const result = machine().enter("open_shared"); !result) return result.error();
        return machine().shared.open(handle);
    }
    static void close_shared(void* memory) { machine().shared.close_opened(memory); }
    static Result<void*> allocate_pinned(std::size_t bytes) {
        if (auto const result = machine().enter("allocate_pinned", ErrorCode::out_of_memory); !result) {
            return result.error();
        }
        ++machine().pinned;
        return ::operator new (bytes, std::align_val_t{64});
    }
    static void release_pinned(void* memory) {
        ::operator delete (memory, std::align_val_t{64});
        --machine().pinned;
    }
    static Result<> clear(void* memory, std::size_t bytes, Stream stream) {
        if (auto const result = enter("clear", stream); !result) return result;
        stream->put([=] {
            auto const used = machine().orders.use();
            std::memset(memory, 0, bytes);
        });
        return {};
    }
    static Result<> copy(void* to, void const* from, std::size_t bytes, Stream stream) {
        if (auto const result = enter("copy", stream); !result) return result;
        stream->put([=] {
            auto const used = machine().orders.use();
            std::memcpy(to, from, bytes);
        });
        return {};
    }

    static Result<Stream> create_stream() {
        if (auto const result = machine().enter("create_stream"); !result) return result.error();
        ++machine().streams;
        return new FakeStream(current());
    }
    static void destroy_stream(Stream stream) {
        delete stream;
        --machine().streams;
    }
    static Result<Event> create_event() {
        if (auto const result = machine().enter("create_event"); !result) return result.error();
        ++machine().events;
        return new FakeEvent;
    }
    static Result<Event> create_timed_event() {
        if (auto const result = machine().enter("create_timed_event"); !result) return result.error();
        ++machine().events;
        auto* const event = new FakeEvent;
        event->is_timed = true;
        return event;
    }
    static void destroy_event(Event event) {
        delete event;
        --machine().events;
    }
    static Result<> record(Event event, Stream stream) {
        if (auto const result = enter("record", stream); !result) return result;
        if (stream->capture) return break_capture(stream, "record");
        auto const reached = std::make_shared<std::atomic<bool>>(false);
        auto const at = std::make_shared<FakeEvent::Time>();
        event->reached = reached;
        event->at = at;
        stream->put([reached, at] {
            *at = std::chrono::steady_clock::now();
            reached->store(true);
        });
        return {};
    }
    static Result<> hold_back(Stream stream, Event event) {
        if (auto const result = enter("hold_back", stream); !result) return result;
        if (stream->capture) return break_capture(stream, "hold_back");
        stream->put([reached = event->reached] {
            while (!reached->load()) std::this_thread::yield();
        });
        return {};
    }
    static Result<bool> is_reached(Event event) {
        if (auto const result = machine().enter("is_reached"); !result) return result.error();
        return event->reached->load();
    }
    static Result<double> seconds_between(Event first, Event last) {
        if (auto const result = machine().enter("seconds_between"); !result) return result.error();
        Error refused{ErrorCode::backend_failure};
        refused.in("seconds_between");
        if (!first->is_timed || !last->is_timed) return refused.because("an event keeps no time");
        if (!first->reached->load() || !last->reached->load()) return refused.because("an event is not reached");
        return std::chrono::duration<double>(*last->at - *first->at).count();
    }
    static Result<> enable_peer(std::int32_t device, std::int32_t) {
        if (device != current()) return Error{ErrorCode::backend_failure}.in("enable_peer").because("wrong device");
        return machine().enter("enable_peer", ErrorCode::unsupported);
    }

    static Result<detail::DeviceUuid> uuid(std::int32_t device) {
        if (auto const result = machine().enter("uuid"); !result) return result.error();
        detail::DeviceUuid uuid;
        uuid.bytes.back() = static_cast<std::byte>(1 + machine().first_device + device);
        return uuid;
    }
    static Result<bool> runs_processes_at_once(std::int32_t) {
        if (auto const result = machine().enter("runs_processes_at_once"); !result) return result.error();
        return machine().runs_processes_at_once;
    }

    static Result<> begin_capture(Stream stream) {
        if (auto const result = enter("begin_capture", stream); !result) return result;
        if (stream->capture) return break_capture(stream, "begin_capture");
        stream->capture = std::make_unique<FakeGraph>();
        capturing() = stream;
        return {};
    }
    static Result<Graph> end_capture(Stream stream) {
        auto graph = std::move(stream->capture);
        capturing() = nullptr;
        if (auto const result = enter("end_capture", stream); !result) return result.error();
        if (!graph || graph->is_broken)
            return Error{ErrorCode::backend_failure}.in("end_capture").because("the capture was broken");
        ++machine().graphs;
        return graph.release();
    }
    static Result<> upload_graph(Graph graph, Stream stream) {
        if (auto const result = enter("upload_graph", stream); !result) return result;
        auto const lock = machine().drive(stream->device, graph);
        return {};
    }
    static Result<> launch_graph(Graph graph, Stream stream) {
        if (auto const result = enter("launch_graph", stream); !result) return result;
        auto const lock = machine().drive(stream->device, graph);
        for (auto const& task : graph->tasks) stream->put(task);
        return {};
    }
    static void destroy_graph(Graph graph) {
        delete graph;
        --machine().graphs;
    }

    /// What vendors prohibit while a stream of this thread is captured: what waits, and what allocates.
    static Result<> break_capture(Stream stream, std::string_view call) {
        stream->capture->is_broken = true;
        return Error{ErrorCode::backend_failure}.in(call).because("is prohibited while a stream is captured");
    }
    /// The stream that this thread captures; null: none.
    static Stream& capturing() {
        static thread_local Stream stream = nullptr;
        return stream;
    }

    /// A call that puts work into a stream: like vendors', it wants the stream's device to be current.
    static Result<> enter(std::string_view call, Stream stream) {
        if (stream->device != current()) return Error{ErrorCode::backend_failure}.in(call).because("wrong device");
        return machine().enter(call);
    }
};

class FakeProducts {
public:
    [[nodiscard]] static Result<std::unique_ptr<FakeProducts>> open() {
        if (auto const result = FakeMachine::get().enter("open_products"); !result) return result.error();
        return std::make_unique<FakeProducts>();
    }
    template <class T>
    [[nodiscard]] Result<> multiply(detail::GemmCall const& call, FakeStream* stream) {
        return detail::launch_gemm<FakeApi, T>(call, stream);
    }
};

using Fake = DeviceBackend<FakeApi>;

static_assert(ComputeBackend<Fake>);

}  // namespace shardwise::testing

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
inline constexpr int widest_warp<testing::FakeApi> = testing::FakeApi::warp_size;

template <>
struct DeviceCode<testing::FakeApi> {
    static constexpr int warp_size = testing::FakeApi::least_warp_size;
    static constexpr bool has_own_warps = true;

    static float shuffle_xor(float value, int mask) { return testing::Emulator::current().shuffle_xor(value, mask); }
    static float shuffle_from(float value, int lane) { return testing::Emulator::current().shuffle_from(value, lane); }
    template <class Pack>
    static Pack load_once(void const* at) {
        return detail::load_pack(at);
    }
    static void store_release(std::uint32_t* at, std::uint32_t value) {
        std::atomic_ref(*at).store(value, std::memory_order_release);
    }
    static std::uint32_t load_acquire(std::uint32_t const* at) {
        return std::atomic_ref(*const_cast<std::uint32_t*>(at)).load(std::memory_order_acquire);
    }
    static std::int64_t ticks() {
        std::this_thread::yield();
        return std::chrono::steady_clock::now().time_since_epoch().count();
    }
};

/// Small matrices by plain sums, each lane its own of the 16 x 8.
template <>
struct MatrixTile<testing::FakeApi> {
    static constexpr bool is_there = true;
    static constexpr int columns = 8;
    static constexpr std::int64_t few_results = 0;
    static constexpr int values = 128 / DeviceCode<testing::FakeApi>::warp_size;
    struct Left {
        std::uint16_t const* rows;
        int half;
    };
    using Right = Left;

    static int row(int lane, int i) { return (lane * values + i) / 8; }
    static int column(int lane, int i) { return (lane * values + i) % 8; }
    static Left load_left(std::uint16_t const* rows, int half, int) { return {rows, half}; }
    static void load_right(std::uint16_t const* rows, int, Right (&right)[2]) {
        right[0] = {rows, 0};
        right[1] = {rows, 1};
    }
    static void multiply(Left const& left, Right const& right, int lane, float (&sums)[values]) {
        auto const value = [](Left const& of, int row, int k) {
            return from_bf16(of.rows[matrix_place(row, 2 * of.half + k / 8) + k % 8]);
        };
        for (int i = 0; i < values; ++i) {
            for (int k = 0; k < 16; ++k) sums[i] += value(left, row(lane, i), k) * value(right, column(lane, i), k);
        }
    }
};

template <>
struct DeviceLaunch<testing::FakeApi> {
    template <class... Parameters>
    static Result<> launch(std::string_view name, void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                           testing::FakeStream* stream, Parameters... arguments) {
        if (auto const result = testing::FakeApi::enter(name, stream); !result) return result;
        auto const lock = testing::FakeMachine::get().drive(stream->device, reinterpret_cast<void const*>(kernel));
        stream->put([=] {
            auto& machine = testing::FakeMachine::get();
            auto const turn = machine.run_kernel();
            auto const is_alone = [&] { return machine.streams == 1 && machine.shared.is_empty(); };
            machine.orders.run(name, reinterpret_cast<void const*>(kernel), machine.own, is_alone, blocks, threads,
                               DeviceCode<testing::FakeApi>::warp_size, [=] { kernel(arguments...); });
        });
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
