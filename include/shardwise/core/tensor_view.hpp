// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor in somebody else's memory: a pointer, extents and strides. `Backend` says in whose memory it lies, so that a
/// device pointer never reaches host code.
///
/// Shapes  outermost extent first; the last dimension is contiguous
/// Units   extents and strides in elements
template <class T, std::size_t dimensions, class Backend>
class TensorView {
    static_assert(dimensions >= 1, "a tensor view has at least one dimension");

public:
    using value_type = std::remove_const_t<T>;
    using Extents = std::array<std::int64_t, dimensions>;
    static constexpr std::size_t rank = dimensions;

    constexpr TensorView() = default;
    /// Dense rows, one after another.
    constexpr TensorView(T* data, Extents const& extents) : data_(data), extents_(extents) {
        std::int64_t stride = 1;
        for (auto i = dimensions; i-- > 0;) {
            strides_[i] = stride;
            stride *= extents_[i];
        }
    }
    /// Rows that lie `row_stride` elements apart.
    constexpr TensorView(T* data, Extents const& extents, std::int64_t row_stride) requires(dimensions == 2)
        : data_(data), extents_(extents), strides_{row_stride, 1} {}
    /// Elements at strides of their own; the last dimension is contiguous.
    constexpr TensorView(T* data, Extents const& extents, Extents const& strides)
        : data_(data), extents_(extents), strides_(strides) {}
    /// What may be written may be read.
    template <class Writable>
    requires(std::is_same_v<Writable const, T>) constexpr TensorView(
        TensorView<Writable, dimensions, Backend> const& other)
        : data_(other.data()), extents_(other.extents()), strides_(other.strides()) {}

    [[nodiscard]] constexpr T* data() const { return data_; }
    [[nodiscard]] constexpr Extents const& extents() const { return extents_; }
    [[nodiscard]] constexpr Extents const& strides() const { return strides_; }
    [[nodiscard]] constexpr std::int64_t extent(std::size_t dimension) const {
        SHARDWISE_ASSERT(dimension < dimensions && "the TensorView has fewer dimensions");
        return extents_[dimension];
    }
    [[nodiscard]] constexpr std::int64_t stride(std::size_t dimension) const {
        SHARDWISE_ASSERT(dimension < dimensions && "the TensorView has fewer dimensions");
        return strides_[dimension];
    }

    [[nodiscard]] constexpr std::int64_t elements() const {
        std::int64_t product = 1;
        for (auto const extent : extents_) product *= extent;
        return product;
    }
    [[nodiscard]] constexpr bool empty() const { return elements() == 0; }
    /// True where the elements lie without gaps, so that a flat view shows the same; also where there are none.
    [[nodiscard]] constexpr bool is_dense() const {
        if (empty()) return true;
        std::int64_t stride = 1;
        for (auto i = dimensions; i-- > 0;) {
            if (extents_[i] != 1 && strides_[i] != stride) return false;
            stride *= extents_[i];
        }
        return true;
    }

    // Parts that are not of the tensor are bugs of the caller, which SHARDWISE_ASSERT reports.

    /// The memory of one row of a matrix; or where its last one ends.
    [[nodiscard]] constexpr T* row(std::int64_t index) const requires(dimensions == 2) {
        SHARDWISE_ASSERT(index >= 0 && index <= extents_[0] && "the row is beyond the end of the TensorView");
        return data_ + index * strides_[0];
    }
    /// Some rows of a matrix.
    [[nodiscard]] constexpr TensorView rows(std::int64_t begin, std::int64_t count) const requires(dimensions == 2) {
        SHARDWISE_ASSERT(is_part(begin, count, extents_[0]) && "the rows are beyond the end of the TensorView");
        return {row(begin), {count, extents_[1]}, strides_[0]};
    }
    /// Some columns of a matrix; the rows keep their distance.
    [[nodiscard]] constexpr TensorView columns(std::int64_t begin, std::int64_t count) const requires(dimensions == 2) {
        SHARDWISE_ASSERT(is_part(begin, count, extents_[1]) && "the columns are beyond the end of the TensorView");
        return {data_ + begin, {extents_[0], count}, strides_[0]};
    }
    /// A part of a vector.
    [[nodiscard]] constexpr TensorView part(std::int64_t begin, std::int64_t count) const requires(dimensions == 1) {
        SHARDWISE_ASSERT(is_part(begin, count, extents_[0]) && "the part is beyond the end of the TensorView");
        return {data_ + begin, {count}};
    }

private:
    [[nodiscard]] static constexpr bool is_part(std::int64_t begin, std::int64_t count, std::int64_t extent) {
        return begin >= 0 && count >= 0 && begin <= extent && count <= extent - begin;
    }

    T* data_ = nullptr;
    Extents extents_{};
    Extents strides_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
