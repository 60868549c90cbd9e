// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/for_each_weight.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/offloaded_layers.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/walk_block.hpp>
#include <shardwise/parallel/device_weight_stream.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The blocks of a device's rank whose weights are not resident: while one is computed the weights of the next are copied to the
/// device. Norms, biases and tables stay there.
///
/// Memory  on the device two slots of the largest such block; on the host, pinned, what is kept there, and of blocks on disk two
///         buffers of the largest
template <class Api, ReductionPolicy Policy>
class OffloadedDeviceBlocks {
    using Backend = DeviceBackend<Api>;
    using Block = HeldBlock<Backend, Policy>;
    using Weight = DeviceWeight<Api>;

public:
    /// Moves the weights of a loaded block out, unless it is resident; `number` counts the rank's blocks.
    ///
    /// Errors  out_of_memory; file_unwritable; those of the device's calls; deadline_exceeded
    [[nodiscard]] Result<> add(RankHome<Backend> const& rank, std::size_t number, Block& block, LayerHome home) {
        if (home == LayerHome::resident) return {};
        std::int64_t total = 0;
        detail::for_each_weight(block, [&](Weight& weight) { total += weight.bytes().count(); });
        auto image = PinnedMemory<Api>::allocate(rank.context, rank.host.memory(), total);
        if (!image) return image.error();
        {
            std::vector<Buffer<std::byte, Backend>> taken;
            auto stream = rank.context.make_stream();
            std::int64_t at = 0;
            Result<> copied;
            detail::for_each_weight(block, [&](Weight& weight) {
                taken.push_back(weight.take_memory());
                Buffer<std::byte, Backend> const& memory = taken.back();
                TensorView<std::byte, 1, Host> const to(image->data() + at, {memory.size()});
                if (copied) copied = Backend::template copy<std::byte>(memory.view(), to, stream);
                offsets_.push_back(at);
                at += memory.size();
            });
            if (copied) copied = stream.synchronize(Deadline::after(rank.context.limit()));
            if (!copied) return copied;
        }
        firsts_.push_back(offsets_.size());
        numbers_.push_back(number);
        if (home == LayerHome::cpu) {
            weights_.keep(std::move(*image));
            return {};
        }
        return weights_.write({image->data(), static_cast<std::size_t>(total)});
    }
    /// All blocks are loaded: says where their weights will lie, and begins to fetch.
    ///
    /// Errors  out_of_memory; those of the device's calls
    [[nodiscard]] Result<> finish(RankHome<Backend> const& rank, std::vector<Block>& blocks) {
        if (numbers_.empty()) return {};
        auto stream = Stream::create(rank.context, rank.host.memory(), std::move(weights_));
        if (!stream) return stream.error();
        stream_.emplace(std::move(*stream));
        for (std::size_t i = 0; i < numbers_.size(); ++i) {
            auto& block = blocks[numbers_[i]];
            auto const* const place = stream_->place(static_cast<std::int64_t>(i));
            auto next = i == 0 ? std::size_t{0} : firsts_[i - 1];
            detail::for_each_weight(block, [&](Weight& weight) { weight.rest_on(place + offsets_[next++]); });
            // Tables of experts say where those lie.
            for (auto& operation : block.operations) {
                auto const made = std::visit(
                    [&](auto& held) -> Result<> {
                        if constexpr (requires { held.finish(rank.context); }) return held.finish(rank.context);
                        return {};
                    },
                    operation.held);
                if (!made) return made;
            }
        }
        return {};
    }

    /// True where some block's weights are fetched.
    [[nodiscard]] bool has_any() const { return stream_.has_value(); }

    /// Calls walk(end) so that blocks before each offloaded one are walked, then it, then the rest of `blocks`.
    ///
    /// Errors  those of the walk, of reading and of the stream; deadline_exceeded. After an error every later walk returns it
    template <class Walk>
    [[nodiscard]] Result<> run(std::vector<Block>& blocks, Walk const& walk, DeviceStream<Api>& stream,
                               Deadline deadline) {
        if (!stream_) return walk(blocks.size());
        // Where it ended in the middle, the slots hold layers that the next walk would not expect.
        if (failed_) return *failed_;
        auto done = walk_all(blocks, walk, stream, deadline);
        if (done && stream.failure()) done = *stream.failure();
        if (done) return done;
        // What came before the failure may still read the slots.
        (void)stream.synchronize(Deadline::after(stream.context().limit()));
        return failed_.emplace(done.error());
    }

private:
    using Layers = OffloadedLayers<PinnedMemory<Api>>;
    using Stream = DeviceWeightStream<Api, Layers>;

    template <class Walk>
    [[nodiscard]] Result<> walk_all(std::vector<Block>& blocks, Walk const& walk, DeviceStream<Api>& stream,
                                    Deadline deadline) {
        for (std::size_t i = 0; i < numbers_.size(); ++i) {
            auto const layer = static_cast<std::int64_t>(i);
            if (auto const done = walk(numbers_[i]); !done) return done;
            if (auto const here = stream_->acquire(layer, stream, deadline); !here) return here;
            if (auto const done = walk(numbers_[i] + 1); !done) return done;
            stream_->release(layer, stream);
        }
        return walk(blocks.size());
    }

    /// By offloaded block: its number, and where its weights' offsets end.
    std::vector<std::size_t> numbers_;
    std::vector<std::size_t> firsts_;
    std::vector<std::int64_t> offsets_;
    Layers weights_;
    std::optional<Stream> stream_;
    /// What ended a walk.
    std::optional<Error> failed_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
