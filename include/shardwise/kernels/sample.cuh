// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/kernels/detail/logit_key.hpp>
#include <shardwise/kernels/detail/sampled_scores.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int sample_threads = 512;
/// Threads that add up a piece of a row where a token is drawn.
constexpr int sample_team = 32;

/// Tokens of a bin of distances that are listed, so that the whole row is not looked at again.
constexpr std::uint32_t sample_listed = 2048;

/// What a block shares about a row. Whole numbers only: their sums do not depend on who adds first.
struct SampleMemory {
    /// By bin the sum of weights: its lower and its upper word.
    std::uint32_t low[sampled_bins];
    std::uint32_t high[sampled_bins];
    std::uint64_t sums[sample_threads];
    std::int64_t keys[sample_threads];
    /// Tokens of the nearest bin, by their scores' keys; `listed` of them, or more than there is place for.
    std::uint32_t list_keys[sample_listed];
    std::uint32_t list_tokens[sample_listed];
    std::uint32_t listed;
    /// The bin that was found, the sum of those before it, and its own.
    std::uint32_t bin;
    std::uint64_t before;
    std::uint64_t inside;
};

/// Adds to a bin in two words: devices add 32 bits in shared memory at once, and 64 by trying again.
__device__ inline void add_to_bin(SampleMemory& memory, std::uint32_t bin, std::uint64_t weight) {
    auto const lower = static_cast<std::uint32_t>(weight);
    auto const before = atomicAdd(&memory.low[bin], lower);
    auto const upper = static_cast<std::uint32_t>(weight >> 32U) + (before + lower < before ? 1U : 0U);
    if (upper != 0) atomicAdd(&memory.high[bin], upper);
}

/// Finds the last bin with weight for which is_before(the weight of the bins before it, all) holds; where it holds for none, the first
/// one. `base` lies before all bins; `all` becomes their sum where it is 0.
template <class IsBefore>
__device__ void find_bin(SampleMemory& memory, std::uint64_t base, std::uint64_t& all, IsBefore const& is_before) {
    constexpr int share = sampled_bins / sample_threads;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const sum_of = [&](int bin) { return (std::uint64_t{memory.high[bin]} << 32U) + memory.low[bin]; };
    std::uint64_t own = 0;
    for (int i = 0; i < share; ++i) own += sum_of(thread * share + i);
    memory.sums[thread] = own;
    __syncthreads();
    for (int step = 1; step < sample_threads; step *= 2) {
        auto const left = thread < step ? 0 : memory.sums[thread - step];
        __syncthreads();
        memory.sums[thread] += left;
        __syncthreads();
    }
    auto const total = memory.sums[sample_threads - 1];
    if (all == 0) all = total;
    auto before = memory.sums[thread] - own;
    for (int i = 0; i < share; ++i) {
        auto const sum = sum_of(thread * share + i);
        bool const begins = before == 0 || is_before(base + before, all);
        bool const ends = before + sum == total || !is_before(base + before + sum, all);
        if (sum > 0 && begins && ends) {
            memory.bin = static_cast<std::uint32_t>(thread * share + i);
            memory.before = base + before;
            memory.inside = sum;
        }
        before += sum;
    }
    __syncthreads();
}

/// The greatest of a key of each thread, in all of them.
__device__ inline std::int64_t greatest_key(SampleMemory& memory, std::int64_t key) {
    auto const thread = static_cast<int>(threadIdx.x);
    memory.keys[thread] = key;
    for (int others = sample_threads / 2; others > 0; others /= 2) {
        __syncthreads();
        if (thread < others && memory.keys[thread + others] > memory.keys[thread])
            memory.keys[thread] = memory.keys[thread + others];
    }
    __syncthreads();
    return memory.keys[0];
}

/// Where a row is cut: at its k-th greatest score, or where the tokens before have a share of the weight. Bins of distances first,
/// over which scores spread evenly; then the scores' bits, and the tokens' where scores are equal.
template <unsigned width>
struct SampleSelector {
    SampleMemory& memory;
    SampledScores const& row;
    std::int32_t tokens;

    /// What a descent has found so far, and whether it counts tokens or adds up the weights of those within a cut.
    struct Descent {
        bool counts;
        SampleCut within;
        std::uint32_t nearest;
        SampleCut found;
    };

    /// Adds a token to its bin, where the levels above have led to it.
    __device__ void add(int level, Descent const& now, std::uint32_t bin, float score, std::uint32_t key,
                        std::uint32_t token) {
        if (level > 0) {
            bin = 2047U - (key >> 21U);
            if (level > 1) {
                if (((key ^ now.found.key) >> 21U) != 0) return;
                bin = 2047U - ((key >> 10U) & 2047U);
            }
            if (level > 2) {
                if (((key ^ now.found.key) >> 10U) != 0) return;
                bin = 1023U - (key & 1023U);
            }
            if (level > 3) {
                if (key != now.found.key) return;
                bin = token >> 11U;
            }
            if (level > 4) {
                if (bin != now.found.token >> 11U) return;
                bin = token & 2047U;
            }
        }
        std::uint64_t weight = 1;
        if (!now.counts) weight = now.within.keeps(key, token) ? sampling_weight(row.best - score) : 0;
        if (weight > 0) add_to_bin(memory, bin, weight);
    }
    /// Adds up the bins of a level.
    __device__ void fill_bins(int level, Descent const& now) {
        auto const thread = static_cast<int>(threadIdx.x);
        for (auto bin = thread; bin < sampled_bins; bin += sample_threads) {
            memory.low[bin] = 0;
            memory.high[bin] = 0;
        }
        if (thread == 0 && level == 1) memory.listed = 0;
        __syncthreads();
        if (level > 1 && memory.listed <= sample_listed) {
            for (auto i = static_cast<std::uint32_t>(thread); i < memory.listed; i += sample_threads) {
                auto const key = memory.list_keys[i];
                add(level, now, 0, score_of_key(key), key, memory.list_tokens[i]);
            }
        } else {
            for_logits<width, sample_threads, 2>(row, tokens, [&](float logit, std::uint32_t token) {
                auto const score = row.score_of(logit);
                auto const distance = row.best - score;
                if (!(distance < sampled_reach)) return;
                auto const bin = bin_of_distance(distance);
                if (level > 0 && bin != now.nearest) return;
                auto const key = score_key(score);
                if (level == 1) {
                    auto const place = atomicAdd(&memory.listed, 1U);
                    if (place < sample_listed) {
                        memory.list_keys[place] = key;
                        memory.list_tokens[place] = token;
                    }
                }
                add(level, now, bin, score, key, token);
            });
        }
        __syncthreads();
    }
    /// Where the k-th greatest score is: all of its equals are kept.
    [[nodiscard]] __device__ SampleCut keep_greatest(std::uint64_t count) {
        auto const is_before = [count](std::uint64_t before, std::uint64_t) { return before < count; };
        return descend(true, SampleCut{}, 3, is_before);
    }
    /// Where the tokens before have that share of the weight of those that a cut keeps.
    [[nodiscard]] __device__ SampleCut keep_most_probable(float share, SampleCut const& within) {
        auto const is_before = [share](std::uint64_t before, std::uint64_t all) {
            return static_cast<double>(before) < static_cast<double>(share) * static_cast<double>(all);
        };
        return descend(false, within, 5, is_before);
    }

private:
    template <class IsBefore>
    [[nodiscard]] __device__ SampleCut descend(bool counts, SampleCut const& within, int levels,
                                               IsBefore const& is_before) {
        Descent now{counts, within, 0, {0, 0}};
        auto& found = now.found;
        std::uint64_t before = 0;
        std::uint64_t all = 0;
        for (int level = 0; level <= levels; ++level) {
            fill_bins(level, now);
            find_bin(memory, before, all, is_before);
            auto const bin = memory.bin;
            before = memory.before;
            // Fewer than are to be kept have any weight.
            if (counts && level == 0 && is_before(before + memory.inside, all)) return SampleCut{};
            if (level == 0) now.nearest = bin;
            if (level == 1) found.key = (2047U - bin) << 21U;
            if (level == 2) found.key |= (2047U - bin) << 10U;
            if (level == 3) found.key |= 1023U - bin;
            if (level == 4) found.token = bin << 11U;
            if (level == 5) found.token |= bin;
        }
        if (levels < 5) found.token = 0xFFFFFFFFU;
        return found;
    }
};

/// The token at which the weights so far, in order of tokens, exceed a part of their sum: bits / 2^64. Teams add up pieces of the row,
/// then of the piece in which that is.
template <class Weight>
[[nodiscard]] __device__ std::int32_t draw_token(SampleMemory& memory, SampledScores const& row, std::int32_t tokens,
                                                 std::uint64_t bits, std::int32_t otherwise, Weight const& weight) {
    constexpr int teams = sample_threads / sample_team;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % sample_team;
    std::int32_t begin = 0;
    auto end = tokens;
    std::uint64_t left = 0;
    for (bool is_first = true; is_first || end - begin > 1; is_first = false) {
        auto const piece = (end - begin - 1) / teams + 1;
        auto const own = begin + thread / sample_team * piece;
        auto const own_end = own + piece < end ? own + piece : end;
        std::uint64_t sum = 0;
        // Loads of a thread that are under way at once.
        constexpr int at_once = 4;
        for (auto first = own + lane; first < own_end; first += at_once * sample_team) {
            float logits[at_once];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < at_once; ++i) {
                auto const token = first + i * sample_team;
                logits[i] = token < own_end ? row.logit_of(token) : 0.0F;
            }
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < at_once; ++i) {
                auto const token = first + i * sample_team;
                if (token < own_end) sum += weight(logits[i], token);
            }
        }
        memory.sums[thread] = sum;
        __syncthreads();
        for (int others = sample_team / 2; others > 0; others /= 2) {
            if (lane < others) memory.sums[thread] += memory.sums[thread + others];
            __syncthreads();
        }
        if (is_first) {
            std::uint64_t total = 0;
            for (int team = 0; team < teams; ++team) total += memory.sums[team * sample_team];
            left = multiply_high(bits, total);
        }
        int team = 0;
        for (; team < teams && left >= memory.sums[team * sample_team]; ++team) left -= memory.sums[team * sample_team];
        if (team == teams) return otherwise;
        begin += team * piece;
        end = begin + piece < end ? begin + piece : end;
        // The next sums come after the reads of these.
        __syncthreads();
    }
    return begin;
}

/// A block chooses a row's token.
template <unsigned width>
__global__ void __launch_bounds__(sample_threads) sample_rows(SampleCall call) {
    __shared__ SampleMemory memory;
    constexpr float greatest = 3.40282347e+38F;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const words = (call.tokens - 1) / 32 + 1;
    for (auto index = static_cast<std::int32_t>(blockIdx.x); index < call.rows;
         index += static_cast<std::int32_t>(gridDim.x)) {
        auto const options = call.options[index];
        SampledScores row{call.logits + index * call.logits_row,
                          nullptr,
                          options.repetition_penalty,
                          0.0F,
                          options.temperature,
                          0.0F};
        if (options.history_size > 0) {
            auto* const marks = call.marks + static_cast<std::int64_t>(index) * words;
            for (int word = thread; word < words; word += sample_threads) marks[word] = 0;
            __syncthreads();
            for (int i = thread; i < options.history_size; i += sample_threads) {
                auto const token = call.histories[options.history + i];
                atomicOr(&marks[token / 32], 1U << static_cast<unsigned>(token % 32));
            }
            __syncthreads();
            row.marks = marks;
        }
        // Above all others where a logit is no number or plus infinity.
        constexpr std::int64_t odd_key = 0x7FFF'FFFF'FFFF'FFFF;
        auto largest = float_of_bits(0xFF800000U);
        std::uint32_t place = 0xFFFFFFFFU;
        bool is_odd = false;
        for_logits<width, sample_threads, 4>(row, call.tokens, [&](float logit, std::uint32_t token) {
            is_odd = is_odd || !(logit <= greatest);
            // A thread's tokens ascend: of equal logits it keeps the first.
            if (logit > largest || place == 0xFFFFFFFFU) {
                largest = logit;
                place = token;
            }
        });
        auto key = place == 0xFFFFFFFFU ? no_logit_key : logit_key(largest, place);
        if (is_odd) key = odd_key;
        key = greatest_key(memory, key);
        auto chosen = id_of_key(key);
        auto const best = key == odd_key ? 0.0F : row.logit_of(chosen);
        if (key == odd_key || !(best >= -greatest)) {
            chosen = -1;
        } else if (options.temperature > 0.0F) {
            // Where the temperature would make the greatest score infinite, distances from it stay numbers.
            auto const scaled = best / options.temperature;
            row.origin = scaled <= greatest && scaled >= -greatest ? 0.0F : best;
            row.best = row.score_of(best);
            SampleSelector<width> selector{memory, row, call.tokens};
            SampleCut cut;
            if (options.top_k > 0 && options.top_k < call.tokens)
                cut = selector.keep_greatest(static_cast<std::uint64_t>(options.top_k));
            if (options.top_p < 1.0F) cut = selector.keep_most_probable(options.top_p, cut);
            auto const weight_of = [&](float logit, std::int32_t token) {
                auto const score = row.score_of(logit);
                return cut.keeps(score_key(score), static_cast<std::uint32_t>(token))
                           ? sampling_weight(row.best - score)
                           : std::uint64_t{0};
            };
            auto const min_weight = static_cast<double>(weight_of(best, chosen)) * static_cast<double>(options.min_p);
            chosen = draw_token(memory, row, call.tokens, options.bits, chosen, [&](float logit, std::int32_t token) {
                auto const weight = weight_of(logit, token);
                return static_cast<double>(weight) < min_weight ? 0 : weight;
            });
        }
        if (thread == 0) call.ids[index] = chosen;
        // What the next row shares comes after the reads of this one's.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
