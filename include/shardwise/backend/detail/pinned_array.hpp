// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Values in host memory that devices copy from without a detour, not initialised.
template <class Api, class T>
class PinnedArray {
    static_assert(std::is_trivially_copyable_v<T>, "a device copies the bytes");

public:
    /// Errors  backend_failure; out_of_memory
    [[nodiscard]] static Result<PinnedArray> make(std::int64_t count) {
        if (count == 0) return PinnedArray();
        auto memory = Api::allocate_pinned(static_cast<std::size_t>(count) * sizeof(T));
        if (!memory) return memory.error();
        return PinnedArray(static_cast<T*>(*memory));
    }
    PinnedArray() = default;
    PinnedArray(PinnedArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    PinnedArray& operator=(PinnedArray&& other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~PinnedArray() {
        if (data_ != nullptr) Api::release_pinned(data_);
    }

    [[nodiscard]] T* data() { return data_; }
    [[nodiscard]] T const* data() const { return data_; }

private:
    explicit PinnedArray(T* data) : data_(data) {}

    T* data_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
