// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/train/checkpoint/tensor_sum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Checksums of a step's gradients on a rank, by parameter and, after those, tie: of what the rank's own sequences gave, and of what it has
/// of the sums over all ranks. A change of one element is always seen.
struct GradientChecksums {
    std::vector<std::uint64_t> own;
    std::vector<std::uint64_t> sums;

    explicit GradientChecksums(std::size_t count) : own(count, fnv1a_start), sums(count, fnv1a_start) {}
};

/// Takes `values` into a checksum; what lies in a file is read 4 MiB at a time, after each of which `drop` is called.
template <class Drop>
void add_checksum(std::uint64_t& hash, TensorView<float const, 1, Host> values, Drop const& drop) {
    constexpr std::int64_t at_once = std::int64_t{1} << 20U;
    std::uint64_t sum = 0;
    for (std::int64_t begin = 0; begin < values.elements(); begin += at_once) {
        auto const count = std::min(at_once, values.elements() - begin);
        auto const* const bytes = reinterpret_cast<std::byte const*>(values.data() + begin);
        sum += tensor_sum(begin, sizeof(float), {bytes, static_cast<std::size_t>(count) * sizeof(float)});
        drop();
    }
    hash = fnv1a_step(hash, sum);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
