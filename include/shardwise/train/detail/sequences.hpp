// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/token_mean.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sequences that a rank takes forwards and back: their tokens, their targets and these losses.
///
/// Memory  12 bytes a token, allocated at creation
class Sequences {
public:
    [[nodiscard]] static Bytes bytes(std::int64_t count, std::int64_t context) {
        return Bytes{count * context * static_cast<std::int64_t>(2 * sizeof(std::int32_t) + sizeof(float))};
    }
    /// Errors  out_of_memory
    [[nodiscard]] static Result<Sequences> create(HostContext& context, std::int64_t count, std::int64_t length) {
        auto ids = Buffer<std::int32_t, Host>::allocate(context, 2 * count * length);
        if (!ids) return ids.error();
        auto losses = Buffer<float, Host>::allocate(context, count * length);
        if (!losses) return losses.error();
        return Result<Sequences>(Sequences(count * length, length, std::move(*ids), std::move(*losses)));
    }

    /// Sequences are as long from here on, at most as at creation.
    void set_length(std::int64_t length) { length_ = length; }

    /// Reads sequence `number` of a batch to a place; that of the next batch is on its way from the disk meanwhile.
    ///
    /// Errors  as Batches::read
    [[nodiscard]] Result<> read(Batches& batches, std::int64_t position, std::int64_t number, std::int64_t place) {
        using Ids = TensorView<std::int32_t, 2, Host>;
        auto* const to = ids_.data() + place * length_;
        UnitRange const one{number, number + 1};
        auto const done = batches.read(position, one, Ids{to, {1, length_}}, Ids{to + capacity_, {1, length_}});
        batches.expect(position + batches.options().batch, one);
        return done;
    }

    [[nodiscard]] TensorView<std::int32_t const, 2, Host> tokens(std::int64_t first, std::int64_t count) const {
        return {ids_.data() + first * length_, {count, length_}};
    }
    [[nodiscard]] TensorView<std::int32_t const, 1, Host> targets(std::int64_t place) const {
        return {ids_.data() + capacity_ + place * length_, {length_}};
    }
    [[nodiscard]] TensorView<float, 1, Host> losses(std::int64_t place) {
        return {losses_.data() + place * length_, {length_}};
    }

    /// The tokens of the first sequences whose loss counts.
    [[nodiscard]] std::int64_t counted(std::int64_t count) const {
        auto const* const first = ids_.data() + capacity_;
        return std::count_if(first, first + count * length_, [](auto target) { return target >= 0; });
    }
    /// Adds the losses of the first sequences.
    [[nodiscard]] Result<> add_losses(std::int64_t count, TokenMean& mean) const {
        auto const size = static_cast<std::size_t>(count * length_);
        return mean.add({losses_.data(), size}, {ids_.data() + capacity_, size});
    }

private:
    Sequences(std::int64_t capacity, std::int64_t length, Buffer<std::int32_t, Host> ids, Buffer<float, Host> losses)
        : capacity_(capacity), length_(length), ids_(std::move(ids)), losses_(std::move(losses)) {}

    /// Tokens that there is memory for.
    std::int64_t capacity_;
    std::int64_t length_;
    /// Tokens and, after them, targets.
    Buffer<std::int32_t, Host> ids_;
    Buffer<float, Host> losses_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
