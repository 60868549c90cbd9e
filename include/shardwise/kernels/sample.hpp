#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/kernels/detail/sampling_weights.hpp>
#include <shardwise/kernels/philox.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

namespace shardwise::inline v0_2_0 {

/// How a token is chosen from its logits.
struct SamplingOptions {
    /// Divides the logits; 0: the greatest logit wins, and only the repetition penalty applies.
    float temperature = 0.0F;
    /// Only logits not below the k-th greatest are drawn from; 0: all.
    std::int64_t top_k = 0;
    /// Only the most probable tokens whose predecessors have less than this probability together; 1: all.
    float top_p = 1.0F;
    /// Only tokens at least this part as probable as the most probable one; 0: all.
    float min_p = 0.0F;
    /// Logits of tokens in the history are divided by it where positive and multiplied where negative; 1: left alone.
    float repetition_penalty = 1.0F;
    std::uint64_t seed = 0;
};

/// One sequence of a batch that is sampled from.
struct SamplingRow {
    SamplingOptions options{};
    /// Tokens that the penalty counts: prompt and output so far.
    std::span<std::int32_t const> history{};
    /// Which sequence and which of its tokens is drawn: both are the counter of the generator.
    std::uint64_t sequence = 0;
    std::uint64_t step = 0;
};

namespace detail {

/// The scores of one row and the weights by which tokens are drawn.
class SamplingScores {
public:
    explicit SamplingScores(std::int64_t tokens) : scores_(static_cast<std::size_t>(tokens)) {}

    /// Takes in a row. False where it has a NaN or plus infinity, or no finite logit.
    [[nodiscard]] bool load(float const* logits, SamplingRow const& row) {
        auto const penalty = row.options.repetition_penalty;
        std::copy_n(logits, scores_.size(), scores_.data());
        for (auto const token : row.history) {
            auto const logit = logits[token];
            scores_[static_cast<std::size_t>(token)] = logit < 0.0F ? logit * penalty : logit / penalty;
        }
        constexpr auto greatest = std::numeric_limits<float>::max();
        auto const* const scores = scores_.data();
        auto best = -std::numeric_limits<float>::infinity();
        std::size_t odd = 0;
        for (std::size_t i = 0; i < scores_.size(); ++i) {
            best = scores[i] > best ? scores[i] : best;
            odd += scores[i] <= greatest ? 0U : 1U;
        }
        if (odd > 0 || !(best >= -greatest)) return false;
        best_ = static_cast<std::size_t>(std::find(scores, scores + scores_.size(), best) - scores);
        return true;
    }
    [[nodiscard]] std::int32_t best() const { return static_cast<std::int32_t>(best_); }

    /// Temperature, top k, top p and min p, in transformers' order. False where the temperature makes a score infinite.
    [[nodiscard]] bool restrict_to(SamplingOptions const& options) {
        for (auto& score : scores_) score /= options.temperature;
        if (!std::isfinite(scores_[best_])) return false;
        auto least = -std::numeric_limits<float>::max();
        auto const tokens = static_cast<std::int64_t>(scores_.size());
        if (options.top_k > 0 && options.top_k < tokens) {
            least = std::max(least, greatest_of(static_cast<std::size_t>(options.top_k)));
        }
        auto const best = scores_[best_];
        weights_.resize(scores_.size());
        for (std::size_t i = 0; i < scores_.size(); ++i) {
            weights_[i] = scores_[i] < least ? 0 : sampling_weight(best - scores_[i]);
        }
        if (options.top_p < 1.0F) keep_most_probable(options.top_p);
        auto const least_weight = static_cast<double>(weights_[best_]) * static_cast<double>(options.min_p);
        for (auto& weight : weights_) weight = static_cast<double>(weight) < least_weight ? 0 : weight;
        return true;
    }
    /// The weight of a token, 0 for one that is not drawn from.
    [[nodiscard]] std::uint64_t weight(std::size_t token) const { return weights_[token]; }
    /// The token at which the weights so far, in order of tokens, exceed a part of their sum: bits / 2^64.
    [[nodiscard]] std::int32_t draw(std::uint64_t bits) const {
        std::uint64_t sum = 0;
        for (auto const weight : weights_) sum += weight;
        auto left = multiply_high(bits, sum);
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            if (left < weights_[i]) return static_cast<std::int32_t>(i);
            left -= weights_[i];
        }
        return best();
    }

private:
    /// The k-th greatest score.
    [[nodiscard]] float greatest_of(std::size_t count) const {
        List<float> greatest(count);
        std::partial_sort_copy(scores_.begin(), scores_.end(), greatest.begin(), greatest.end(), std::greater<>{});
        return greatest.back();
    }
    /// Drops the tokens whose predecessors have this probability together: the size of their weights says where that is about,
    /// among tokens of that size halving finds the place.
    void keep_most_probable(float probability) {
        std::uint64_t sums[64] = {};
        std::uint64_t total = 0;
        for (auto const weight : weights_) {
            sums[std::bit_width(weight)] += weight;
            total += weight;
        }
        auto const reached = static_cast<double>(probability) * static_cast<double>(total);
        std::uint64_t before = 0;
        int size = 63;
        while (size > 1 && (sums[size] == 0 || static_cast<double>(before + sums[size]) < reached))
            before += sums[size--];
        order_.clear();
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            if (static_cast<int>(std::bit_width(weights_[i])) == size) order_.push_back(static_cast<std::uint32_t>(i));
        }
        auto const precedes = [this](std::uint32_t a, std::uint32_t b) {
            return scores_[a] > scores_[b] || (scores_[a] == scores_[b] && a < b);
        };
        std::size_t begin = 0;
        auto end = order_.size();
        while (end - begin > 1) {
            auto const middle = begin + (end - begin) / 2;
            std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end, precedes);
            auto upper = before;
            for (auto i = begin; i < middle; ++i) upper += weights_[order_[i]];
            // Is the token in the middle kept? Then all before it are.
            if (static_cast<double>(upper) < reached) {
                begin = middle;
                before = upper;
            } else {
                end = middle;
            }
        }
        auto const last = order_[begin];
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            if (precedes(last, static_cast<std::uint32_t>(i))) weights_[i] = 0;
        }
    }

    List<float> scores_;
    List<std::uint64_t> weights_;
    List<std::uint32_t> order_;
    std::size_t best_ = 0;
};

/// Errors  invalid_argument for an option outside of its range, or a token of the history that has no logit
[[nodiscard]] inline Result<> check_sampling(SamplingRow const& row, std::int64_t tokens) {
    auto const& options = row.options;
    auto const refuse = [](std::string_view place, std::string_view reason) {
        return Error{ErrorCode::invalid_argument}.in("sample").at(place).because(reason);
    };
    auto const is_part = [](float value) { return value >= 0.0F && value <= 1.0F; };
    if (!(options.temperature >= 0.0F) || std::isinf(options.temperature)) {
        return refuse("temperature", "must be a number of at least 0");
    }
    if (options.top_k < 0) return refuse("top_k", "must be at least 0").got(options.top_k);
    if (!is_part(options.top_p)) return refuse("top_p", "must be between 0 and 1");
    if (!is_part(options.min_p)) return refuse("min_p", "must be between 0 and 1");
    if (!(options.repetition_penalty > 0.0F) || std::isinf(options.repetition_penalty)) {
        return refuse("repetition_penalty", "must be greater than 0");
    }
    for (auto const token : row.history) {
        if (token < 0 || token >= tokens)
            return refuse("history", "has a token without a logit").got(token).expected(tokens);
    }
    return {};
}

}  // namespace detail

/// Chooses a token for each row of logits: repetition penalty, temperature, top k, top p, min p, then a draw. Of equal logits
/// the lower token precedes. Weights are integers and the generator counts, so that machine, threads and batch do not matter.
///
/// Shapes  logits [rows, vocabulary]; rows [rows]; out [rows], -1 where a row has no valid distribution
/// Memory  what `rows` and their histories show stays alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for options outside of their range; through the stream, invalid_argument for a row
///         with a NaN or plus infinity, or without a finite logit
/// Source  transformers 4.57 generation/logits_process.py, in the order of _get_logits_processor
[[nodiscard]] inline Result<> sample(TensorView<float const, 2, Host> logits, std::span<SamplingRow const> rows,
                                     TensorView<std::int32_t, 1, Host> out, HostStream& stream) {
    auto const count = logits.extent(0);
    auto const tokens = logits.extent(1);
    Error error{ErrorCode::shape_mismatch};
    error.in("sample");
    if (static_cast<std::int64_t>(rows.size()) != count || out.elements() != count) {
        return error.because("each row of logits needs its options and a place for its token")
            .got(out.elements() != count ? out.elements() : static_cast<std::int64_t>(rows.size()))
            .expected(count);
    }
    // Sums of weights stay below 2^63, and tokens are 32-bit numbers.
    constexpr std::int64_t longest_vocabulary = std::int64_t{1} << 22U;
    if (tokens < 1 || tokens > longest_vocabulary) {
        return error.because("there are no logits, or more than a vocabulary has")
            .got(tokens)
            .expected(longest_vocabulary);
    }
    for (auto const& row : rows) {
        if (auto const checked = detail::check_sampling(row, tokens); !checked) return checked;
    }
    auto const choose = [=](std::int64_t begin, std::int64_t end) {
        detail::SamplingScores scores(tokens);
        for (auto i = begin; i < end; ++i) {
            auto const& row = rows[static_cast<std::size_t>(i)];
            auto& token = out.data()[i];
            token = -1;
            if (!scores.load(logits.row(i), row)) continue;
            if (row.options.temperature == 0.0F) {
                token = scores.best();
            } else if (scores.restrict_to(row.options)) {
                token = scores.draw(random_bits(row.options.seed, row.sequence, row.step));
            }
        }
    };
    Host::launch(count, choose, stream);
    stream.submit([out]() -> Result<> {
        for (std::int64_t i = 0; i < out.elements(); ++i) {
            if (out.data()[i] >= 0) continue;
            return Error{ErrorCode::invalid_argument}
                .in("sample")
                .at("logits")
                .because("a row has a NaN or infinity, or nothing that can be drawn")
                .got(i)
                .fix("look for an overflow in the model, or raise the temperature");
        }
        return {};
    });
    return {};
}

}  // namespace shardwise::inline v0_2_0
