// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/step_table.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A step table on a device: the host writes into pinned memory, two copies in turn, and one copy in stream order brings it over.
template <class Api>
class StepMemory<DeviceBackend<Api>> {
public:
    using Backend = DeviceBackend<Api>;

    [[nodiscard]] static Result<StepMemory> create(DeviceContext<Api>& context, std::int64_t size) {
        StepMemory memory(context.limit());
        auto block = Buffer<std::int32_t, Backend>::allocate(context, size);
        if (!block) return block.error();
        memory.block_ = std::move(*block);
        for (auto& side : memory.sides_) {
            auto pinned = PinnedArray<Api, std::int32_t>::make(size);
            if (!pinned) return pinned.error();
            side.pinned = std::move(*pinned);
        }
        return Result<StepMemory>(std::move(memory));
    }
    StepMemory(StepMemory&&) noexcept = default;
    StepMemory& operator=(StepMemory&&) noexcept = default;
    /// What is being copied outlives its copy.
    ~StepMemory() {
        for (auto const& side : sides_) (void)side.sent.synchronize(Deadline::after(limit_));
    }

    [[nodiscard]] Result<std::int32_t*> begin() {
        turn_ = 1 - turn_;
        auto& side = sides_[turn_];
        if (auto const sent = side.sent.synchronize(Deadline::after(limit_)); !sent) return sent.error();
        return side.pinned.data();
    }
    [[nodiscard]] Result<> send(std::int64_t count, DeviceStream<Api>& stream) {
        auto& side = sides_[turn_];
        TensorView<std::int32_t const, 1, Host> const from(side.pinned.data(), {count});
        auto const sent = Backend::template copy<std::int32_t>(from, block_.view().part(0, count), stream);
        if (sent) side.sent.record(stream);
        return sent;
    }
    [[nodiscard]] std::int32_t const* data() const { return block_.data(); }
    [[nodiscard]] Bytes bytes() const { return block_.bytes(); }

private:
    struct Side {
        PinnedArray<Api, std::int32_t> pinned;
        DeviceEvent<Api> sent;
    };

    explicit StepMemory(std::chrono::nanoseconds limit) : limit_(limit) {}

    std::chrono::nanoseconds limit_;
    Buffer<std::int32_t, Backend> block_;
    std::array<Side, 2> sides_;
    std::size_t turn_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
