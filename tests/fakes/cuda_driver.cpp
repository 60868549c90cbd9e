// SPDX-License-Identifier: Apache-2.0
// A library of the interface of CUDA's driver, in place of libcuda.so.1: it takes images that are cubins or PTX and hold the kernel that is
// looked for, and writes down what is launched.
#include "cuda_driver.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using shardwise::testing::FakeCuda;
using shardwise::testing::FakeModule;
using shardwise::testing::read_elf;

namespace {

constexpr int invalid_value = 1;
constexpr int no_binary = 209;
constexpr int not_found = 500;

FakeCuda fake;
thread_local int capture_mode = 0;
thread_local void* own_context = nullptr;
std::mutex changing;

std::vector<std::unique_ptr<FakeModule>> modules;

/// The bytes of an image: an ELF file's, or a text's that is PTX.
std::string read_image(char const* image) {
    auto bytes = read_elf(image);
    if (!bytes.empty()) return bytes;
    std::string text = image;
    return text.find(".target") == std::string::npos ? "" : text;
}

}  // namespace

extern "C" {

FakeCuda* shardwise_fake_cuda() {
    return &fake;
}
/// The calling thread's mode of captures.
int shardwise_fake_cuda_mode() {
    return capture_mode;
}

/// Makes a context current for the calling thread; null: that of all.
void shardwise_fake_cuda_context(void* context) {
    own_context = context;
}

int cuCtxGetCurrent(void** context) {
    *context = own_context == nullptr ? fake.context : own_context;
    return 0;
}
int cuCtxGetDevice(int* device) {
    *device = 0;
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    if (attribute != 75 && attribute != 76) return invalid_value;
    *value = attribute == 75 ? fake.capability / 10 : fake.capability % 10;
    return 0;
}
int cuModuleLoadData(void** code, void const* image) {
    if (fake.failing_loads > 0) {
        --fake.failing_loads;
        return no_binary;
    }
    if (fake.meeting_loads > 0) {
        --fake.meeting_loads;
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (fake.meeting_loads > 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (fake.meeting_loads > 0) ++fake.missed_meetings;
    }
    std::lock_guard const lock(changing);
    auto bytes = read_image(static_cast<char const*>(image));
    if (bytes.empty()) return no_binary;
    ++fake.loads;
    if (capture_mode != 2) ++fake.captured_loads;
    modules.push_back(std::make_unique<FakeModule>());
    modules.back()->image = std::move(bytes);
    *code = modules.back().get();
    return 0;
}
int cuModuleGetFunction(void** function, void* code, char const* symbol) {
    std::lock_guard const lock(changing);
    auto& in = *static_cast<FakeModule*>(code);
    if (in.image.find(symbol) == std::string::npos) return not_found;
    in.functions.push_back(std::make_unique<std::string>(symbol));
    *function = in.functions.back().get();
    return 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                   void* stream, void** arguments, void**) {
    std::lock_guard const lock(changing);
    fake.launches.push_back({*static_cast<std::string*>(function), blocks, threads, stream,
                             std::string(static_cast<char const*>(arguments[0]), fake.argument_bytes)});
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
    std::swap(*mode, capture_mode);
    return 0;
}
int cuGetErrorString(int status, char const** text) {
    *text = status == no_binary ? "no kernel image is available" : "invalid";
    return 0;
}
}
