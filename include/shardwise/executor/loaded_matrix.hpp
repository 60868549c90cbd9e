// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A part of a parameter as a matrix of a product or a table.
struct MatrixPart {
    /// Of the whole matrix.
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    /// True where the model's tensor is [inputs, outputs] (gpt2's Conv1D).
    bool is_turned = false;
    /// Rows (outputs) in the order in which they are wanted; unset: all.
    std::optional<std::span<UnitRange const>> rows{};
    /// Inputs, as whole blocks of the held format, where they are sharded over the ranks; unset: all.
    std::optional<UnitRange> columns{};
};

/// Rows and inputs of a parameter in the format in which they are held: a view of the file where its bytes serve as they lie,
/// else a copy.
class LoadedMatrix {
public:
    LoadedMatrix(LoadedMatrix&&) noexcept = default;
    LoadedMatrix& operator=(LoadedMatrix&&) noexcept = default;
    explicit LoadedMatrix(WeightSlice slice) : slice_(std::move(slice)), source_(slice_->source()) {}
    LoadedMatrix(WeightSource const& extents, detail::SourceBytes const& bytes)
        : source_(extents),
          data_(static_cast<std::size_t>(bytes.data)),
          scales_(static_cast<std::size_t>(bytes.scales)) {
        source_.data = data_;
        source_.scales = scales_;
    }

    [[nodiscard]] WeightSource const& source() const { return source_; }
    /// What takes the source's bytes reads each once: pages of a copy go back to the system as they are read, so that the process does
    /// not hold a converted weight twice.
    void read_once() {
        if (!data_.empty()) source_.is_mapped = true;
    }
    [[nodiscard]] std::byte* data() { return data_.data(); }
    [[nodiscard]] std::byte* scales() { return scales_.data(); }

private:
    std::optional<WeightSlice> slice_;
    WeightSource source_;
    std::vector<std::byte> data_;
    std::vector<std::byte> scales_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
