// SPDX-License-Identifier: Apache-2.0
// Stands before the call by which a mapped file is read ahead (LD_PRELOAD), as a slow disk of one rank:
//
//   SLOW_RANK  the number of the rank, as RANK has it; a process without RANK is rank 0
//   SLOW_MS    what each such call takes longer, in milliseconds
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace {

std::string_view variable(char const* name, std::string_view otherwise) {
    auto const* const value = std::getenv(name);
    return value == nullptr ? otherwise : std::string_view(value);
}

}  // namespace

extern "C" int madvise(void* memory, std::size_t size, int advice) noexcept {
    static bool const is_slow = variable("RANK", "0") == variable("SLOW_RANK", "");
    static auto const pause = std::chrono::milliseconds(std::atoi(variable("SLOW_MS", "0").data()));
    if (is_slow && advice == MADV_WILLNEED) std::this_thread::sleep_for(pause);
    return static_cast<int>(::syscall(SYS_madvise, memory, size, advice));
}
