// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/weight_chunks.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The memory of one packed weight, counted by its context, which outlives it: its own, or a piece of a chunk.
class WeightMemory {
public:
    /// Memory aligned to a cache line, not initialised.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] static Result<WeightMemory> allocate(HostContext& context, Bytes bytes) {
        WeightMemory made;
        if (WeightChunks::takes(bytes.count())) made.piece_ = context.weight_chunks().allocate(bytes.count());
        if (made.piece_ != nullptr) {
            made.context_ = &context;
            made.bytes_ = bytes;
            context.memory().add(bytes);
            return Result<WeightMemory>(std::move(made));
        }
        auto own = Buffer<std::byte, Host>::allocate(context, bytes.count());
        if (!own) return own.error();
        made.own_ = *std::move(own);
        prefer_huge_pages(made.own_.data(), bytes.count());
        return Result<WeightMemory>(std::move(made));
    }

    WeightMemory() = default;
    WeightMemory(WeightMemory&& other) noexcept
        : own_(std::move(other.own_)),
          piece_(std::move(other.piece_)),
          context_(std::exchange(other.context_, nullptr)),
          bytes_(other.bytes_) {}
    WeightMemory& operator=(WeightMemory&& other) noexcept {
        std::swap(own_, other.own_);
        std::swap(piece_, other.piece_);
        std::swap(context_, other.context_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~WeightMemory() {
        if (context_ != nullptr) context_->memory().remove(bytes_);
    }

    [[nodiscard]] std::byte* data() { return piece_ != nullptr ? piece_.get() : own_.data(); }
    [[nodiscard]] Bytes bytes() const { return piece_ != nullptr ? bytes_ : own_.bytes(); }

private:
    Buffer<std::byte, Host> own_;
    std::shared_ptr<std::byte> piece_;
    /// Of a piece.
    HostContext* context_ = nullptr;
    Bytes bytes_{0};
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
