// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host/weight.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/for_each_weight.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/offloaded_layers.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/walk_block.hpp>
#include <shardwise/parallel/layer_source.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Layers that the host's memory or a file keeps for the host.
using OffloadedWeights = OffloadedLayers<Buffer<std::byte, Host>>;
static_assert(LayerSource<OffloadedWeights>);

/// The blocks of a rank whose packed weights are not resident: while one is computed the weights of the next are
/// fetched. Norms, biases and tables stay.
///
/// Memory  two buffers of the largest such block, and what is kept on the cpu
template <ReductionPolicy Policy>
class OffloadedBlocks {
    using Block = HeldBlock<Host, Policy>;

public:
    /// Moves the weights of a loaded block out, unless it is resident; `number` counts the rank's blocks.
    ///
    /// Errors  out_of_memory; file_unwritable
    [[nodiscard]] Result<> add(RankHome<Host> const& rank, std::size_t number, Block& block, LayerHome home) {
        if (home == LayerHome::resident) return {};
        std::int64_t total = 0;
        detail::for_each_weight(block, [&](HostWeight& weight) { total += rounded(weight.bytes().count()); });
        auto image = Buffer<std::byte, Host>::allocate(rank.context, total);
        if (!image) return image.error();
        std::int64_t at = 0;
        detail::for_each_weight(block, [&](HostWeight& weight) {
            auto memory = weight.take_memory();
            auto const bytes = memory.bytes().count();
            if (bytes > 0) std::memcpy(image->data() + at, memory.data(), static_cast<std::size_t>(bytes));
            offsets_.push_back(at);
            at += rounded(bytes);
        });
        firsts_.push_back(offsets_.size());
        numbers_.push_back(number);
        if (home == LayerHome::cpu) {
            weights_.keep(std::move(*image));
            return {};
        }
        return weights_.write({image->data(), static_cast<std::size_t>(total)});
    }
    /// All blocks are loaded: begins to fetch.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] Result<> finish(RankHome<Host> const& rank, std::vector<Block>&) {
        if (numbers_.empty()) return {};
        auto stream = WeightStream<OffloadedWeights>::create(rank.context, std::move(weights_));
        if (!stream) return stream.error();
        stream_.emplace(std::move(*stream));
        return {};
    }

    /// True where some block's weights are fetched.
    [[nodiscard]] bool has_any() const { return stream_.has_value(); }

    /// Calls walk(end) so that blocks before each offloaded one are walked, then it, then the rest of `blocks`.
    ///
    /// Errors  those of the walk and of reading; deadline_exceeded
    template <class Walk>
    [[nodiscard]] Result<> run(std::vector<Block>& blocks, Walk const& walk, HostStream& stream, Deadline deadline) {
        if (stream_) {
            auto const work = [&](std::int64_t layer, std::span<std::byte const> bytes, HostStream&) -> Result<> {
                auto const i = static_cast<std::size_t>(layer);
                if (auto const done = walk(numbers_[i]); !done) return done;
                auto next = i == 0 ? std::size_t{0} : firsts_[i - 1];
                detail::for_each_weight(blocks[numbers_[i]],
                                        [&](HostWeight& weight) { weight.rest_on(bytes.data() + offsets_[next++]); });
                return walk(numbers_[i] + 1);
            };
            if (auto const done = stream_->run(work, stream, deadline); !done) return done;
        }
        return walk(blocks.size());
    }

private:
    [[nodiscard]] static std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

    /// By offloaded block: its number, and where its weights' offsets end.
    std::vector<std::size_t> numbers_;
    std::vector<std::size_t> firsts_;
    std::vector<std::int64_t> offsets_;
    OffloadedWeights weights_;
    std::optional<WeightStream<OffloadedWeights>> stream_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
