// SPDX-License-Identifier: Apache-2.0
// What kernels that are compiled at run time call of the HIP runtime: it takes code objects that hold the kernel that is looked for, and
// writes down what is launched. A test links it instead of libamdhip64, which holds hipRTC and is opened for that alone.
#include "hip_runtime.hpp"

#include <cstdio>
#include <hip/hip_runtime_api.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using shardwise::testing::fake_hip;
using shardwise::testing::FakeHip;
using shardwise::testing::FakeModule;
using shardwise::testing::read_elf;

namespace {

std::vector<std::unique_ptr<FakeModule>> modules;

hipError_t failed(hipError_t error) {
    fake_hip().last_error = error;
    return error;
}

}  // namespace

FakeHip& shardwise::testing::fake_hip() {
    static FakeHip fake;
    return fake;
}

extern "C" {

char const* hipGetErrorString(hipError_t error) {
    return error == hipErrorNoBinaryForGpu ? "no code object for this device" : "invalid";
}
hipError_t hipGetLastError() {
    return static_cast<hipError_t>(std::exchange(fake_hip().last_error, 0));
}
hipError_t hipGetDevice(int* device) {
    if (fake_hip().device < 0) return failed(hipErrorNoDevice);
    *device = fake_hip().device;
    return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
    *properties = {};
    std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s", fake_hip().processor.c_str());
    return hipSuccess;
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
    auto const before = static_cast<hipStreamCaptureMode>(fake_hip().capture_mode);
    fake_hip().capture_mode = *mode;
    *mode = before;
    return hipSuccess;
}
hipError_t hipModuleLoadData(hipModule_t* code, void const* image) {
    auto& fake = fake_hip();
    auto bytes = read_elf(static_cast<char const*>(image));
    if (fake.failing_loads > 0 || bytes.empty()) {
        if (fake.failing_loads > 0) --fake.failing_loads;
        return failed(hipErrorNoBinaryForGpu);
    }
    ++fake.loads;
    if (fake.capture_mode != hipStreamCaptureModeRelaxed) ++fake.captured_loads;
    modules.push_back(std::make_unique<FakeModule>());
    modules.back()->image = std::move(bytes);
    *code = reinterpret_cast<hipModule_t>(modules.back().get());
    return hipSuccess;
}
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t code, char const* symbol) {
    auto& in = *reinterpret_cast<FakeModule*>(code);
    if (in.image.find(symbol) == std::string::npos) return failed(hipErrorNotFound);
    in.functions.push_back(std::make_unique<std::string>(symbol));
    *function = reinterpret_cast<hipFunction_t>(in.functions.back().get());
    return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned blocks, unsigned, unsigned, unsigned threads,
                                 unsigned, unsigned, unsigned, hipStream_t stream, void** arguments, void**) {
    auto& fake = fake_hip();
    if (fake.failing_launches > 0) {
        --fake.failing_launches;
        return failed(hipErrorInvalidValue);
    }
    fake.launches.push_back({*reinterpret_cast<std::string*>(function), blocks, threads, stream,
                             std::string(static_cast<char const*>(arguments[0]), fake.argument_bytes)});
    return hipSuccess;
}
}
