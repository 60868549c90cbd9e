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

namespace detail {

/// True where a contiguous placement of the model exists on the devices as they are, disks left out, for a request that is legal.
[[nodiscard]] constexpr bool is_held_in_memory(Model const& model, Span<Device const> devices,
                                               EstimateRequest const& request) {
    auto budgets = budgets_for(devices, model, request);
    while (!budgets.empty() && budgets.back().id.kind == DeviceClass::disk) budgets.pop_back();
    return fits_in_order(build_sequence(model, request), budgets);
}

/// True for a batch and a context of which sizes can be computed: where larger ones are tried, this is where they end.
[[nodiscard]] constexpr bool is_within_sizes(Model const& model, EstimateRequest const& request) {
    auto const tokens = checked_multiply(request.batch, context_of(request, model.config));
    return tokens && *tokens <= max_tokens && check_sizes(model, request);
}

}  // namespace detail

/// True where a contiguous placement of the model exists on the devices as they are, disks left out.
///
/// Errors  as check_request
[[nodiscard]] constexpr Result<bool> fits_in_memory(Model const& model, Span<Device const> devices,
                                                    EstimateRequest const& request) {
    if (auto const checked = check_request(model, request); !checked) return checked.error();
    return detail::is_held_in_memory(model, devices, request);
}

/// The longest context, in tokens, with which the model fits; 0 where none does.
///
/// Errors  as check_request
[[nodiscard]] constexpr Result<std::int64_t> longest_context(Model const& model, Span<Device const> devices,
                                                             EstimateRequest request) {
    if (auto const checked = check_request(model, request); !checked) return checked.error();
    return largest_that([&](std::int64_t context) {
        request.context = context;
        return detail::is_within_sizes(model, request) && detail::is_held_in_memory(model, devices, request);
    });
}

/// The largest batch, in sequences, with which the model fits; 0 where none does.
///
/// Errors  as check_request
[[nodiscard]] constexpr Result<std::int64_t> largest_batch(Model const& model, Span<Device const> devices,
                                                           EstimateRequest request) {
    if (auto const checked = check_request(model, request); !checked) return checked.error();
    return largest_that([&](std::int64_t batch) {
        request.batch = batch;
        return detail::is_within_sizes(model, request) && detail::is_held_in_memory(model, devices, request);
    });
}

/// The fewest devices like `device` on which the model fits, at most `limit`; nothing where `limit` do not suffice.
///
/// Errors  as check_request; invalid_argument for a limit below 1 or beyond max_ranks
[[nodiscard]] constexpr Result<Optional<std::int64_t>> fewest_devices(Model const& model, Device const& device,
                                                                      EstimateRequest const& request,
                                                                      std::int64_t limit = 1024) {
    if (auto const checked = check_request(model, request); !checked) return checked.error();
    if (limit < 1 || limit > max_ranks) {
        return Error{ErrorCode::invalid_argument}.at("limit").because("must be 1 to the most ranks of a run").got(limit)
            .between(1, max_ranks);
    }
    List<Device> devices;
    for (std::int64_t count = 1; count <= limit; ++count) {
        devices.push_back(device);
        devices.back().id = DeviceId::gpu(static_cast<std::int32_t>(count - 1));
        if (detail::is_held_in_memory(model, devices, request)) return Optional{count};
    }
    return Optional<std::int64_t>{};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
