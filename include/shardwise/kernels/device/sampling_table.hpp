// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/sample_call.hpp>
#include <shardwise/kernels/philox.hpp>
#include <shardwise/kernels/sampling_bounds.hpp>
#include <shardwise/kernels/sampling_row.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a device's kernel reads of how each row is sampled. The host writes into pinned memory, two copies in turn, and one copy in
/// stream order brings it over.
///
/// Memory  40 bytes for each row, 4 for each token of the histories, and with those a bit for each token of each row; the first two
///         also pinned, twice
template <class Api>
class SamplingTable<DeviceBackend<Api>> {
public:
    using Backend = DeviceBackend<Api>;

    /// `host` counts what is pinned, and outlives the table.
    ///
    /// Errors  invalid_argument for bounds below 1 or beyond 31 bits; size_overflow; out_of_memory
    [[nodiscard]] static Result<SamplingTable> create(DeviceContext<Api>& context, MemoryCounter& host,
                                                      SamplingBounds const& bounds) {
        auto const words = words_for(bounds);
        if (!words) return words.error();
        SamplingTable table(bounds, context.limit());
        auto block = Buffer<std::int32_t, Backend>::allocate(context, *words);
        if (!block) return block.error();
        table.block_ = std::move(*block);
        auto marks = Buffer<std::uint32_t, Backend>::allocate(context, mark_words(bounds));
        if (!marks) return marks.error();
        table.marks_ = std::move(*marks);
        for (auto& side : table.sides_) {
            auto pinned = PinnedMemory<Api>::allocate(context, host, 4 * *words);
            if (!pinned) return pinned.error();
            side.pinned = std::move(*pinned);
        }
        return Result<SamplingTable>(std::move(table));
    }
    SamplingTable(SamplingTable&&) noexcept = default;
    SamplingTable& operator=(SamplingTable&&) noexcept = default;
    /// What is being copied outlives its copy.
    ~SamplingTable() {
        for (auto const& side : sides_) (void)side.sent.synchronize(Deadline::after(limit_));
    }

    /// Says how the next rows are sampled; nothing that `rows` shows is needed afterwards.
    ///
    /// Order   on `stream`
    /// Errors  invalid_argument for options outside of their range; capacity_exceeded; those of the device's calls
    [[nodiscard]] Result<> write(std::span<SamplingRow const> rows, DeviceStream<Api>& stream) {
        if (auto const checked = detail::check_sampling_rows(rows, bounds_); !checked) return checked;
        turn_ = 1 - turn_;
        auto& side = sides_[turn_];
        if (auto const sent = side.sent.synchronize(Deadline::after(limit_)); !sent) return sent;
        auto* const words = reinterpret_cast<std::int32_t*>(side.pinned.data());
        // Histories come after the rows that there are, so that one copy holds no gap.
        auto const first = row_words * std::ssize(rows);
        std::int32_t at = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            auto const& options = rows[i].options;
            auto const size = static_cast<std::int32_t>(detail::penalised_tokens(rows[i]));
            constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
            detail::SampledRow const row{random_bits(options.seed, rows[i].sequence, rows[i].step),
                                         options.temperature,
                                         options.top_p,
                                         options.min_p,
                                         options.repetition_penalty,
                                         static_cast<std::int32_t>(std::min(options.top_k, most)),
                                         at,
                                         size};
            std::memcpy(words + row_words * static_cast<std::int64_t>(i), &row, sizeof row);
            std::copy_n(rows[i].history.data(), size, words + first + at);
            at += size;
        }
        rows_ = std::ssize(rows);
        auto const count = first + at;
        TensorView<std::int32_t const, 1, Host> const from(words, {count});
        auto const sent = Backend::template copy<std::int32_t>(from, block_.view().part(0, count), stream);
        if (sent) side.sent.record(stream);
        return sent;
    }

    /// Rows of the last write.
    [[nodiscard]] std::int64_t rows() const { return rows_; }
    [[nodiscard]] std::int64_t vocabulary() const { return bounds_.vocabulary; }
    [[nodiscard]] detail::SampledRow const* options() const {
        return reinterpret_cast<detail::SampledRow const*>(block_.data());
    }
    [[nodiscard]] std::int32_t const* histories() const { return block_.data() + row_words * rows_; }
    /// Where a kernel marks the tokens of histories.
    [[nodiscard]] std::uint32_t* marks() { return marks_.data(); }
    [[nodiscard]] Bytes bytes() const {
        return allocated_bytes<Backend>(block_.bytes()) + allocated_bytes<Backend>(marks_.bytes());
    }

    /// What a table will hold on the device.
    ///
    /// Errors  as create's of the bounds
    [[nodiscard]] static Result<Bytes> bytes_for(SamplingBounds const& bounds) {
        auto const words = words_for(bounds);
        if (!words) return words.error();
        return allocated_bytes<Backend>(Bytes{4 * *words}) + allocated_bytes<Backend>(Bytes{4 * mark_words(bounds)});
    }

    /// And in the host's memory.
    ///
    /// Errors  as create's of the bounds
    [[nodiscard]] static Result<Bytes> pinned_for(SamplingBounds const& bounds) {
        auto const words = words_for(bounds);
        if (!words) return words.error();
        return Bytes{2 * 4 * *words};
    }

private:
    struct Side {
        PinnedMemory<Api> pinned;
        DeviceEvent<Api> sent;
    };

    static_assert(sizeof(detail::SampledRow) % 8 == 0);
    static constexpr std::int64_t row_words = sizeof(detail::SampledRow) / 4;

    SamplingTable(SamplingBounds const& bounds, std::chrono::nanoseconds limit) : bounds_(bounds), limit_(limit) {}

    [[nodiscard]] static std::int64_t mark_words(SamplingBounds const& bounds) {
        return bounds.history == 0 ? 0 : bounds.rows * ((bounds.vocabulary - 1) / 32 + 1);
    }
    [[nodiscard]] static Result<std::int64_t> words_for(SamplingBounds const& bounds) {
        if (auto const checked = detail::check_sampling_bounds(bounds); !checked) return checked.error();
        return row_words * bounds.rows + bounds.history;
    }

    SamplingBounds bounds_;
    std::chrono::nanoseconds limit_;
    Buffer<std::int32_t, Backend> block_;
    Buffer<std::uint32_t, Backend> marks_;
    std::array<Side, 2> sides_;
    std::size_t turn_ = 0;
    std::int64_t rows_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
