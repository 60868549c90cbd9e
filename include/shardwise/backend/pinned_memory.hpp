// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device_context.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Bytes of the host's memory that a device copies from and to without a detour, not initialised.
///
/// Memory  counted by the host's counter, which outlives it
template <class Api>
class PinnedMemory {
public:
    /// Errors  out_of_memory; backend_failure
    [[nodiscard]] static Result<PinnedMemory> allocate(DeviceContext<Api> const& context, MemoryCounter& host,
                                                       std::int64_t bytes) {
        detail::DeviceScope<Api> const scope(context.device());
        if (!scope.result()) return scope.result().error();
        auto array = detail::PinnedArray<Api, std::byte>::make(bytes);
        if (!array) return array.error();
        host.add(Bytes{bytes});
        PinnedMemory made;
        made.array_ = std::move(*array);
        made.host_ = &host;
        made.size_ = bytes;
        return Result<PinnedMemory>(std::move(made));
    }
    PinnedMemory() = default;
    PinnedMemory(PinnedMemory&& other) noexcept
        : array_(std::move(other.array_)),
          host_(std::exchange(other.host_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    PinnedMemory& operator=(PinnedMemory&& other) noexcept {
        std::swap(array_, other.array_);
        std::swap(host_, other.host_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~PinnedMemory() {
        if (host_ != nullptr) host_->remove(bytes());
    }

    [[nodiscard]] std::byte* data() { return array_.data(); }
    [[nodiscard]] std::byte const* data() const { return array_.data(); }
    [[nodiscard]] std::int64_t size() const { return size_; }
    [[nodiscard]] Bytes bytes() const { return Bytes{size_}; }

private:
    detail::PinnedArray<Api, std::byte> array_;
    MemoryCounter* host_ = nullptr;
    std::int64_t size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
