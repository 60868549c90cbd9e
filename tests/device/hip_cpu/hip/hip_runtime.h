#pragma once

// HIP on the CPU (ROCm/HIP-CPU, whose include folder comes behind this one) with what our code calls and it lacks. Only
// SHARDWISE_HIP_CPU builds use it; tests/device/README.md.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <future>
#include_next <hip/hip_runtime.h>

// Its marks ask for vector clones of every function, which templates do not survive.
#undef __device__
#undef __global__
#define __device__
#define __global__

#define __HIP_MEMORY_SCOPE_SYSTEM 5
#define __hip_atomic_store(at, value, order, scope) __atomic_store_n(at, value, order)
#define __hip_atomic_load(at, order, scope) __atomic_load_n(at, order)

/// Aligned as vendors' allocators align; hipFree is free.
inline hipError_t allocate_hip_cpu(void** memory, std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    return *memory == nullptr ? hipErrorOutOfMemory : hipSuccess;
}
#define hipMalloc allocate_hip_cpu

#define hipDeviceMallocFinegrained 1
inline hipError_t hipExtMallocWithFlags(void** memory, std::size_t bytes, unsigned) {
    return hipMalloc(memory, bytes);
}

inline hipError_t hipHostMalloc(void** memory, std::size_t bytes, unsigned) {
    return hipHostMalloc(memory, bytes, hipHostMallocDefault);
}

/// The events hold the future of a task.
inline hipError_t hipEventQuery(hipEvent_t event) {
    auto const& done = is_done(*event);
    if (!done.valid()) return hipSuccess;
    return done.wait_for(std::chrono::seconds{0}) == std::future_status::ready ? hipSuccess : hipErrorNotReady;
}

// It has no graphs.
using hipGraph_t = void*;
using hipGraphExec_t = void*;
enum hipStreamCaptureMode { hipStreamCaptureModeThreadLocal };
inline hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) {
    return hipErrorNotSupported;
}
inline hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t*) {
    return hipErrorNotSupported;
}
inline hipError_t hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, void*, char*, std::size_t) {
    return hipErrorNotSupported;
}
inline hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) {
    return hipErrorNotSupported;
}
inline hipError_t hipGraphDestroy(hipGraph_t) {
    return hipSuccess;
}
inline hipError_t hipGraphExecDestroy(hipGraphExec_t) {
    return hipSuccess;
}

// Its memory is a process's own.
struct hipUUID {
    char bytes[16];
};
struct hipIpcMemHandle_t {
    char reserved[64];
};
constexpr unsigned hipIpcMemLazyEnablePeerAccess = 0;
inline hipError_t hipDeviceGetUuid(hipUUID*, int) {
    return hipErrorNotSupported;
}
inline hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t*, void*) {
    return hipErrorNotSupported;
}
inline hipError_t hipIpcOpenMemHandle(void**, hipIpcMemHandle_t, unsigned) {
    return hipErrorNotSupported;
}
inline hipError_t hipIpcCloseMemHandle(void*) {
    return hipErrorNotSupported;
}

/// 100 MHz, as gfx9 counts.
inline long long wall_clock64() {
    auto const now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() / 10;
}

/// What it says of a device has no name of a processor: that of one whose products of many rows are tiles.
struct NamedProperties : hipDeviceProp_t {
    char gcnArchName[16] = "gfx90a";
};
/// It reports the lanes and cores of the processor, but shuffles among `warpSize` threads, and never runs blocks at once.
inline hipError_t describe_hip_cpu(NamedProperties* properties, int device) {
    auto const status = hipGetDeviceProperties(properties, device);
    properties->warpSize = warpSize;
    properties->multiProcessorCount = 8;
    return status;
}
#define hipGetDeviceProperties describe_hip_cpu
#define hipDeviceProp_t NamedProperties
