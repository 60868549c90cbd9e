// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// torch.randperm(count) after torch.manual_seed(seed): the same indices.
///
/// Source  ATen's randperm_cpu for fewer than 2^32 / 20 indices, 214,748,364: mt19937, whose seed is the lower 32 bits, and z =
///         next % (count - i), swap(i, i + z)
/// Errors  invalid_argument for a negative count; capacity_exceeded for more, which torch draws by another rule
[[nodiscard]] inline Result<List<std::int64_t>> torch_permutation(std::int64_t count, std::uint64_t seed) {
    constexpr std::int64_t most = INT64_C(0xFFFF'FFFF) / 20 - 1;
    Error bad{count < 0 ? ErrorCode::invalid_argument : ErrorCode::capacity_exceeded};
    bad.in("permutation");
    if (count < 0) return bad.because("is of a negative number of indices").got(count).at_least(0);
    if (count > most)
        return bad.because("has more samples than are shuffled at once").got(count).at_most(most).fix("do not shuffle");
    List<std::int64_t> order(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (std::int64_t i = 0; i + 1 < count; ++i) {
        auto const step = static_cast<std::int64_t>(random()) % (count - i);
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i + step)]);
    }
    return order;
}

/// How samples are distributed to ranks.
struct DistributedSamplerOptions {
    bool shuffles = true;
    /// Leaves the last samples out where the ranks' shares would differ, instead of giving the first ones twice.
    bool drops_last = false;
    std::uint64_t seed = 0;
};

/// Which samples each rank takes in an epoch: the indices of torch.utils.data.DistributedSampler. A function of seed, epoch and
/// numbers, without state.
///
/// Rank r takes every ranks-th index from the r-th on, so that batches of b samples on R ranks hold the same samples for every R
/// with the same b * R, where the incomplete last one is left out.
class DistributedSampler {
public:
    /// Errors  invalid_argument for no samples
    [[nodiscard]] static Result<DistributedSampler> create(std::int64_t samples, DistributedSamplerOptions const& options = {}) {
        if (samples < 1) {
            return Error{ErrorCode::invalid_argument}
                .in("distributed sampler")
                .because("there are no samples")
                .got(samples)
                .at_least(1);
        }
        return DistributedSampler(samples, options);
    }

    [[nodiscard]] std::int64_t samples() const { return samples_; }
    [[nodiscard]] DistributedSamplerOptions const& options() const { return options_; }
    /// The samples of each rank in an epoch.
    ///
    /// Errors  invalid_argument for no ranks
    [[nodiscard]] Result<std::int64_t> samples_per_rank(std::int64_t ranks) const {
        if (ranks < 1) return no_rank(0, ranks);
        auto const rest = samples_ % ranks;
        return samples_ / ranks + (rest != 0 && !options_.drops_last ? 1 : 0);
    }

    /// All samples in the order of an epoch.
    ///
    /// Errors  as torch_permutation
    [[nodiscard]] Result<List<std::int64_t>> order(std::int64_t epoch) const {
        if (options_.shuffles) return torch_permutation(samples_, options_.seed + static_cast<std::uint64_t>(epoch));
        List<std::int64_t> all(static_cast<std::size_t>(samples_));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
        return all;
    }
    /// The samples of a rank in an epoch, in order.
    ///
    /// Errors  invalid_argument for a rank that does not exist; as order
    [[nodiscard]] Result<List<std::int64_t>> indices(std::int64_t rank, std::int64_t ranks, std::int64_t epoch) const {
        if (ranks < 1 || rank < 0 || rank >= ranks) return no_rank(rank, ranks);
        auto const all = order(epoch);
        if (!all) return all.error();
        auto const count = samples_per_rank(ranks);
        List<std::int64_t> own(static_cast<std::size_t>(*count));
        for (std::int64_t i = 0; i < *count; ++i)
            own[static_cast<std::size_t>(i)] = (*all)[static_cast<std::size_t>((rank + i * ranks) % samples_)];
        return own;
    }

private:
    DistributedSampler(std::int64_t samples, DistributedSamplerOptions const& options) : samples_(samples), options_(options) {}

    [[nodiscard]] static Error no_rank(std::int64_t rank, std::int64_t ranks) {
        return Error{ErrorCode::invalid_argument}
            .in("distributed sampler")
            .at("rank")
            .because("is no rank of the group")
            .got(rank)
            .between(0, ranks - 1);
    }

    std::int64_t samples_;
    DistributedSamplerOptions options_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
