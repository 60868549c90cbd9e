// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// glibc's swapcontext asks the system to keep the signals' mask at each call. Where no sanitizer has to be told of stacks, a fiber's place
// is its stack pointer.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if !defined(__has_feature)
#define SHARDWISE_TEST_OWN_SWITCH
#elif !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer)
#define SHARDWISE_TEST_OWN_SWITCH
#endif
#endif

#if defined(SHARDWISE_TEST_OWN_SWITCH)
// The registers that a call keeps, by the System V ABI. Weak: each file that includes this has it.
asm(R"(
.text
.weak shardwise_test_switch
.type shardwise_test_switch, @function
shardwise_test_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size shardwise_test_switch, . - shardwise_test_switch
)");
extern "C" void shardwise_test_switch(void** from, void* to);
#else
#include <ucontext.h>
#endif

namespace shardwise::testing {

/// Where a fiber goes on when its turn comes.
class FiberPlace {
public:
    /// At the beginning of `body`, which never returns.
    void begin(char* stack, std::size_t bytes, void (*body)());
    /// Keeps where the caller is in `from`, and goes on at `to`.
    static void go(FiberPlace& from, FiberPlace& to);

private:
#if defined(SHARDWISE_TEST_OWN_SWITCH)
    void* stack_ = nullptr;
#else
    ucontext_t context_{};
#endif
};

#if defined(SHARDWISE_TEST_OWN_SWITCH)
inline void FiberPlace::begin(char* stack, std::size_t bytes, void (*body)()) {
    // From the top: what stands for the address that the body returns to, the body, and six registers.
    constexpr std::size_t words = 8;
    auto const top = (reinterpret_cast<std::uintptr_t>(stack) + bytes) / 16 * 16;
    auto* const first = reinterpret_cast<std::uintptr_t*>(top) - words;
    for (std::size_t i = 0; i < words; ++i) first[i] = 0;
    first[words - 2] = reinterpret_cast<std::uintptr_t>(body);
    stack_ = first;
}
inline void FiberPlace::go(FiberPlace& from, FiberPlace& to) {
    shardwise_test_switch(&from.stack_, to.stack_);
}
#else
inline void FiberPlace::begin(char* stack, std::size_t bytes, void (*body)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, body, 0);
}
inline void FiberPlace::go(FiberPlace& from, FiberPlace& to) {
    swapcontext(&from.context_, &to.context_);
}
#endif

}  // namespace shardwise::testing
