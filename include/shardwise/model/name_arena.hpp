// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <cstddef>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Owns text that string_views of a tree point to; views stay valid when the arena is moved. Works in constant expressions.
class NameArena {
public:
    constexpr NameArena() = default;
    constexpr NameArena(NameArena&& other) noexcept
        : chunks_(std::move(other.chunks_)), used_(std::exchange(other.used_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {
        other.chunks_.clear();
    }
    constexpr NameArena& operator=(NameArena&& other) noexcept {
        chunks_.swap(other.chunks_);
        std::swap(used_, other.used_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    NameArena(NameArena const&) = delete;
    NameArena& operator=(NameArena const&) = delete;
    constexpr ~NameArena() {
        for (auto* chunk : chunks_) delete[] chunk;
    }

    /// A copy of a + b + c that lives as long as the arena.
    constexpr std::string_view join(std::string_view a, std::string_view b = {}, std::string_view c = {}) {
        auto const size = a.size() + b.size() + c.size();
        if (size == 0) return {};
        char* const begin = allocate(size);
        char* out = begin;
        for (auto const part : {a, b, c}) {
            for (char const letter : part) *out++ = letter;
        }
        return {begin, size};
    }

    /// The decimal digits of a number, kept like join's text.
    constexpr std::string_view number(std::size_t value) {
        char digits[20]{};
        std::size_t first = 20;
        do {
            digits[--first] = static_cast<char>('0' + value % 10);
            value /= 10;
        } while (value != 0);
        return join({digits + first, 20 - first});
    }

private:
    constexpr char* allocate(std::size_t size) {
        if (chunks_.empty() || capacity_ - used_ < size) {
            // Constant evaluation pays for every byte of a chunk, so chunks start small and double.
            capacity_ = chunks_.empty() ? 256 : capacity_ < (std::size_t{1} << 20U) ? capacity_ * 2 : capacity_;
            if (capacity_ < size) capacity_ = size;
            chunks_.push_back(new char[capacity_]);
            used_ = 0;
        }
        char* const begin = chunks_.back() + used_;
        used_ += size;
        return begin;
    }

    List<char*> chunks_;
    std::size_t used_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
