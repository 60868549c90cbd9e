// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/weight.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/for_each_weight.hpp>
#include <shardwise/executor/layer_file.hpp>
#include <shardwise/executor/layer_home.hpp>
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

/// The packed weights of layers that lie in memory of their own or in a file; each layer in one piece.
class OffloadedWeights {
public:
    OffloadedWeights() = default;
    OffloadedWeights(OffloadedWeights&& other) noexcept = default;
    OffloadedWeights& operator=(OffloadedWeights&& other) noexcept = default;

    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(pieces_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const { return Bytes{piece(layer).bytes}; }
    /// Errors  file_unreadable; malformed_file where the file was cut
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        auto const& from = piece(layer);
        if (from.offset < 0) {
            if (!to.empty()) std::memcpy(to.data(), from.memory.data() + begin, to.size());
            return {};
        }
        return file_.read(from.offset + begin, to);
    }

    /// Takes the next layer's bytes over.
    void keep(Buffer<std::byte, Host> memory) {
        auto const bytes = memory.size();
        pieces_.push_back({std::move(memory), bytes, -1});
    }
    /// Writes the next layer's bytes out, into a file that goes with this process.
    ///
    /// Errors  file_unwritable with the system's words
    [[nodiscard]] Result<> write(std::span<std::byte const> bytes) {
        auto const offset = file_.write(bytes);
        if (!offset) return offset.error();
        pieces_.push_back({{}, static_cast<std::int64_t>(bytes.size()), *offset});
        return {};
    }

private:
    struct Piece {
        Buffer<std::byte, Host> memory;
        std::int64_t bytes = 0;
        /// In the file; -1 in memory.
        std::int64_t offset = -1;
    };

    [[nodiscard]] Piece const& piece(std::int64_t layer) const { return pieces_[static_cast<std::size_t>(layer)]; }

    std::vector<Piece> pieces_;
    LayerFile file_;
};

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
