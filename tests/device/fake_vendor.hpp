// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/device_code.hpp>
#include <shardwise/backend/detail/lt_products.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_sums.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/kernels/detail/pack.hpp>

#include "emulator.hpp"
#include "fake_machine.hpp"

// Written in names that the emulator brings.
#include <shardwise/backend/detail/matrix_tile.cuh>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

namespace shardwise::testing {

struct FakeLt;

/// The vendor functions of a FakeMachine.
struct FakeApi {
    using Stream = FakeStream*;
    using Event = FakeEvent*;
    using Graph = FakeGraph*;
    using Products = detail::LtProducts<FakeLt>;

    static constexpr std::string_view name = "fake";
    static constexpr std::int32_t warp_size = SHARDWISE_TEST_WARPS > 32 ? SHARDWISE_TEST_WARPS : 32;
    static constexpr std::int32_t least_warp_size = SHARDWISE_TEST_WARPS;
    static constexpr bool co_resident_blocks = true;
    /// Whether ranks add up by kernels that wait for each other without being asked to.
    static constexpr bool tries_peers = true;
    static constexpr std::int64_t ticks_per_microsecond = 1000;
    /// The vendor's library of collectives, as the loader finds it: none, where a test does not name one.
    static inline std::string_view nccl_name = "libshardwise-no-nccl.so";
    static constexpr std::string_view architectures_option = "SHARDWISE_FAKE_ARCHITECTURES";

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
        return detail::DeviceFacts{machine().warp_size, machine().multiprocessors, machine().processor,
                                   machine().has_matrix_unit};
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
        // As vendors do, it waits for what the device's streams hold; not long, since a kernel there may wait for another rank's.
        for (int i = 0; i < 100 && machine().pending(current()) > 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
    static Result<void*> allocate_mapped(std::size_t bytes) {
        if (auto const result = machine().enter("allocate_mapped", ErrorCode::out_of_memory); !result)
            return result.error();
        auto memory = machine().shared.make(bytes, true);
        if (memory) ++machine().memory;
        return memory;
    }
    static Result<int> export_mapped(void* memory) {
        if (auto const result = machine().enter("export_mapped"); !result) return result.error();
        return machine().shared.export_descriptor(memory);
    }
    static Result<void*> open_mapped(int descriptor, std::size_t bytes) {
        if (auto const result = machine().enter("open_mapped"); !result) return result.error();
        return machine().shared.open_descriptor(descriptor, bytes);
    }
    static void release_mapped(void* memory, std::size_t) {
        if (machine().shared.release(memory, true))
            --machine().memory;
        else
            machine().shared.close_opened(memory, true);
    }
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

}  // namespace shardwise::testing

#include "fake_lt.hpp"

namespace shardwise::testing {

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
        auto const value = [](Left const& of, int row, int k) { return matrix_number(of.rows, row, 16 * of.half + k); };
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
        if (!testing::FakeMachine::get().has_code)
            return Error{ErrorCode::backend_failure}.in(name).because("no kernel image for this device");
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
    template <class... Parameters>
    static Result<bool> has_code(void (*)(Parameters...)) {
        auto& machine = testing::FakeMachine::get();
        if (auto const result = machine.enter("has_code"); !result) return result.error();
        return machine.has_code;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
