// SPDX-License-Identifier: Apache-2.0
// A HIP runtime whose device is an emulator of AMD's machine code: one device, gfx942 or gfx1100, which executes a kernel while it is
// launched. A program links it instead of libamdhip64, with host code compiled by --cuda-host-only; the kernels are code objects of their
// own. execute.py executes them, in a process that has the device's memory at the same address.
//
//   SHARDWISE_AMD_EXECUTE   the command: Python, execute.py, the checkout of tinygrad and the code objects, parted by spaces
//
// At the end of the process it prints how many kernels ran, and which did not and why. Graphs, peers and handles are refused.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

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

constexpr std::size_t memory_bytes = std::size_t{1} << 31;
constexpr std::size_t alignment = 256;

/// The device: its memory, and the process that executes kernels.
class Device {
public:
    static Device& one() {
        static Device device;
        return device;
    }

    void* allocate(std::size_t bytes) {
        std::lock_guard const lock(mutex_);
        auto const size = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
        for (auto range = free_.begin(); range != free_.end(); ++range) {
            if (range->second < size) continue;
            auto const at = range->first;
            auto const left = range->second - size;
            free_.erase(range);
            if (left > 0) free_.emplace(at + size, left);
            held_.emplace(at, size);
            auto* const memory = memory_ + at;
            // What a kernel does not write must not look like a result.
            std::memset(memory, 0xFF, size);
            return memory;
        }
        return nullptr;
    }
    void release(void* memory) {
        std::lock_guard const lock(mutex_);
        auto const range = held_.find(static_cast<std::size_t>(static_cast<char*>(memory) - memory_));
        if (range == held_.end()) return;
        auto [at, size] = *range;
        held_.erase(range);
        auto next = free_.lower_bound(at);
        if (next != free_.end() && at + size == next->first) {
            size += next->second;
            next = free_.erase(next);
        }
        if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at)
            std::prev(next)->second += size;
        else
            free_.emplace(at, size);
    }

    hipError_t launch(std::string const& kernel, dim3 blocks, dim3 threads, void** arguments, std::size_t shared) {
        auto* const memory = static_cast<char*>(allocate(4096));
        if (memory == nullptr) return failed(hipErrorOutOfMemory);
        std::lock_guard const lock(launch_mutex_);
        auto answer = ask("layout " + kernel);
        if (answer.rfind("layout", 0) == 0) {
            std::istringstream words(answer.substr(6));
            std::size_t number = 0;
            std::memset(memory, 0, 4096);
            std::size_t offset = 0;
            std::size_t size = 0;
            for (char colon = ':'; words >> offset >> colon >> size; ++number)
                std::memcpy(memory + offset, arguments[number], size);
            answer = ask("run " + kernel + " " + std::to_string(blocks.x) + " " + std::to_string(threads.x) + " " +
                         std::to_string(shared) + " " + std::to_string(reinterpret_cast<std::uintptr_t>(memory)));
        }
        release(memory);
        if (answer == "done") {
            if (not_executed_.count(kernel) == 0) executed_.insert(kernel);
            return hipSuccess;
        }
        not_executed_.emplace(kernel, answer);
        executed_.erase(kernel);
        return failed(hipErrorLaunchFailure);
    }

    [[nodiscard]] std::string const& name() const { return name_; }
    /// Threads of a warp.
    [[nodiscard]] int warp() const { return warp_; }

    Device(Device const&) = delete;
    Device& operator=(Device const&) = delete;
    ~Device() {
        if (requests_ == nullptr) return;
        std::fclose(requests_);
        std::fclose(answers_);
        waitpid(process_, nullptr, 0);
        std::printf("amd: %zu kernels were executed, %zu were not\n", executed_.size(), not_executed_.size());
        for (auto const& [kernel, why] : not_executed_)
            std::printf("amd: not executed: %s: %s\n", kernel.c_str(), why.c_str());
    }

private:
    Device() {
        auto const file = memfd_create("device", 0);
        if (file < 0 || ftruncate(file, memory_bytes) != 0) fail("has no memory");
        auto* const place = reinterpret_cast<void*>(std::uintptr_t{0x100000000000});
        auto* const memory =
            mmap(place, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
        if (memory != place) fail("has no place for its memory");
        memory_ = static_cast<char*>(memory);
        free_.emplace(0, memory_bytes);
        file_ = file;
        // A request to a process that has ended is told by its missing answer.
        (void)std::signal(SIGPIPE, SIG_IGN);
        start();
        std::istringstream facts(ask("device"));
        std::string word;
        if (!(facts >> word >> name_ >> warp_) || word != "device") fail("does not say what it is");
    }
    [[noreturn]] static void fail(char const* what) {
        std::fprintf(stderr, "amd: the emulated device %s\n", what);
        std::exit(1);
    }
    void start() {
        auto const* const command = std::getenv("SHARDWISE_AMD_EXECUTE");
        if (command == nullptr) fail("has no command to execute kernels: SHARDWISE_AMD_EXECUTE");
        std::vector<std::string> words;
        std::istringstream line(command);
        for (std::string word; line >> word;) words.push_back(word);
        words.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(memory_)));
        words.push_back(std::to_string(memory_bytes));
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        int to[2] = {};
        int from[2] = {};
        if (pipe(to) != 0 || pipe(from) != 0) fail("has no pipes");
        process_ = fork();
        if (process_ == 0) {
            // Numbers above those of its own, so that none is overwritten.
            auto const memory = fcntl(file_, F_DUPFD, 10);
            auto const in = fcntl(to[0], F_DUPFD, 10);
            auto const out = fcntl(from[1], F_DUPFD, 10);
            dup2(memory, 3);
            dup2(in, 0);
            dup2(out, 1);
            for (int other = 4; other < 64; ++other) close(other);
            execvp(arguments[0], arguments.data());
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        requests_ = fdopen(to[1], "w");
        answers_ = fdopen(from[0], "r");
    }
    /// The answer of the process; where it ends instead, how, and the next request has another one.
    std::string ask(std::string const& request) {
        std::fprintf(requests_, "%s\n", request.c_str());
        std::fflush(requests_);
        std::string answer;
        for (int next = std::fgetc(answers_); next != '\n'; next = std::fgetc(answers_)) {
            if (next == EOF) return end();
            answer += static_cast<char>(next);
        }
        has_answered_ = true;
        return answer;
    }
    std::string end() {
        int status = 0;
        std::fclose(requests_);
        std::fclose(answers_);
        requests_ = answers_ = nullptr;
        waitpid(process_, &status, 0);
        // One that cannot begin would end again.
        if (!has_answered_) fail("does not begin");
        start();
        return "failed The emulator ended by signal " + std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }

    std::string name_;
    int warp_ = 0;
    std::mutex mutex_;
    std::mutex launch_mutex_;
    char* memory_ = nullptr;
    std::map<std::size_t, std::size_t> free_;
    std::map<std::size_t, std::size_t> held_;
    int file_ = -1;
    pid_t process_ = 0;
    bool has_answered_ = false;
    std::FILE* requests_ = nullptr;
    std::FILE* answers_ = nullptr;
    std::set<std::string> executed_;
    std::map<std::string, std::string> not_executed_;
};

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
    return Device::one().launch(kernels().at(host), blocks, threads, arguments, shared);
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
    auto const& device = Device::one();
    properties->warpSize = device.warp();
    properties->multiProcessorCount = 4;
    properties->totalGlobalMem = memory_bytes;
    std::snprintf(properties->name, sizeof properties->name, "emulated %s", device.name().c_str());
    std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s", device.name().c_str());
    return hipSuccess;
}
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t) {
    std::memset(uuid, 7, sizeof *uuid);
    return hipSuccess;
}
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = memory_bytes / 2;
    *total = memory_bytes;
    return hipSuccess;
}
hipError_t hipMalloc(void** memory, std::size_t bytes) {
    *memory = Device::one().allocate(bytes);
    return *memory != nullptr ? hipSuccess : failed(hipErrorOutOfMemory);
}
hipError_t hipFree(void* memory) {
    if (memory != nullptr) Device::one().release(memory);
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
