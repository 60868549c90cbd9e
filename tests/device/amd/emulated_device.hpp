// SPDX-License-Identifier: Apache-2.0
#pragma once

// The device of runtime.cpp: memory that this process shares with execute.py, which executes kernels there.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace shardwise::testing {

/// Of the device.
inline constexpr std::size_t memory_bytes = std::size_t{1} << 31;
inline constexpr std::size_t alignment = 256;

/// The device: its memory, and the process that executes kernels.
class EmulatedDevice {
public:
    static EmulatedDevice& one() {
        static EmulatedDevice device;
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
        if (memory == nullptr) return hipErrorOutOfMemory;
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
        return hipErrorLaunchFailure;
    }

    [[nodiscard]] std::string const& name() const { return name_; }
    /// Threads of a warp.
    [[nodiscard]] int warp() const { return warp_; }

    EmulatedDevice(EmulatedDevice const&) = delete;
    EmulatedDevice& operator=(EmulatedDevice const&) = delete;
    ~EmulatedDevice() {
        if (requests_ == nullptr) return;
        std::fclose(requests_);
        std::fclose(answers_);
        waitpid(process_, nullptr, 0);
        std::printf("amd: %zu kernels were executed, %zu were not\n", executed_.size(), not_executed_.size());
        for (auto const& [kernel, why] : not_executed_)
            std::printf("amd: not executed: %s: %s\n", kernel.c_str(), why.c_str());
    }

private:
    EmulatedDevice() {
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

}  // namespace shardwise::testing
