// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/kernels/detail/check_sampling.hpp>
#include <shardwise/kernels/detail/sampling_weights.hpp>
#include <shardwise/kernels/philox.hpp>
#include <shardwise/kernels/sampling_row.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The scores of one row and the weights by which tokens are drawn. Every loop over tokens is shared by a pool's threads, chunk
/// by chunk; what chunks find are whole numbers, maxima and sets, so that nothing depends on the threads.
class SamplingScores {
public:
    SamplingScores(std::int64_t tokens, ThreadPool& pool)
        : pool_(&pool),
          scores_(static_cast<std::size_t>(tokens)),
          chunks_((scores_.size() + chunk_tokens - 1) / chunk_tokens) {}

    /// Takes in a row. False where it has a NaN or plus infinity, or no finite logit.
    [[nodiscard]] bool load(float const* logits, SamplingRow const& row) {
        auto const penalty = row.options.repetition_penalty;
        for_chunks([&](Chunk&, std::size_t begin, std::size_t end) {
            std::copy(logits + begin, logits + end, scores_.data() + begin);
        });
        for (auto const token : row.history) {
            auto const logit = logits[token];
            scores_[static_cast<std::size_t>(token)] = logit < 0.0F ? logit * penalty : logit / penalty;
        }
        constexpr auto greatest = std::numeric_limits<float>::max();
        for_chunks([&](Chunk& chunk, std::size_t begin, std::size_t end) {
            auto const* const scores = scores_.data();
            auto best = -std::numeric_limits<float>::infinity();
            std::size_t odd = 0;
            for (auto i = begin; i < end; ++i) {
                best = scores[i] > best ? scores[i] : best;
                odd += scores[i] <= greatest ? 0U : 1U;
            }
            chunk.best = best;
            chunk.odd = odd;
        });
        std::size_t first = 0;
        std::size_t odd = 0;
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            odd += chunks_[i].odd;
            if (chunks_[i].best > chunks_[first].best) first = i;
        }
        auto const best = chunks_[first].best;
        if (odd > 0 || !(best >= -greatest)) return false;
        best_ = static_cast<std::size_t>(std::find(scores_.begin() + first * chunk_tokens, scores_.end(), best) -
                                         scores_.begin());
        return true;
    }
    [[nodiscard]] std::int32_t best() const { return static_cast<std::int32_t>(best_); }

    /// Temperature, top k, top p and min p, in transformers' order.
    void restrict_to(SamplingOptions const& options) {
        // Where the temperature would make the greatest score infinite, distances from it stay numbers.
        bool const is_finite = std::isfinite(scores_[best_] / options.temperature);
        auto const origin = is_finite ? 0.0F : scores_[best_];
        for_chunks([&](Chunk&, std::size_t begin, std::size_t end) {
            for (auto i = begin; i < end; ++i) scores_[i] = (scores_[i] - origin) / options.temperature;
        });
        auto const best = scores_[best_];
        auto least = -std::numeric_limits<float>::max();
        auto const tokens = static_cast<std::int64_t>(scores_.size());
        if (options.top_k > 0 && options.top_k < tokens) {
            least = std::max(least, greatest_of(static_cast<std::size_t>(options.top_k)));
        }
        weights_.resize(scores_.size());
        for_chunks([&](Chunk&, std::size_t begin, std::size_t end) {
            for (auto i = begin; i < end; ++i)
                weights_[i] = scores_[i] < least ? 0 : sampling_weight(best - scores_[i]);
        });
        if (options.top_p < 1.0F) keep_most_probable(options.top_p);
        auto const min_weight = static_cast<double>(weights_[best_]) * static_cast<double>(options.min_p);
        for_chunks([&](Chunk& chunk, std::size_t begin, std::size_t end) {
            chunk.sum = 0;
            for (auto i = begin; i < end; ++i) {
                if (static_cast<double>(weights_[i]) < min_weight) weights_[i] = 0;
                chunk.sum += weights_[i];
            }
        });
    }
    /// The weight of a token, 0 for one that is not drawn from.
    [[nodiscard]] std::uint64_t weight(std::size_t token) const { return weights_[token]; }
    /// The token at which the weights so far, in order of tokens, exceed a part of their sum: bits / 2^64.
    [[nodiscard]] std::int32_t draw(std::uint64_t bits) const {
        std::uint64_t sum = 0;
        for (auto const& chunk : chunks_) sum += chunk.sum;
        auto left = multiply_high(bits, sum);
        std::size_t token = 0;
        for (auto const& chunk : chunks_) {
            if (left < chunk.sum) break;
            left -= chunk.sum;
            token += chunk_tokens;
        }
        for (; token < weights_.size(); ++token) {
            if (left < weights_[token]) return static_cast<std::int32_t>(token);
            left -= weights_[token];
        }
        return best();
    }

private:
    /// Tokens that a thread takes at a time.
    static constexpr std::size_t chunk_tokens = 8192;

    /// What a loop finds in a chunk.
    struct Chunk {
        float best = 0.0F;
        std::size_t odd = 0;
        std::uint64_t sum = 0;
        /// Of weights by their number of bits.
        std::uint64_t sums[64] = {};
        List<float> greatest;
        List<std::uint32_t> tokens;
    };

    /// Calls body(chunk, begin, end) for all chunks, on all threads.
    template <class Body>
    void for_chunks(Body const& body) {
        pool_->run(static_cast<std::int64_t>(chunks_.size()), [&](std::int64_t index) {
            auto const begin = static_cast<std::size_t>(index) * chunk_tokens;
            body(chunks_[static_cast<std::size_t>(index)], begin, std::min(begin + chunk_tokens, scores_.size()));
        });
    }

    /// The k-th greatest score.
    [[nodiscard]] float greatest_of(std::size_t count) {
        // A heap holds a few faster than halving finds them.
        constexpr std::size_t few = 256;
        for_chunks([&](Chunk& chunk, std::size_t begin, std::size_t end) {
            auto const* const from = scores_.begin() + begin;
            auto const* const to = scores_.begin() + end;
            auto& greatest = chunk.greatest;
            // Of a chunk only so many can be among them.
            auto const most = std::min(count, end - begin);
            greatest.clear();
            if (most <= few) {
                greatest.resize(most);
                std::partial_sort_copy(from, to, greatest.begin(), greatest.end(), std::greater<>{});
            } else {
                greatest.append(from, to);
                std::nth_element(greatest.begin(), greatest.begin() + (most - 1), greatest.end(), std::greater<>{});
                greatest.resize(most);
            }
        });
        List<float> greatest;
        for (auto const& chunk : chunks_) greatest.append(chunk.greatest.begin(), chunk.greatest.end());
        auto* const last = greatest.begin() + (count - 1);
        std::nth_element(greatest.begin(), last, greatest.end(), std::greater<>{});
        return *last;
    }
    /// Drops the tokens whose predecessors have this probability together: the size of their weights says where that is about,
    /// among tokens of that size halving finds the place.
    void keep_most_probable(float probability) {
        for_chunks([&](Chunk& chunk, std::size_t begin, std::size_t end) {
            for (auto& sum : chunk.sums) sum = 0;
            for (auto i = begin; i < end; ++i) chunk.sums[std::bit_width(weights_[i])] += weights_[i];
        });
        std::uint64_t sums[64] = {};
        std::uint64_t total = 0;
        for (auto const& chunk : chunks_) {
            for (std::size_t size = 0; size < 64; ++size) {
                sums[size] += chunk.sums[size];
                total += chunk.sums[size];
            }
        }
        auto const reached = static_cast<double>(probability) * static_cast<double>(total);
        std::uint64_t before = 0;
        int size = 63;
        while (size > 1 && (sums[size] == 0 || static_cast<double>(before + sums[size]) < reached))
            before += sums[size--];
        for_chunks([&](Chunk& chunk, std::size_t begin, std::size_t end) {
            chunk.tokens.clear();
            for (auto i = begin; i < end; ++i) {
                if (static_cast<int>(std::bit_width(weights_[i])) == size)
                    chunk.tokens.push_back(static_cast<std::uint32_t>(i));
            }
        });
        order_.clear();
        for (auto const& chunk : chunks_) order_.append(chunk.tokens.begin(), chunk.tokens.end());
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
        for_chunks([&](Chunk&, std::size_t from, std::size_t to) {
            for (auto i = from; i < to; ++i) {
                if (precedes(last, static_cast<std::uint32_t>(i))) weights_[i] = 0;
            }
        });
    }

    ThreadPool* pool_;
    List<float> scores_;
    List<std::uint64_t> weights_;
    List<std::uint32_t> order_;
    List<Chunk> chunks_;
    std::size_t best_ = 0;
};

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
    auto const sized = detail::check_sampled(logits, static_cast<std::int64_t>(rows.size()), out);
    if (!sized) return sized;
    for (auto const& row : rows) {
        if (auto const checked = detail::check_sampling(row, tokens); !checked) return checked;
    }
    auto const choose = [=](std::int64_t begin, std::int64_t end, ThreadPool& pool) {
        detail::SamplingScores scores(tokens, pool);
        for (auto i = begin; i < end; ++i) {
            auto const& row = rows[static_cast<std::size_t>(i)];
            auto& token = out.data()[i];
            token = -1;
            if (!scores.load(logits.row(i), row)) continue;
            if (row.options.temperature == 0.0F) {
                token = scores.best();
            } else {
                scores.restrict_to(row.options);
                token = scores.draw(random_bits(row.options.seed, row.sequence, row.step));
            }
        }
    };
    stream.submit([=, pool = stream.pool()]() -> Result<> {
        std::optional<ThreadPool> alone;
        auto& threads = pool != nullptr ? *pool : alone.emplace(1);
        // Rows are split over threads where there are enough of them, else a row's tokens are.
        if (count < threads.size()) {
            choose(0, count, threads);
        } else {
            threads.run_ranges(count, 1, [&](std::int64_t begin, std::int64_t end) { choose(begin, end, threads); });
        }
        for (std::int64_t i = 0; i < out.elements(); ++i) {
            if (out.data()[i] >= 0) continue;
            return Error{ErrorCode::invalid_argument}
                .in("sample")
                .at("logits")
                .because("a row has a NaN or infinity, or nothing that can be drawn")
                .got(i)
                .fix("look for an overflow in the model, or a repetition penalty near 0");
        }
        return {};
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
