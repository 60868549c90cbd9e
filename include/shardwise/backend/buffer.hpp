// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Memory of a back end that its owner frees; the context that it came from outlives it.
///
/// Memory  aligned to Backend::alignment, not initialised
template <class T, class Backend>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>, "a buffer holds plain values: devices copy them byte by byte");

public:
    using Context = typename Backend::Context;

    /// Memory for `count` values.
    ///
    /// Errors  invalid_argument for a negative count; size_overflow; out_of_memory with what was asked for
    [[nodiscard]] static Result<Buffer> allocate(Context& context, std::int64_t count) {
        if (count < 0) return Error{ErrorCode::invalid_argument}.in("buffer").because("has a negative size").got(count);
        auto const bytes = checked_multiply(count, static_cast<std::int64_t>(sizeof(T)));
        if (!bytes)
            return Error{ErrorCode::size_overflow}.in("buffer").because("has more bytes than 63 bits count").got(count);
        auto memory = Backend::allocate(context, Bytes{*bytes});
        if (!memory) return memory.error();
        return Buffer(context, static_cast<T*>(*memory), count);
    }

    Buffer() = default;
    Buffer(Buffer&& other) noexcept
        : context_(std::exchange(other.context_, nullptr)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(context_, other.context_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() {
        if (data_ != nullptr) Backend::release(*context_, data_, bytes());
    }

    [[nodiscard]] T* data() { return data_; }
    [[nodiscard]] T const* data() const { return data_; }
    [[nodiscard]] std::int64_t size() const { return size_; }
    [[nodiscard]] Bytes bytes() const { return Bytes{size_ * static_cast<std::int64_t>(sizeof(T))}; }

    [[nodiscard]] TensorView<T, 1, Backend> view() { return {data_, {size_}}; }
    [[nodiscard]] TensorView<T const, 1, Backend> view() const { return {data_, {size_}}; }
    /// The first rows * columns values as a matrix.
    [[nodiscard]] TensorView<T, 2, Backend> matrix(std::int64_t rows, std::int64_t columns) {
        return {data_, {rows, columns}};
    }

private:
    Buffer(Context& context, T* data, std::int64_t size) : context_(&context), data_(data), size_(size) {}

    Context* context_ = nullptr;
    T* data_ = nullptr;
    std::int64_t size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
