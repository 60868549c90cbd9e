// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/model/files/tensor_names.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The longest header that safetensors allows.
///
/// Units  bytes
/// Source  safetensors 0.6 `tensor.rs`, MAX_HEADER_SIZE
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

/// What the names and descriptions of a checkpoint's tensors may take, in one file or in all its shards: 262,144 tensors with
/// names of 85 letters. No published model comes near it.
///
/// Units  bytes
inline constexpr std::size_t max_tensor_list = std::size_t{32} << 20U;

/// The most tensors that the files of a checkpoint may hold.
inline constexpr std::size_t max_file_tensors = std::size_t{1} << 18U;

/// A tensor as a safetensors file lists it.
struct SafetensorsTensor {
    std::string_view name;
    Dtype dtype = Dtype::f32;
    Shape shape;
    Bytes bytes;
    std::int64_t offset = 0;  // from the start of the data
};

/// The tensors of a safetensors file, without their data. Tensors of one dtype and shape share a description, so that a
/// hundred thousand of them take a few megabytes.
///
/// Order  as their data lie in the file
class SafetensorsHeader {
public:
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] SafetensorsTensor operator[](std::size_t i) const {
        auto const& entry = entries_[i];
        auto const& kind = kinds_[entry.kind];
        SafetensorsTensor tensor{names_[entry.name], kind.dtype, {}, Bytes{kind.bytes}, entry.offset};
        for (std::uint8_t d = 0; d < kind.rank; ++d) tensor.shape.push_back(extents_[kind.first_extent + d]);
        return tensor;
    }
    [[nodiscard]] TensorNames const& names() const { return names_; }
    /// The bytes of all tensors.
    [[nodiscard]] Bytes data_size() const { return data_size_; }
    /// What in the header means nothing and may be a mistake, the first such thing; empty: nothing is.
    [[nodiscard]] std::string const& note() const { return note_; }
    /// About what the header takes in memory.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t memory() const {
        return names_.memory() + entries_.size() * sizeof(Entry) + kinds_.size() * sizeof(Kind) +
               extents_.size() * sizeof(std::int64_t);
    }

private:
    friend class SafetensorsReader;

    struct Kind {
        std::int64_t bytes;
        std::uint32_t first_extent;
        std::uint8_t rank;
        Dtype dtype;
    };
    struct Entry {
        std::uint32_t name;
        std::uint32_t kind;
        std::int64_t offset;
    };

    TensorNames names_;
    std::vector<Kind> kinds_;
    std::vector<std::int64_t> extents_;
    std::vector<Entry> entries_;
    Bytes data_size_;
    std::string note_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
