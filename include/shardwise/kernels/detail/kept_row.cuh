// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/pack.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Portions of a row that a thread keeps in registers, more of a block's rows: those of up to 16 Ki elements of 16 bits are read
/// once.
template <class Team, unsigned width>
inline constexpr unsigned kept_portions = width == 1       ? 1
                                          : Team::rows > 1 ? 4
                                                           : 8;

/// A thread's part of a row: the first portions in registers, the others read again whenever they are asked for.
template <class Team, class T, unsigned width>
class KeptRow {
public:
    static constexpr unsigned kept = kept_portions<Team, width>;

    /// take(first element, portion) reads a portion for the first time.
    template <class Take>
    __device__ void load(std::int64_t portions, Take const& take) {
        portions_ = portions;
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < kept; ++i) {
            auto const at = lane() + i * Team::size;
            if (at < portions_) take(at * width, own_[i]);
        }
    }
    /// body(first element, portion) for each portion of the thread; again(first element, portion) reads those that are not kept.
    template <class Again, class Body>
    __device__ void visit(Again const& again, Body const& body) const {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < kept; ++i) {
            auto const at = lane() + i * Team::size;
            if (at < portions_) body(at * width, own_[i]);
        }
        for (auto at = lane() + kept * Team::size; at < portions_; at += Team::size) {
            Portion<T, width> more;
            again(at * width, more);
            body(at * width, more);
        }
    }

private:
    static __device__ std::int64_t lane() { return Team::lane(); }

    Portion<T, width> own_[kept];
    std::int64_t portions_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
