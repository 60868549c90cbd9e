// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_sums_call.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/op/product_sums.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/multiply_sums_launch.cuh.
template <class Api>
Result<> launch_multiply_sums(MultiplySumsCall const& call, typename Api::Stream stream);

/// Puts the steps of sums into a call, which takes them where each range follows the one before, what is added is what was made last,
/// and a result ends before the next begins: as a tree's do.
///
/// Errors  unsupported
[[nodiscard]] inline Result<> set_steps(ProductSums const& sums, MultiplySumsCall& call) {
    Error refused{ErrorCode::unsupported};
    refused.in("multiply_sums").fix("use the Fast policy");
    auto const other = [&] { return refused.because("takes the steps of trees over ranges in their order"); };
    // Slots of what is not yet added.
    std::int64_t waiting[max_sum_depth] = {};
    int held = 0;
    std::int64_t result = -1;
    std::int64_t end = sums.inputs.begin;
    call.leaves = 0;
    for (auto const& step : sums.steps) {
        if (!step.is_product()) {
            if (held < 2 || step.from != waiting[held - 1] || step.to != waiting[held - 2]) return other();
            ++call.merges[call.leaves - 1];
            --held;
            continue;
        }
        if (step.inputs.begin != end || step.inputs.end > std::numeric_limits<std::int32_t>::max()) return other();
        if (step.to < sums.sums) {
            // The next result's tree: the one before is whole.
            if (step.to != result + 1 || held > 1) return other();
            if (call.leaves > 0) call.ends[call.leaves - 1] = true;
            ++result;
            held = 0;
        } else if (held == 0) {
            return other();
        }
        if (call.leaves == max_sum_leaves || held == max_sum_depth) {
            return refused.because("has more ranges than one call takes")
                .got(static_cast<std::int64_t>(sums.steps.size() / 2 + 1))
                .at_most(max_sum_leaves);
        }
        call.begins[call.leaves] = static_cast<std::int32_t>(step.inputs.begin);
        call.merges[call.leaves] = 0;
        call.ends[call.leaves] = false;
        ++call.leaves;
        end = step.inputs.end;
        waiting[held++] = step.to;
    }
    if (held > 1 || result + 1 != sums.sums || end != sums.inputs.end) return other();
    call.begins[call.leaves] = static_cast<std::int32_t>(end);
    if (call.leaves > 0) call.ends[call.leaves - 1] = true;
    return {};
}

}  // namespace detail

template <class Api>
template <class T>
Result<> DeviceBackend<Api>::multiply_sums(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           ProductSums const& sums, TensorView<float, 3, DeviceBackend> out,
                                           Stream& stream) {
    TensorView<float, 2, DeviceBackend> const first(out.data(), {out.extent(1), out.extent(2)}, out.stride(1));
    auto const checked = detail::check_device_product<Api>(in, weight, sums.inputs, first);
    if (!checked) return checked;
    if (out.extent(0) != sums.sums) {
        return Error{ErrorCode::shape_mismatch}
            .in("multiply")
            .because("the result has another number of sums than the steps")
            .got(out.extent(0))
            .expected(sums.sums);
    }
    if (out.empty()) return {};
    auto const& unit = detail::device_format(weight.format());
    detail::MultiplySumsCall call;
    call.product = {.weight = weight.view(),
                    .in = in.data(),
                    .in_row = in.stride(0),
                    .out = out.data(),
                    .out_row = out.stride(1),
                    .rows = in.extent(0),
                    .is_fixed = true,
                    .in_element = detail::row_element<T>,
                    .out_element = RowElement::f32};
    call.out_sum = out.stride(0);
    call.quant_bits = static_cast<std::int32_t>(unit.quant_bits);
    call.plane_bytes = static_cast<std::int32_t>(4 * unit.plane_bits);
    call.scale_elements = static_cast<std::int32_t>(weight.scale_elements());
    call.scale_bytes = static_cast<std::int32_t>(unit.scale_bytes);
    call.super_bytes = static_cast<std::int32_t>(unit.super_bytes);
    if (auto const steps = detail::set_steps(sums, call); !steps) return steps;
    for (int leaf = 0; leaf < call.leaves; ++leaf) {
        auto const begin = std::int64_t{call.begins[leaf]};
        if (begin % weight.grain() == 0) continue;
        return Error{ErrorCode::shape_mismatch}
            .in("multiply")
            .because("the range parts a block")
            .got(begin)
            .multiple_of(weight.grain());
    }
    stream.submit([&](typename Api::Stream native) { return detail::launch_multiply_sums<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
