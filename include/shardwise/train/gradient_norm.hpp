// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/core/check_views.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest size of a gradient, as the bits of a float without their sign: integers have the order of the floats, and what is
/// infinite or undefined is above all numbers.
class GradientMax {
public:
    /// Order   on `stream`; this object outlives what is in it
    /// Errors  invalid_argument for a view without memory
    [[nodiscard]] Result<> add(TensorView<float const, 1, Host> gradients, HostStream& stream) {
        if (auto const known = check_views("gradient norm", gradients); !known) return known;
        auto const* const values = gradients.data();
        auto const take = [this, values](std::int64_t begin, std::int64_t end) {
            std::int32_t most = 0;
            for (auto i = begin; i < end; ++i)
                most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & 0x7FFF'FFFF);
            auto known = bits_.load(std::memory_order_relaxed);
            while (known < most && !bits_.compare_exchange_weak(known, most, std::memory_order_relaxed)) {
            }
        };
        Host::launch(gradients.elements(), take, stream, grain);
        return {};
    }
    /// The largest over all ranks.
    ///
    /// Errors  as a collective
    template <Communicator C>
    [[nodiscard]] Result<> max_over_ranks(C& comm) {
        auto bits = bits_.load(std::memory_order_relaxed);
        if (auto const done = all_reduce(comm, TensorView<std::int32_t, 1, Host>{&bits, {1}}, ReduceOp::max); !done)
            return done;
        bits_.store(bits, std::memory_order_relaxed);
        return {};
    }

    /// Whether all gradients were numbers.
    [[nodiscard]] bool is_finite() const { return bits_.load(std::memory_order_relaxed) < 0x7F80'0000; }
    [[nodiscard]] float value() const { return std::bit_cast<float>(bits_.load(std::memory_order_relaxed)); }

    static constexpr std::int64_t grain = 16'384;

private:
    std::atomic<std::int32_t> bits_{0};
};

/// The sum of squared gradients, exact to 2^-60 of the largest square for each element, as an integer of 128 bits: no order of
/// adding, no number of threads or ranks changes a bit of it.
///
/// With 2^e the smallest power of two above the largest size, an element adds (g / 2^e)^2 * 2^62, rounded to the nearest integer; the
/// square of a float is exact in double.
class GradientNorm {
public:
    /// `largest` is of all gradients on all ranks.
    explicit GradientNorm(GradientMax const& largest) : is_finite_(largest.is_finite()) {
        if (is_finite_ && largest.value() > 0.0F) exponent_ = std::ilogb(largest.value()) + 1;
    }

    /// Adds gradients. Each element of the model is added once: by one of the ranks that hold a replicated parameter, and under
    /// one of the names of a tied one.
    ///
    /// Order   on `stream`; this object outlives what is in it
    /// Errors  invalid_argument for a view without memory, or a gradient above the largest
    [[nodiscard]] Result<> add(TensorView<float const, 1, Host> gradients, HostStream& stream) {
        if (auto const known = check_views("gradient norm", gradients); !known) return known;
        if (!is_finite_) return {};
        auto const* const values = gradients.data();
        // In two steps: 2^-e alone may be no double's normal number no more than a float's, 2^31 * 2^-e always is.
        auto const scale = std::ldexp(1.0, 31 - exponent_);
        auto const take = [this, values, scale](std::int64_t begin, std::int64_t end) {
            std::uint64_t low = 0;
            std::uint64_t high = 0;
            bool is_exceeded = false;
            for (auto i = begin; i < end; ++i) {
                auto const scaled = static_cast<double>(values[i]) * scale;
                auto const square = scaled * scaled;
                is_exceeded = is_exceeded || !(square <= max_square);
                // Of what is undefined, too, the bound is taken.
                auto const bounded = std::min(max_square, square);
                auto const units = static_cast<std::uint64_t>(static_cast<std::int64_t>(bounded + 0.5));
                low += units & low_mask;
                high += units >> low_bits;
            }
            std::lock_guard const lock(mutex_);
            is_exceeded_ = is_exceeded_ || is_exceeded;
            sum_.add(high >> low_bits, high << low_bits);
            sum_.add(0, low);
        };
        // A piece's low half holds 2^31 elements' worth.
        stream.submit([count = gradients.elements(), take, pool = stream.pool(), this] {
            for (std::int64_t begin = 0; begin < count; begin += max_at_once) {
                auto const size = std::min(max_at_once, count - begin);
                auto const part = [&](std::int64_t first, std::int64_t last) { take(begin + first, begin + last); };
                if (pool != nullptr) {
                    pool->run_ranges(size, GradientMax::grain, part);
                } else {
                    part(0, size);
                }
            }
            return check();
        });
        return {};
    }

    /// The sum over all ranks.
    ///
    /// Errors  as a collective
    template <Communicator C>
    [[nodiscard]] Result<> sum_over_ranks(C& comm) {
        // Words of 48 bits, whose sums over 2^15 ranks fit a word; the upper one is that of up to 2^49 elements.
        std::array<std::int64_t, 2> sums{static_cast<std::int64_t>(sum_.low & word_mask),
                                         static_cast<std::int64_t>((sum_.high << 16U) | (sum_.low >> word_bits))};
        if (auto const done = all_reduce(comm, TensorView<std::int64_t, 1, Host>{sums.data(), {2}}); !done) return done;
        auto const upper = static_cast<std::uint64_t>(sums[1]);
        sum_ = {};
        sum_.add(upper >> 16U, upper << word_bits);
        sum_.add(0, static_cast<std::uint64_t>(sums[0]));
        return {};
    }

    [[nodiscard]] bool is_finite() const { return is_finite_; }
    /// The Euclidean norm of all gradients, computed in double from the integers; infinite where a gradient is no number.
    [[nodiscard]] double norm() const {
        if (!is_finite_) return HUGE_VAL;
        // The product is exact, so that it is the same fused with the sum or not.
        auto const sum = static_cast<double>(sum_.high) * 18446744073709551616.0 + static_cast<double>(sum_.low);
        return std::ldexp(std::sqrt(sum), exponent_ - 31);
    }

private:
    static constexpr unsigned low_bits = 32;
    static constexpr std::uint64_t low_mask = 0xFFFF'FFFFU;
    static constexpr unsigned word_bits = 48;
    static constexpr std::uint64_t word_mask = (std::uint64_t{1} << word_bits) - 1;
    static constexpr double max_square = 4611686018427387904.0;  // 2^62
    /// High halves of 2^30 are summed in 64 bits, low ones of 2^32.
    static constexpr std::int64_t max_at_once = std::int64_t{1} << 31U;

    /// An integer of 128 bits.
    struct Wide {
        std::uint64_t high = 0;
        std::uint64_t low = 0;

        void add(std::uint64_t more_high, std::uint64_t more_low) {
            low += more_low;
            high += more_high + (low < more_low ? 1U : 0U);
        }
    };

    [[nodiscard]] Result<> check() const {
        if (!is_exceeded_) return {};
        return Error{ErrorCode::invalid_argument}
            .in("gradient norm")
            .because("a gradient is above the largest of all")
            .fix("take the largest of all gradients on all ranks first, and change none in between");
    }

    bool is_finite_ = true;
    /// Of the smallest power of two above all gradients.
    int exponent_ = 0;
    std::mutex mutex_;
    bool is_exceeded_ = false;
    Wide sum_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
