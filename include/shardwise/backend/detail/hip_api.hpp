// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/amd_matrix_unit.hpp>
#include <shardwise/backend/detail/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// By hipBLASLt or our own kernel: backend/hip.hpp knows.
class HipProducts;

/// A status of the HIP runtime as a result: the call's name, and what HIP says of it.
[[nodiscard]] inline Result<> hip_result(hipError_t status, std::string_view call) {
    if (status == hipSuccess) return {};
    auto const code = status == hipErrorOutOfMemory                                        ? ErrorCode::out_of_memory
                      : status == hipErrorNoDevice || status == hipErrorInsufficientDriver ? ErrorCode::no_such_device
                                                                                           : ErrorCode::backend_failure;
    return Error{code}.in(call).because(hipGetErrorString(status)).got(static_cast<std::int64_t>(status));
}

/// The HIP runtime as `DeviceBackend` calls it.
struct HipApi {
    using Stream = hipStream_t;
    using Event = hipEvent_t;
    using Graph = hipGraphExec_t;
    using Products = HipProducts;

    static constexpr std::string_view name = "hip";
    /// The wavefront of CDNA and GCN (gfx9), and that of RDNA (gfx10 to gfx12): a binary has kernels for both.
    static constexpr std::int32_t warp_size = 64;
    static constexpr std::int32_t least_warp_size = 32;
#if defined(SHARDWISE_HAS_HIP_CPU)
    static constexpr bool co_resident_blocks = false;
#else
    static constexpr bool co_resident_blocks = true;
#endif
    /// No AMD device has run kernels that wait for each other yet: whoever wants them asks for them.
    static constexpr bool tries_peers = false;
    /// The constant clock (wall_clock64) counts at 100 MHz on gfx9; other devices' may count otherwise, which lengthens or shortens deadlines.
    static constexpr std::int64_t ticks_per_microsecond = 100;
    /// The vendor's library of collectives, as the loader finds it.
    static constexpr std::string_view nccl_name = "librccl.so.1";
    /// CMake's, which says what kernels are compiled for.
    static constexpr std::string_view architectures_option = "SHARDWISE_HIP_ARCHITECTURES";

    static Result<std::int32_t> count_devices() {
        int count = 0;
        auto const result = hip_result(hipGetDeviceCount(&count), "hipGetDeviceCount");
        // A failure stays behind as the last error, which a kernel's launch would report.
        if (!result) return (void)hipGetLastError(), result.error();
        return count;
    }
    static Result<std::int32_t> current_device() {
        int device = 0;
        auto const result = hip_result(hipGetDevice(&device), "hipGetDevice");
        if (!result) return result.error();
        return device;
    }
    static Result<> select_device(std::int32_t device) {
        return hip_result(hipSetDevice(device), "hipSetDevice");
    }
    static Result<DeviceFacts> describe(std::int32_t device) {
        hipDeviceProp_t properties{};
        auto const result = hip_result(hipGetDeviceProperties(&properties, device), "hipGetDeviceProperties");
        if (!result) return result.error();
        return DeviceFacts{properties.warpSize, properties.multiProcessorCount, properties.gcnArchName,
                           has_amd_matrix_unit(properties.gcnArchName)};
    }
    static Result<Bytes> free_memory() {
        std::size_t free = 0;
        std::size_t total = 0;
        auto const result = hip_result(hipMemGetInfo(&free, &total), "hipMemGetInfo");
        if (!result) return result.error();
        return Bytes{static_cast<std::int64_t>(free)};
    }

    static Result<void*> allocate(std::size_t bytes) {
        void* memory = nullptr;
        auto const result = hip_result(hipMalloc(&memory, bytes), "hipMalloc");
        if (!result) return (void)hipGetLastError(), result.error();
        return memory;
    }
    static void release(void* memory) {
        (void)hipFree(memory);
    }
    /// Memory in which peers may wait for each other's flags: caches must not keep what another device writes.
    static Result<void*> allocate_shared(std::size_t bytes) {
        void* memory = nullptr;
        auto const result =
            hip_result(hipExtMallocWithFlags(&memory, bytes, hipDeviceMallocFinegrained), "hipExtMallocWithFlags");
        if (!result) return (void)hipGetLastError(), result.error();
        return memory;
    }
    static Result<void*> allocate_pinned(std::size_t bytes) {
        void* memory = nullptr;
        // Coherent: the host reads it while kernels run.
        constexpr unsigned flags = hipHostMallocMapped | hipHostMallocPortable | hipHostMallocCoherent;
        auto const result = hip_result(hipHostMalloc(&memory, bytes, flags), "hipHostMalloc");
        if (!result) return (void)hipGetLastError(), result.error();
        return memory;
    }
    static void release_pinned(void* memory) {
        (void)hipHostFree(memory);
    }
    static Result<> clear(void* memory, std::size_t bytes, Stream stream) {
        return hip_result(hipMemsetAsync(memory, 0, bytes, stream), "hipMemsetAsync");
    }
    static Result<> copy(void* to, void const* from, std::size_t bytes, Stream stream) {
        return hip_result(hipMemcpyAsync(to, from, bytes, hipMemcpyDefault, stream), "hipMemcpyAsync");
    }

    static Result<Stream> create_stream() {
        Stream stream = nullptr;
        auto const result =
            hip_result(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
        if (!result) return result.error();
        return stream;
    }
    static void destroy_stream(Stream stream) {
        (void)hipStreamDestroy(stream);
    }
    static Result<Event> create_event() {
        Event event = nullptr;
        auto const result =
            hip_result(hipEventCreateWithFlags(&event, hipEventDisableTiming), "hipEventCreateWithFlags");
        if (!result) return result.error();
        return event;
    }
    static Result<Event> create_timed_event() {
        Event event = nullptr;
        if (auto const result = hip_result(hipEventCreate(&event), "hipEventCreate"); !result) return result.error();
        return event;
    }
    static void destroy_event(Event event) {
        (void)hipEventDestroy(event);
    }
    static Result<> record(Event event, Stream stream) {
        return hip_result(hipEventRecord(event, stream), "hipEventRecord");
    }
    static Result<> hold_back(Stream stream, Event event) {
        return hip_result(hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent");
    }
    static Result<bool> is_reached(Event event) {
        auto const status = hipEventQuery(event);
        if (status == hipErrorNotReady) return false;
        auto const result = hip_result(status, "hipEventQuery");
        if (!result) return result.error();
        return true;
    }
    static Result<double> seconds_between(Event first, Event last) {
        float milliseconds = 0.0F;
        auto const result = hip_result(hipEventElapsedTime(&milliseconds, first, last), "hipEventElapsedTime");
        if (!result) return result.error();
        return static_cast<double>(milliseconds) * 1e-3;
    }

    /// Lets kernels of the current device, `device`, reach the memory of `peer`.
    static Result<> enable_peer(std::int32_t device, std::int32_t peer) {
        int can_access = 0;
        auto const asked = hip_result(hipDeviceCanAccessPeer(&can_access, device, peer), "hipDeviceCanAccessPeer");
        if (!asked) return asked;
        if (can_access == 0) {
            return Error{ErrorCode::unsupported}
                .in("hip")
                .because("two devices cannot reach each other's memory")
                .got(device)
                .expected(peer)
                .fix("use another communicator between them");
        }
        auto const status = hipDeviceEnablePeerAccess(peer, 0);
        if (status == hipErrorPeerAccessAlreadyEnabled) return (void)hipGetLastError(), Result<>{};
        return hip_result(status, "hipDeviceEnablePeerAccess");
    }

    static Result<DeviceUuid> uuid(std::int32_t device) {
        hipUUID native{};
        auto const result = hip_result(hipDeviceGetUuid(&native, device), "hipDeviceGetUuid");
        if (!result) return result.error();
        DeviceUuid uuid;
        static_assert(sizeof uuid.bytes == sizeof native);
        std::memcpy(uuid.bytes.data(), &native, sizeof native);
        return uuid;
    }
    /// Nothing promises it: queues of several processes may have the device in turns.
    static Result<bool> runs_processes_at_once(std::int32_t) {
        return false;
    }
    static Result<SharedHandle> export_shared(void* memory) {
        hipIpcMemHandle_t native{};
        auto const result = hip_result(hipIpcGetMemHandle(&native, memory), "hipIpcGetMemHandle");
        if (!result) return (void)hipGetLastError(), result.error();
        SharedHandle handle;
        static_assert(sizeof handle.bytes == sizeof native);
        std::memcpy(handle.bytes.data(), &native, sizeof native);
        return handle;
    }
    static Result<void*> open_shared(SharedHandle handle) {
        hipIpcMemHandle_t native{};
        std::memcpy(&native, handle.bytes.data(), sizeof native);
        void* memory = nullptr;
        auto const result =
            hip_result(hipIpcOpenMemHandle(&memory, native, hipIpcMemLazyEnablePeerAccess), "hipIpcOpenMemHandle");
        if (!result) return (void)hipGetLastError(), result.error();
        return memory;
    }
    static void close_shared(void* memory) {
        (void)hipIpcCloseMemHandle(memory);
    }
    /// None: hipMemCreate (HIP 5.2) has no fine-grained memory, in which alone kernels see what another device writes while they run.
    static Result<void*> allocate_mapped(std::size_t) {
        return no_mapping();
    }
    static Result<int> export_mapped(void*) {
        return no_mapping();
    }
    static Result<void*> open_mapped(int, std::size_t) {
        return no_mapping();
    }
    static void release_mapped(void*, std::size_t) {}

    static Result<> begin_capture(Stream stream) {
        return hip_result(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
    }
    static Result<Graph> end_capture(Stream stream) {
        hipGraph_t graph = nullptr;
        auto const ended = hip_result(hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
        // A capture that was broken leaves its reason behind as the last error.
        if (!ended) return (void)hipGetLastError(), ended.error();
        Graph instance = nullptr;
        auto const made = hip_result(hipGraphInstantiate(&instance, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
        (void)hipGraphDestroy(graph);
        if (!made) return (void)hipGetLastError(), made.error();
        return instance;
    }
    /// HIP 5.2 has no such call: the first launch does it.
    static Result<> upload_graph(Graph, Stream) {
        return {};
    }
    static Result<> launch_graph(Graph graph, Stream stream) {
        return hip_result(hipGraphLaunch(graph, stream), "hipGraphLaunch");
    }
    static void destroy_graph(Graph graph) {
        (void)hipGraphExecDestroy(graph);
    }

private:
    [[nodiscard]] static Error no_mapping() {
        return Error{ErrorCode::unsupported}
            .in("hip")
            .because("shares no memory by file descriptors in which kernels wait for each other")
            .fix("use hipIpc handles, or staged");
    }
};

static_assert(DeviceApi<HipApi>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
