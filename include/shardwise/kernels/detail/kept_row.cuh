// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/pack.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A thread's part of a row: the first portions in registers, the others read again whenever they are asked for.
template <class Team, class T, unsigned width>
class KeptRow {
public:
    static constexpr int kept = width == 1 ? 1 : Team::kept;

    /// take(first element, portion) reads a portion for the first time.
    template <class Take>
    __device__ void load(std::int64_t portions, Take const& take) {
        portions_ = portions;
        // In 32 bits: what is kept of a row has few elements, and offsets from one address are no registers.
        auto const most = std::int64_t{kept} * Team::threads();
        own_portions_ = static_cast<int>(portions < most ? portions : most);
        visit_own([&](int at, Portion<T, width>& portion) { take(std::int64_t{at}, portion); });
    }
    /// body(first element, portion) for each portion of the thread; again(first element, portion) reads those that are not kept.
    template <class Again, class Body>
    __device__ void visit(Again const& again, Body const& body) {
        visit_own([&](int at, Portion<T, width> const& portion) { body(std::int64_t{at}, portion); });
        SHARDWISE_DEVICE_ROLL
        for (auto at = std::int64_t{Team::lane()} + std::int64_t{kept} * Team::threads(); at < portions_;
             at += Team::threads()) {
            Portion<T, width> more;
            again(at * width, more);
            body(at * width, more);
        }
    }
    /// body(first element, portion, the other row's portion): the other row is kept as this one is, and read by again_other.
    template <class Other, class Again, class AgainOther, class Body>
    __device__ void visit_with(KeptRow<Team, Other, width> const& other, Again const& again,
                               AgainOther const& again_other, Body const& body) {
        visit_own_with(other, body);
        SHARDWISE_DEVICE_ROLL
        for (auto at = std::int64_t{Team::lane()} + std::int64_t{kept} * Team::threads(); at < portions_;
             at += Team::threads()) {
            Portion<T, width> more;
            Portion<Other, width> more_of_other;
            again(at * width, more);
            again_other(at * width, more_of_other);
            body(at * width, more, more_of_other);
        }
    }
    /// The same for the portions that are kept, which body may change.
    template <class Other, class Body>
    __device__ void visit_own_with(KeptRow<Team, Other, width> const& other, Body const& body) {
        auto const lane = Team::lane();
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < kept; ++i) {
            auto const at = lane + i * Team::threads();
            if (at < own_portions_) body(std::int64_t{at * static_cast<int>(width)}, own_[i], other.own_[i]);
        }
    }
    /// body(first element, portion), which may change it, for each portion that is kept.
    template <class Body>
    __device__ void visit_own(Body const& body) {
        auto const lane = Team::lane();
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < kept; ++i) {
            if (lane + i * Team::threads() < own_portions_)
                body((lane + i * Team::threads()) * static_cast<int>(width), own_[i]);
        }
    }

private:
    template <class, class, unsigned>
    friend class KeptRow;

    Portion<T, width> own_[static_cast<unsigned>(kept)];
    std::int64_t portions_ = 0;
    int own_portions_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
