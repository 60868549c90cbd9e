// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "allocations.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace {

thread_local std::int64_t allocations = 0;

void* counted_memory(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    return std::aligned_alloc(alignment,
                              (bytes + alignment - 1) / alignment * alignment + (bytes == 0 ? alignment : 0));
}

}  // namespace

// Sanitizers have the other forms of their own, which these are not to meet.
void* operator new(std::size_t bytes) {
    if (auto* const memory = counted_memory(bytes, alignof(std::max_align_t))) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    if (auto* const memory = counted_memory(bytes, static_cast<std::size_t>(alignment))) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
    return counted_memory(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
    return counted_memory(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace shardwise::testing {

std::int64_t allocations_of_thread() {
    return allocations;
}

}  // namespace shardwise::testing

TEST_CASE("allocations of a thread are counted") {
    auto const before = shardwise::testing::allocations_of_thread();
    auto const memory = std::make_unique<double>(1.0);
    CHECK(shardwise::testing::allocations_of_thread() == before + 1);
}
