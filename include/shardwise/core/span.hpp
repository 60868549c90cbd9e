// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>

#include <cstddef>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A view of consecutive values that others own: the part of std::span that the planning half uses, with pointers as iterators.
/// What has data() and size() converts to it (List, std::vector, std::array, std::span), and it converts to std::span.
///
/// std::span would do, but each conversion of a container to one checks the concepts of the ranges library, which costs an
/// including program about 12 ms with g++ -O0.
template <class T>
class Span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using iterator = T*;

    constexpr Span() = default;
    constexpr Span(T* first, std::size_t count) : data_(first), size_(count) {}
    template <std::size_t Count>
    constexpr Span(T (&values)[Count]) : data_(values), size_(Count) {}
    template <class Values>
    requires requires(Values& values, T*& first) { first = values.data(), values.size(); }
    constexpr Span(Values&& values)
        : data_(values.data()), size_(values.size()) {}  // NOLINT: implicit like std::span's

    [[nodiscard]] constexpr std::size_t size() const { return size_; }
    [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
    [[nodiscard]] constexpr T* data() const { return data_; }
    [[nodiscard]] constexpr T* begin() const { return data_; }
    [[nodiscard]] constexpr T* end() const { return data_ + size_; }
    /// An index beyond the end is a bug of the caller, which SHARDWISE_ASSERT reports; so is a part that is not of the span.
    [[nodiscard]] constexpr T& operator[](std::size_t i) const {
        SHARDWISE_ASSERT(i < size_ && "the index is beyond the end of the Span");
        return data_[i];
    }
    [[nodiscard]] constexpr T& front() const { return (*this)[0]; }
    [[nodiscard]] constexpr T& back() const { return (*this)[size_ - 1]; }
    [[nodiscard]] constexpr Span first(std::size_t count) const { return subspan(0, count); }
    [[nodiscard]] constexpr Span last(std::size_t count) const { return subspan(size_ - count, count); }
    [[nodiscard]] constexpr Span subspan(std::size_t offset) const { return subspan(offset, size_ - offset); }
    [[nodiscard]] constexpr Span subspan(std::size_t offset, std::size_t count) const {
        SHARDWISE_ASSERT(offset <= size_ && count <= size_ - offset && "the part is beyond the end of the Span");
        return {data_ + offset, count};
    }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
