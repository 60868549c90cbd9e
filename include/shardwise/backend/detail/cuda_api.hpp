// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/cuda_mapping.hpp>
#include <shardwise/backend/detail/device_api.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda_runtime_api.h>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Lt>
class LtProducts;
struct CublasLt;

/// A status of the CUDA runtime as a result: the call's name, and what CUDA says of it.
[[nodiscard]] inline Result<> cuda_result(cudaError_t status, std::string_view call) {
    if (status == cudaSuccess) return {};
    auto const code = status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory
                      : status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver
                          ? ErrorCode::no_such_device
                          : ErrorCode::backend_failure;
    return Error{code}.in(call).because(cudaGetErrorString(status)).got(static_cast<std::int64_t>(status));
}

/// The CUDA runtime as `DeviceBackend` calls it.
struct CudaApi {
    using Stream = cudaStream_t;
    using Event = cudaEvent_t;
    using Graph = cudaGraphExec_t;
    using Products = LtProducts<CublasLt>;

    static constexpr std::string_view name = "cuda";
    static constexpr std::int32_t warp_size = 32;
    static constexpr std::int32_t least_warp_size = 32;
    static constexpr bool co_resident_blocks = true;
    /// Whether ranks add up by kernels that wait for each other without being asked to.
    static constexpr bool tries_peers = true;
    /// %globaltimer counts nanoseconds.
    static constexpr std::int64_t ticks_per_microsecond = 1000;
    /// The vendor's library of collectives, as the loader finds it.
    static constexpr std::string_view nccl_name = "libnccl.so.2";
    /// CMake's, which says what kernels are compiled for.
    static constexpr std::string_view architectures_option = "SHARDWISE_CUDA_ARCHITECTURES";

    static Result<std::int32_t> count_devices() {
        int count = 0;
        auto const result = cuda_result(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
        // A failure stays behind as the last error, which a kernel's launch would report.
        if (!result) return (void)cudaGetLastError(), result.error();
        return count;
    }
    static Result<std::int32_t> current_device() {
        int device = 0;
        auto const result = cuda_result(cudaGetDevice(&device), "cudaGetDevice");
        if (!result) return result.error();
        return device;
    }
    static Result<> select_device(std::int32_t device) { return cuda_result(cudaSetDevice(device), "cudaSetDevice"); }
    static Result<DeviceFacts> describe(std::int32_t device) {
        DeviceFacts facts;
        auto result = cuda_result(cudaDeviceGetAttribute(&facts.warp_size, cudaDevAttrWarpSize, device),
                                  "cudaDeviceGetAttribute");
        if (!result) return result.error();
        result = cuda_result(cudaDeviceGetAttribute(&facts.multiprocessors, cudaDevAttrMultiProcessorCount, device),
                             "cudaDeviceGetAttribute");
        if (!result) return result.error();
        int major = 0;
        int minor = 0;
        result = cuda_result(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                             "cudaDeviceGetAttribute");
        if (!result) return result.error();
        result = cuda_result(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                             "cudaDeviceGetAttribute");
        if (!result) return result.error();
        facts.processor = "sm_" + std::to_string(major) + std::to_string(minor);
        return facts;
    }
    static Result<Bytes> free_memory() {
        std::size_t free = 0;
        std::size_t total = 0;
        auto const result = cuda_result(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        if (!result) return result.error();
        return Bytes{static_cast<std::int64_t>(free)};
    }

    static Result<void*> allocate(std::size_t bytes) {
        void* memory = nullptr;
        auto const result = cuda_result(cudaMalloc(&memory, bytes), "cudaMalloc");
        if (!result) return (void)cudaGetLastError(), result.error();
        return memory;
    }
    static void release(void* memory) { (void)cudaFree(memory); }
    /// Memory in which peers may wait for each other's flags: any that they may access.
    static Result<void*> allocate_shared(std::size_t bytes) { return allocate(bytes); }
    static Result<void*> allocate_pinned(std::size_t bytes) {
        void* memory = nullptr;
        auto const result =
            cuda_result(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
        if (!result) return (void)cudaGetLastError(), result.error();
        return memory;
    }
    static void release_pinned(void* memory) { (void)cudaFreeHost(memory); }
    static Result<> clear(void* memory, std::size_t bytes, Stream stream) {
        return cuda_result(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
    }
    static Result<> copy(void* to, void const* from, std::size_t bytes, Stream stream) {
        return cuda_result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
    }

    static Result<Stream> create_stream() {
        Stream stream = nullptr;
        auto const result =
            cuda_result(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        if (!result) return result.error();
        return stream;
    }
    static void destroy_stream(Stream stream) { (void)cudaStreamDestroy(stream); }
    static Result<Event> create_event() {
        Event event = nullptr;
        auto const result =
            cuda_result(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        if (!result) return result.error();
        return event;
    }
    static Result<Event> create_timed_event() {
        Event event = nullptr;
        if (auto const result = cuda_result(cudaEventCreate(&event), "cudaEventCreate"); !result) return result.error();
        return event;
    }
    static void destroy_event(Event event) { (void)cudaEventDestroy(event); }
    static Result<> record(Event event, Stream stream) {
        return cuda_result(cudaEventRecord(event, stream), "cudaEventRecord");
    }
    static Result<> hold_back(Stream stream, Event event) {
        return cuda_result(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
    }
    static Result<bool> is_reached(Event event) {
        auto const status = cudaEventQuery(event);
        if (status == cudaErrorNotReady) return false;
        auto const result = cuda_result(status, "cudaEventQuery");
        if (!result) return result.error();
        return true;
    }
    static Result<double> seconds_between(Event first, Event last) {
        float milliseconds = 0.0F;
        auto const result = cuda_result(cudaEventElapsedTime(&milliseconds, first, last), "cudaEventElapsedTime");
        if (!result) return result.error();
        return static_cast<double>(milliseconds) * 1e-3;
    }

    /// Lets kernels of the current device, `device`, reach the memory of `peer`.
    static Result<> enable_peer(std::int32_t device, std::int32_t peer) {
        int can_access = 0;
        auto const asked = cuda_result(cudaDeviceCanAccessPeer(&can_access, device, peer), "cudaDeviceCanAccessPeer");
        if (!asked) return asked;
        if (can_access == 0) {
            return Error{ErrorCode::unsupported}
                .in("cuda")
                .because("two devices cannot reach each other's memory")
                .got(device)
                .expected(peer)
                .fix("use another communicator between them");
        }
        auto const status = cudaDeviceEnablePeerAccess(peer, 0);
        if (status == cudaErrorPeerAccessAlreadyEnabled) return (void)cudaGetLastError(), Result<>{};
        return cuda_result(status, "cudaDeviceEnablePeerAccess");
    }

    static Result<DeviceUuid> uuid(std::int32_t device) {
        cudaDeviceProp properties{};
        auto const result = cuda_result(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
        if (!result) return result.error();
        DeviceUuid uuid;
        static_assert(sizeof uuid.bytes == sizeof properties.uuid);
        std::memcpy(uuid.bytes.data(), &properties.uuid, sizeof uuid.bytes);
        return uuid;
    }
    /// With the Multi-Process Service alone: without it processes have the device in turns.
    static Result<bool> runs_processes_at_once(std::int32_t device) {
        // cudaDevAttrMpsEnabled, which toolkits before 12.2 do not name and whose drivers do not know.
        constexpr auto mps_enabled = static_cast<cudaDeviceAttr>(133);
        int enabled = 0;
        auto const status = cudaDeviceGetAttribute(&enabled, mps_enabled, device);
        if (status == cudaErrorInvalidValue) return (void)cudaGetLastError(), false;
        auto const result = cuda_result(status, "cudaDeviceGetAttribute");
        if (!result) return result.error();
        return enabled != 0;
    }
    static Result<SharedHandle> export_shared(void* memory) {
        cudaIpcMemHandle_t native{};
        auto const result = cuda_result(cudaIpcGetMemHandle(&native, memory), "cudaIpcGetMemHandle");
        if (!result) return (void)cudaGetLastError(), result.error();
        SharedHandle handle;
        static_assert(sizeof handle.bytes == sizeof native);
        std::memcpy(handle.bytes.data(), &native, sizeof native);
        return handle;
    }
    static Result<void*> open_shared(SharedHandle handle) {
        cudaIpcMemHandle_t native{};
        std::memcpy(&native, handle.bytes.data(), sizeof native);
        void* memory = nullptr;
        auto const result =
            cuda_result(cudaIpcOpenMemHandle(&memory, native, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
        if (!result) return (void)cudaGetLastError(), result.error();
        return memory;
    }
    static void close_shared(void* memory) { (void)cudaIpcCloseMemHandle(memory); }
    static Result<void*> allocate_mapped(std::size_t bytes) {
        auto const mapping = open_mapping();
        if (!mapping) return mapping.error();
        return mapping->allocate(bytes);
    }
    static Result<int> export_mapped(void* memory) {
        auto const mapping = open_mapping();
        if (!mapping) return mapping.error();
        return mapping->export_descriptor(memory);
    }
    static Result<void*> open_mapped(int descriptor, std::size_t bytes) {
        auto const mapping = open_mapping();
        if (!mapping) return mapping.error();
        return mapping->map(descriptor, bytes);
    }
    static void release_mapped(void* memory, std::size_t bytes) {
        if (auto const mapping = open_mapping()) mapping->release(memory, bytes);
    }

    static Result<> begin_capture(Stream stream) {
        return cuda_result(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    }
    static Result<Graph> end_capture(Stream stream) {
        cudaGraph_t graph = nullptr;
        auto const ended = cuda_result(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
        // A capture that was broken leaves its reason behind as the last error.
        if (!ended) return (void)cudaGetLastError(), ended.error();
        Graph instance = nullptr;
        auto const made = cuda_result(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
        (void)cudaGraphDestroy(graph);
        if (!made) return (void)cudaGetLastError(), made.error();
        return instance;
    }
    static Result<> upload_graph(Graph graph, Stream stream) {
        return cuda_result(cudaGraphUpload(graph, stream), "cudaGraphUpload");
    }
    static Result<> launch_graph(Graph graph, Stream stream) {
        return cuda_result(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    }
    static void destroy_graph(Graph graph) { (void)cudaGraphExecDestroy(graph); }

private:
    [[nodiscard]] static Result<CudaMapping> open_mapping() {
        auto const device = current_device();
        if (!device) return device.error();
        // The runtime counts devices as the driver does.
        return CudaMapping::open(*device);
    }
};

static_assert(DeviceApi<CudaApi>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
