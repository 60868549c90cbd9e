// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What keys and values are cached in: an activation's type, or bytes with a scale per token and head.
template <class T>
concept CacheElement = ActivationElement<T> || std::same_as<T, std::int8_t>;

/// Rows that lie one after another.
template <class Cache>
struct RowRun {
    Cache const* data = nullptr;
    std::int64_t rows = 0;
};

/// The keys or the values of one sequence as attention reads them: all in one piece, or in pages of a memory that
/// sequences share.
///
/// Shapes  [count, width]; bytes have scales [rows of the memory, heads]
/// Memory  views; the list of pages too outlives what reads it
template <CacheElement Cache, class Backend>
class CachedRows {
public:
    using Matrix = TensorView<Cache const, 2, Backend>;
    using Scales = TensorView<float const, 2, Backend>;

    /// Pages are powers of two of at least so many rows: a register's worth of keys lies in one page.
    static constexpr std::int64_t min_page_rows = 16;

    CachedRows() = default;
    /// Rows in one piece.
    CachedRows(Matrix rows, Scales scales = {}) : memory_(rows), scales_(scales), count_(rows.extent(0)) {}
    /// Row i is row i % page_rows of the page pages[i / page_rows] of `memory`. What reads the rows refuses what `check` does.
    CachedRows(Matrix memory, std::span<std::int32_t const> pages, std::int64_t page_rows, std::int64_t count,
               Scales scales = {})
        : memory_(memory),
          scales_(scales),
          pages_(pages),
          is_paged_(true),
          shift_(is_page(page_rows) ? std::countr_zero(static_cast<std::uint64_t>(page_rows)) : 0),
          page_rows_(page_rows),
          count_(count) {}

    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] std::int64_t width() const { return memory_.extent(1); }
    [[nodiscard]] std::int64_t stride() const { return memory_.stride(0); }
    [[nodiscard]] bool has_scales() const { return !scales_.empty(); }
    [[nodiscard]] Scales const& scales() const { return scales_; }
    [[nodiscard]] Matrix const& memory() const { return memory_; }
    /// Rows of the memory, which pages take from it.
    [[nodiscard]] std::int64_t memory_rows() const { return memory_.extent(0); }
    /// Rows of a page; 0 where the rows lie in one piece.
    [[nodiscard]] std::int64_t page_rows() const { return page_rows_; }
    /// Errors  shape_mismatch for pages that are no power of two of min_page_rows or more, for fewer pages than the rows lie in,
    ///         and for a page that the memory does not have
    [[nodiscard]] Result<> check(std::string_view subject) const {
        if (!is_paged_) return {};
        auto const differs = [&](std::string_view reason, std::int64_t got, std::int64_t expected) -> Result<> {
            return Error{ErrorCode::shape_mismatch}.in(subject).at("pages").because(reason).got(got).expected(expected);
        };
        if (!is_page(page_rows_))
            return differs("hold a power of two of rows, and not fewer than the least", page_rows_, min_page_rows);
        auto const listed = static_cast<std::int64_t>(pages_.size());
        auto const needed = count_ > 0 ? ((count_ - 1) >> shift_) + 1 : 0;
        if (count_ < 0 || needed > listed) return differs("are fewer than the rows lie in", listed, needed);
        auto const memory_pages = memory_.extent(0) >> shift_;
        for (auto const page : pages_.first(static_cast<std::size_t>(needed))) {
            if (page < 0 || page >= memory_pages)
                return differs("name one that the memory does not have", page, memory_pages - 1);
        }
        return {};
    }
    /// Some columns, and the scales of their heads.
    [[nodiscard]] CachedRows columns(std::int64_t begin, std::int64_t count, std::int64_t first_head,
                                     std::int64_t heads) const {
        auto out = *this;
        out.memory_ = memory_.columns(begin, count);
        if (has_scales()) out.scales_ = scales_.columns(first_head, heads);
        return out;
    }

    /// Where a row lies in the memory.
    [[nodiscard]] std::int64_t place(std::int64_t row) const {
        if (!is_paged_) return row;
        auto const in_page = row & ((std::int64_t{1} << shift_) - 1);
        return (static_cast<std::int64_t>(page(row >> shift_)) << shift_) + in_page;
    }
    [[nodiscard]] Cache const* row(std::int64_t row) const { return memory_.row(place(row)); }
    [[nodiscard]] float scale(std::int64_t row, std::int64_t head) const { return scales_.row(place(row))[head]; }
    /// The rows from `first` on, up to `end`, that lie together.
    [[nodiscard]] RowRun<Cache> run(std::int64_t first, std::int64_t end) const {
        if (!is_paged_) return {memory_.row(first), end - first};
        auto at = first >> shift_;
        auto next = (at + 1) << shift_;
        for (; next < end && page(at + 1) == page(at) + 1; ++at) next += std::int64_t{1} << shift_;
        return {row(first), (next < end ? next : end) - first};
    }

private:
    [[nodiscard]] static bool is_page(std::int64_t rows) {
        return rows >= min_page_rows && std::has_single_bit(static_cast<std::uint64_t>(rows));
    }

    [[nodiscard]] std::int32_t page(std::int64_t number) const { return pages_[static_cast<std::size_t>(number)]; }

    Matrix memory_;
    Scales scales_;
    std::span<std::int32_t const> pages_;
    bool is_paged_ = false;
    int shift_ = 0;
    std::int64_t page_rows_ = 0;
    std::int64_t count_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
