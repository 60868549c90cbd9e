// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/session/run_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A rank's device, and how much of its free memory has gone since the rank opened it; of the host nothing.
struct DeviceLoss {
    DeviceUuid uuid{};
    Bytes gone{};
    bool is_known = false;
};

/// What a rank held, and its device.
struct RankHolding {
    RunMemory memory;
    DeviceLoss device;
};

/// What vendors took of devices besides what the ranks hold or were to hold, each rank's share.
inline void share_vendor_memory(std::vector<RankHolding>& all) {
    for (auto& one : all) {
        if (!one.device.is_known) continue;
        Bytes gone{0};
        Bytes held{0};
        std::int64_t ranks = 0;
        for (auto const& other : all) {
            if (!other.device.is_known || !(other.device.uuid == one.device.uuid)) continue;
            // Ranks opened it one after another: the first saw all that went.
            gone = std::max(gone, other.device.gone);
            held += std::max(other.memory.held, other.memory.predicted);
            ++ranks;
        }
        if (gone > held) one.memory.vendor = Bytes{(gone - held).count() / ranks};
    }
}

/// What every rank held, put together on all of them.
[[nodiscard]] inline Result<std::vector<RunMemory>> gather_memory(HostCommunicator& world, RankHolding const& own) {
    static_assert(std::is_trivially_copyable_v<RankHolding>);
    auto const size = static_cast<std::int64_t>(sizeof(RankHolding));
    std::vector<RankHolding> all(static_cast<std::size_t>(world.size()));
    std::vector<std::int64_t> const counts(all.size(), size);
    auto const bytes = [](auto* data) { return reinterpret_cast<std::uint8_t const*>(data); };
    auto const done = all_gather(world, TensorView<std::uint8_t const, 1, Host>(bytes(&own), {size}),
                                 TensorView<std::uint8_t, 1, Host>(reinterpret_cast<std::uint8_t*>(all.data()),
                                                                   {size * static_cast<std::int64_t>(all.size())}),
                                 std::span<std::int64_t const>(counts));
    if (!done) return done.error();
    share_vendor_memory(all);
    std::vector<RunMemory> ranks;
    for (auto const& one : all) ranks.push_back(one.memory);
    return ranks;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
