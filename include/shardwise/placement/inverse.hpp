// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/placement/device_map.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Larger answers than this are given as this: no model has such a context, no request such a batch.
inline constexpr std::int64_t largest_answer = std::int64_t{1} << 32U;

/// The largest n in [1, largest_answer] for which holds(n) is true, 0 where not even 1 is; holds must not become true again
/// once it is false. The answer's neighbour was tried: holds(n + 1) is false.
template <class Holds>
[[nodiscard]] constexpr std::int64_t largest_that(Holds holds) {
    if (!holds(std::int64_t{1})) return 0;
    std::int64_t good = 1;
    std::int64_t bad = 2;
    while (bad < largest_answer && holds(bad)) good = bad, bad *= 2;
    if (bad >= largest_answer) {
        if (holds(largest_answer)) return largest_answer;
        bad = largest_answer;
    }
    while (bad - good > 1) {
        auto const middle = good + (bad - good) / 2;
        (holds(middle) ? good : bad) = middle;
    }
    return good;
}

/// True where a contiguous placement of the model exists on the devices as they are, disks left out.
[[nodiscard]] constexpr bool fits_in_memory(Model const& model, Span<Device const> devices, EstimateRequest const& request) {
    auto budgets = budgets_for(devices, model, request);
    while (!budgets.empty() && budgets.back().id.kind == DeviceClass::disk) budgets.pop_back();
    return fits_in_order(build_sequence(model, request), budgets);
}

/// The longest context, in tokens, with which the model fits; 0 where none does.
[[nodiscard]] constexpr std::int64_t longest_context(Model const& model, Span<Device const> devices,
                                                     EstimateRequest request) {
    return largest_that([&](std::int64_t context) {
        request.context = context;
        return fits_in_memory(model, devices, request);
    });
}

/// The largest batch, in sequences, with which the model fits; 0 where none does.
[[nodiscard]] constexpr std::int64_t largest_batch(Model const& model, Span<Device const> devices, EstimateRequest request) {
    return largest_that([&](std::int64_t batch) {
        request.batch = batch;
        return fits_in_memory(model, devices, request);
    });
}

/// The fewest devices like `device` on which the model fits, at most `limit`; nothing where `limit` do not suffice.
[[nodiscard]] constexpr Optional<std::int64_t> fewest_devices(Model const& model, Device const& device,
                                                                   EstimateRequest const& request, std::int64_t limit = 1024) {
    List<Device> devices;
    for (std::int64_t count = 1; count <= limit; ++count) {
        devices.push_back(device);
        devices.back().id = DeviceId::gpu(static_cast<std::int32_t>(count - 1));
        if (fits_in_memory(model, devices, request)) return count;
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
