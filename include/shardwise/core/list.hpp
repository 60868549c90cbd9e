// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>

#include <cstddef>
#include <initializer_list>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A growable array for the planning half: the part of std::vector that it uses, with pointers as iterators. Elements must be
/// default-constructible; growing moves them. Converts to Span and std::span.
///
/// std::vector would do, but each of its instantiations costs an including program about 15 ms with g++ -O0, and there
/// are two dozen: this class brings <shardwise/shardwise.hpp> from 1.27 s to 0.89 s (bench/bench_plan.cpp), and takes fewer
/// steps in constant expressions.
///
/// Memory  one block, half as large again when full
template <class T>
class List {
public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = T const*;

    constexpr List() = default;
    constexpr explicit List(std::size_t size) { resize(size); }
    constexpr List(std::size_t size, T const& value) { assign(size, value); }
    constexpr List(std::initializer_list<T> values) { append(values.begin(), values.end()); }
    constexpr List(T const* first, T const* last) { append(first, last); }
    constexpr List(List const& other) { append(other.begin(), other.end()); }
    constexpr List(List&& other) noexcept { swap(other); }
    constexpr List& operator=(List const& other) {
        if (this != &other) {
            clear();
            append(other.begin(), other.end());
        }
        return *this;
    }
    constexpr List& operator=(List&& other) noexcept {
        swap(other);
        return *this;
    }
    constexpr ~List() { delete[] data_; }

    [[nodiscard]] constexpr std::size_t size() const { return size_; }
    [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
    [[nodiscard]] constexpr T* data() { return data_; }
    [[nodiscard]] constexpr T const* data() const { return data_; }
    [[nodiscard]] constexpr T* begin() { return data_; }
    [[nodiscard]] constexpr T const* begin() const { return data_; }
    [[nodiscard]] constexpr T* end() { return data_ + size_; }
    [[nodiscard]] constexpr T const* end() const { return data_ + size_; }
    /// An index beyond the end is a bug of the caller, which SHARDWISE_ASSERT reports; front() and back() of none as well.
    [[nodiscard]] constexpr T& operator[](std::size_t i) {
        SHARDWISE_ASSERT(i < size_ && "the index is beyond the end of the List");
        return data_[i];
    }
    [[nodiscard]] constexpr T const& operator[](std::size_t i) const {
        SHARDWISE_ASSERT(i < size_ && "the index is beyond the end of the List");
        return data_[i];
    }
    [[nodiscard]] constexpr T& front() { return (*this)[0]; }
    [[nodiscard]] constexpr T const& front() const { return (*this)[0]; }
    [[nodiscard]] constexpr T& back() { return (*this)[size_ - 1]; }
    [[nodiscard]] constexpr T const& back() const { return (*this)[size_ - 1]; }

    constexpr void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        T* const grown = new T[capacity];
        for (std::size_t i = 0; i < size_; ++i) grown[i] = std::move(data_[i]);
        delete[] data_;
        data_ = grown;
        capacity_ = capacity;
    }
    // By value: an element of this very list may be pushed.
    constexpr void push_back(T value) {
        if (size_ == capacity_) reserve(grown());
        data_[size_++] = std::move(value);
    }
    constexpr void pop_back() {
        SHARDWISE_ASSERT(size_ > 0 && "the List is empty");
        --size_;
    }
    constexpr void clear() { size_ = 0; }
    constexpr void resize(std::size_t size) {
        reserve(size);
        while (size_ < size) data_[size_++] = T{};
        size_ = size;
    }
    constexpr void assign(std::size_t size, T const& value) {
        clear();
        reserve(size);
        while (size_ < size) data_[size_++] = value;
    }
    constexpr void assign(T const* first, T const* last) {
        clear();
        append(first, last);
    }
    constexpr void append(T const* first, T const* last) {
        auto const size = size_ + static_cast<std::size_t>(last - first);
        if (size > capacity_) reserve(size > grown() ? size : grown());
        for (; first != last; ++first) data_[size_++] = *first;
    }
    /// Puts a value before `place`; returns where it is.
    constexpr T* insert(T const* place, T value) {
        auto const i = static_cast<std::size_t>(place - data_);
        SHARDWISE_ASSERT(i <= size_ && "the place is beyond the end of the List");
        if (size_ == capacity_) reserve(grown());
        for (auto last = size_++; last > i; --last) data_[last] = std::move(data_[last - 1]);
        data_[i] = std::move(value);
        return data_ + i;
    }
    /// Takes the values of [first, last) out.
    constexpr void erase(T const* first, T const* last) {
        auto const count = static_cast<std::size_t>(last - first);
        SHARDWISE_ASSERT(first <= last && count <= size_ && "the range is not of the List");
        for (auto i = static_cast<std::size_t>(first - data_); i + count < size_; ++i) data_[i] = std::move(data_[i + count]);
        size_ -= count;
    }
    /// Takes the value at `place` out.
    constexpr void erase(T const* place) { erase(place, place + 1); }
    // By hand: std::swap and std::exchange cost an including program more than the rest of this class.
    constexpr void swap(List& other) noexcept {
        auto* const data = data_;
        auto const size = size_;
        auto const capacity = capacity_;
        data_ = other.data_;
        size_ = other.size_;
        capacity_ = other.capacity_;
        other.data_ = data;
        other.size_ = size;
        other.capacity_ = capacity;
    }

    friend constexpr bool operator==(List const& a, List const& b) {
        if (a.size_ != b.size_) return false;
        for (std::size_t i = 0; i < a.size_; ++i) {
            if (!(a.data_[i] == b.data_[i])) return false;
        }
        return true;
    }

private:
    [[nodiscard]] constexpr std::size_t grown() const { return capacity_ < 4 ? 4 : capacity_ + capacity_ / 2; }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
