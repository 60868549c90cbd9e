// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <compare>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An amount of memory; signed, so that a shortfall is a value too.
///
/// Units  bytes
class Bytes {
public:
    constexpr Bytes() = default;
    constexpr explicit Bytes(std::int64_t count) : count_(count) {}

    /// The number of bytes.
    [[nodiscard]] constexpr std::int64_t count() const { return count_; }

    constexpr Bytes& operator+=(Bytes other) {
        count_ += other.count_;
        return *this;
    }
    constexpr Bytes& operator-=(Bytes other) {
        count_ -= other.count_;
        return *this;
    }

    friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
    friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
    friend constexpr Bytes operator-(Bytes a) { return Bytes{-a.count_}; }
    friend constexpr Bytes operator*(Bytes a, std::int64_t factor) { return Bytes{a.count_ * factor}; }
    friend constexpr Bytes operator*(std::int64_t factor, Bytes a) { return a * factor; }
    friend constexpr auto operator<=>(Bytes, Bytes) = default;
    /// Not left to <=>: nvcc 13.0 calls that one and does not define it.
    friend constexpr bool operator==(Bytes, Bytes) = default;

private:
    std::int64_t count_ = 0;
};

/// The share of a device's memory that a plan may use: what is left is for contexts of libraries, buffers of messages and
/// fragments.
///
/// vLLM takes 0.9 (vllm/config/cache.py, gpu_memory_utilization), and leaves the runtime's own memory to the rest; here
/// that is counted.
inline constexpr double default_utilization = 0.92;

/// The share of an amount, rounded down; of 1 and more all of it.
[[nodiscard]] constexpr Bytes share_of(Bytes whole, double share) {
    return share >= 1.0 ? whole : Bytes{static_cast<std::int64_t>(static_cast<double>(whole.count()) * share)};
}

inline namespace literals {

constexpr Bytes operator""_B(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n << 10U)}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n << 20U)}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n << 30U)}; }
constexpr Bytes operator""_GB(unsigned long long n) { return Bytes{static_cast<std::int64_t>(n * 1000000000ULL)}; }

}  // namespace literals

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
