// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>

#include <array>
#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The mean loss over all tokens that count: of any number of micro-batches and ranks, whose shares may differ in valid tokens. The
/// sums are integers of 2^-30, so that no order of adding changes a bit; the mean is computed from them once, on every rank.
class TokenMean {
public:
    /// Losses are rounded to a multiple of this, to even where they lie between two.
    static constexpr double unit = 1.0 / static_cast<double>(std::int64_t{1} << 30U);
    /// What one token may bring, in size: more is no loss that a model has.
    static constexpr double max_loss = 1 << 20U;

    /// Adds a token's loss with its weight; a token of weight 0 does not count. An infinite, undefined or absurd number makes the
    /// whole mean undefined.
    void add(float loss, float weight = 1.0F) {
        if (weight == 0.0F) return;
        // The product of two floats is exact in double.
        auto const weighted = static_cast<double>(loss) * static_cast<double>(weight);
        bool const is_good =
            std::abs(weighted) <= max_loss && weight > 0.0F && static_cast<double>(weight) <= max_loss;
        if (!is_good) {
            ++bad_;
            return;
        }
        take(loss_, to_units(weighted));
        take(weight_, to_units(static_cast<double>(weight)));
        ++tokens_;
    }
    /// Adds the losses of tokens, of which those with a negative target (-100) do not count.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> add(Span<float const> losses, Span<std::int32_t const> targets) {
        if (losses.size() != targets.size()) {
            return Error{ErrorCode::shape_mismatch}
                .in("token mean")
                .because("there is not one target for each loss")
                .got(static_cast<std::int64_t>(targets.size()))
                .expected(static_cast<std::int64_t>(losses.size()));
        }
        for (std::size_t i = 0; i < losses.size(); ++i) {
            if (targets[i] >= 0) add(losses[i]);
        }
        return {};
    }
    void add(TokenMean const& other) {
        take(loss_, other.loss_);
        take(weight_, other.weight_);
        tokens_ += other.tokens_;
        bad_ += other.bad_;
    }

    /// Adds up the sums of all ranks.
    ///
    /// Errors  as a collective
    template <Communicator C>
    [[nodiscard]] Result<> sum_over_ranks(C& comm) {
        auto const most = INT64_MAX / comm.size();
        bool const fits = loss_ <= most && loss_ >= -most && weight_ <= most;
        std::array<std::int64_t, 4> sums{fits ? loss_ : 0, fits ? weight_ : 0, tokens_, fits ? bad_ : bad_ + 1};
        if (auto const done = all_reduce(comm, TensorView<std::int64_t, 1, Host>{sums.data(), {4}}); !done) return done;
        loss_ = sums[0];
        weight_ = sums[1];
        tokens_ = sums[2];
        bad_ = sums[3];
        return {};
    }

    /// The tokens that count.
    [[nodiscard]] std::int64_t tokens() const { return tokens_; }
    /// Whether every loss was a number, and the sums were not beyond 63 bits.
    [[nodiscard]] bool is_finite() const { return bad_ == 0; }
    /// The sum of the weights: what each token's gradient is divided by.
    [[nodiscard]] double weight() const { return static_cast<double>(weight_) * unit; }
    /// NaN where no token counts, or a loss was no number.
    [[nodiscard]] double mean() const {
        if (bad_ > 0 || weight_ == 0) return std::nan("");
        return static_cast<double>(loss_) / static_cast<double>(weight_);
    }

    friend bool operator==(TokenMean const&, TokenMean const&) = default;

private:
    [[nodiscard]] static std::int64_t to_units(double value) { return std::llrint(value * (1.0 / unit)); }
    void take(std::int64_t& sum, std::int64_t more) {
        if (__builtin_add_overflow(sum, more, &sum)) ++bad_;
    }

    std::int64_t loss_ = 0;
    std::int64_t weight_ = 0;
    std::int64_t tokens_ = 0;
    std::int64_t bad_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
