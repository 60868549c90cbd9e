// SPDX-License-Identifier: Apache-2.0
// A HIP runtime whose device is an emulator of AMD's machine code: one device, gfx942 or gfx1100, which executes a kernel while it is
// launched. A program links it instead of libamdhip64, with host code compiled by --cuda-host-only; the kernels are code objects of their
// own. execute.py executes them, in a process that has the device's memory at the same address.
//
//   SHARDWISE_AMD_EXECUTE   the command: Python, execute.py, the checkout of tinygrad and the code objects, parted by spaces
//
// At the end of the process it prints how many kernels ran, and which did not and why. Graphs, peers and handles are refused.
#include "emulated_device.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <map>
#include <string>
#include <vector>

using shardwise::testing::EmulatedDevice;

struct ihipStream_t {};
struct ihipEvent_t {
    std::chrono::steady_clock::time_point time;
};

namespace {

thread_local hipError_t last_error = hipSuccess;

hipError_t failed(hipError_t error) {
    last_error = error;
    return error;
}

/// Kernels by the address of their host function.
std::map<void const*, std::string>& kernels() {
    static std::map<void const*, std::string> names;
    return names;
}

struct Launch {
    dim3 blocks;
    dim3 threads;
    std::size_t shared;
    hipStream_t stream;
};
thread_local std::vector<Launch> pending;

}  // namespace

extern "C" {

/// Where host code by --cuda-host-only looks for kernels that it would carry itself, and what they are registered with (clang 17 and later).
char __hip_fatbin_[1] = {};
void** __hip_gpubin_handle_ = nullptr;

void** __hipRegisterFatBinary(void const*) {
    static void* module = nullptr;
    return &module;
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, void const* host, char*, char const* name, unsigned, void*, void*, void*, void*,
                           int*) {
    kernels()[host] = name;
}
void __hipRegisterVar(void**, void*, char*, char*, int, std::size_t, int, int) {}
void __hipRegisterManagedVar(void*, void**, void*, char const*, std::size_t, unsigned) {}
hipError_t __hipPushCallConfiguration(dim3 blocks, dim3 threads, std::size_t shared, hipStream_t stream) {
    pending.push_back({blocks, threads, shared, stream});
    return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared, hipStream_t* stream) {
    auto const launch = pending.back();
    pending.pop_back();
    *blocks = launch.blocks;
    *threads = launch.threads;
    *shared = launch.shared;
    *stream = launch.stream;
    return hipSuccess;
}
hipError_t hipLaunchKernel(void const* host, dim3 blocks, dim3 threads, void** arguments, std::size_t shared,
                           hipStream_t) {
    auto const status = EmulatedDevice::one().launch(kernels().at(host), blocks, threads, arguments, shared);
    return status == hipSuccess ? status : failed(status);
}

hipError_t hipFuncGetAttributes(hipFuncAttributes* attributes, void const* host) {
    *attributes = {};
    return kernels().count(host) > 0 ? hipSuccess : failed(hipErrorInvalidDeviceFunction);
}

hipError_t hipGetDeviceCount(int* count) {
    *count = 1;
    return hipSuccess;
}
hipError_t hipGetDevice(int* device) {
    *device = 0;
    return hipSuccess;
}
hipError_t hipSetDevice(int device) {
    return device == 0 ? hipSuccess : failed(hipErrorInvalidDevice);
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
    *properties = {};
    auto const& device = EmulatedDevice::one();
    properties->warpSize = device.warp();
    properties->multiProcessorCount = 4;
    properties->totalGlobalMem = shardwise::testing::memory_bytes;
    std::snprintf(properties->name, sizeof properties->name, "emulated %s", device.name().c_str());
    std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s", device.name().c_str());
    return hipSuccess;
}
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t) {
    std::memset(uuid, 7, sizeof *uuid);
    return hipSuccess;
}
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = shardwise::testing::memory_bytes / 2;
    *total = shardwise::testing::memory_bytes;
    return hipSuccess;
}
hipError_t hipMalloc(void** memory, std::size_t bytes) {
    *memory = EmulatedDevice::one().allocate(bytes);
    return *memory != nullptr ? hipSuccess : failed(hipErrorOutOfMemory);
}
hipError_t hipFree(void* memory) {
    if (memory != nullptr) EmulatedDevice::one().release(memory);
    return hipSuccess;
}
hipError_t hipExtMallocWithFlags(void** memory, std::size_t bytes, unsigned) {
    return hipMalloc(memory, bytes);
}
hipError_t hipHostMalloc(void** memory, std::size_t bytes, unsigned) {
    return hipMalloc(memory, bytes);
}
hipError_t hipHostFree(void* memory) {
    return hipFree(memory);
}
hipError_t hipMemcpyAsync(void* to, void const* from, std::size_t bytes, hipMemcpyKind, hipStream_t) {
    std::memmove(to, from, bytes);
    return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, std::size_t bytes, hipStream_t) {
    std::memset(memory, value, bytes);
    return hipSuccess;
}
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
    *stream = new ihipStream_t;
    return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
    delete stream;
    return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned) {
    return hipSuccess;
}
hipError_t hipEventCreate(hipEvent_t* event) {
    *event = new ihipEvent_t{};
    return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned) {
    return hipEventCreate(event);
}
hipError_t hipEventDestroy(hipEvent_t event) {
    delete event;
    return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t) {
    event->time = std::chrono::steady_clock::now();
    return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t) {
    return hipSuccess;
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t first, hipEvent_t last) {
    *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
    return hipSuccess;
}
hipError_t hipGetLastError() {
    auto const error = last_error;
    last_error = hipSuccess;
    return error;
}
char const* hipGetErrorString(hipError_t error) {
    return error == hipErrorLaunchFailure  ? "the emulator does not execute the kernel"
           : error == hipErrorNotSupported ? "the emulated device does not do this"
           : error == hipErrorOutOfMemory  ? "out of memory"
                                           : "an error of the emulated device";
}

hipError_t hipDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int, unsigned) {
    return failed(hipErrorNotSupported);
}
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t*, void*) {
    return failed(hipErrorNotSupported);
}
hipError_t hipIpcOpenMemHandle(void**, hipIpcMemHandle_t, unsigned) {
    return failed(hipErrorNotSupported);
}
hipError_t hipIpcCloseMemHandle(void*) {
    return failed(hipErrorNotSupported);
}
hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) {
    return failed(hipErrorNotSupported);
}
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t*) {
    return failed(hipErrorNotSupported);
}
hipError_t hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, std::size_t) {
    return failed(hipErrorNotSupported);
}
hipError_t hipGraphDestroy(hipGraph_t) {
    return failed(hipErrorNotSupported);
}
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) {
    return failed(hipErrorNotSupported);
}
hipError_t hipGraphExecDestroy(hipGraphExec_t) {
    return failed(hipErrorNotSupported);
}

}  // extern "C"
