// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What every rank held, put together on all of them.
[[nodiscard]] inline Result<std::vector<RunMemory>> gather_memory(HostCommunicator& world, RunMemory const& own) {
    static_assert(std::is_trivially_copyable_v<RunMemory>);
    auto const size = static_cast<std::int64_t>(sizeof(RunMemory));
    std::vector<RunMemory> all(static_cast<std::size_t>(world.size()));
    std::vector<std::int64_t> const counts(all.size(), size);
    auto const bytes = [](auto* data) { return reinterpret_cast<std::uint8_t const*>(data); };
    auto const done = all_gather(world, TensorView<std::uint8_t const, 1, Host>(bytes(&own), {size}),
                                 TensorView<std::uint8_t, 1, Host>(reinterpret_cast<std::uint8_t*>(all.data()),
                                                                   {size * static_cast<std::int64_t>(all.size())}),
                                 std::span<std::int64_t const>(counts));
    if (!done) return done.error();
    return all;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
