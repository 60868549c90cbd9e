// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/multiply_sums_call.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/product_sums.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The steps of sums as a kernel takes them: which products there are, and pairs of them that are added, those that do not wait for
/// each other together. Every addition has the operands of its step.
class DeviceSumSteps {
public:
    /// Errors  capacity_exceeded for more products or additions than a call takes; shape_mismatch where ranges do not follow each
    ///         other, or a slot is read that has no product
    [[nodiscard]] static Result<> put(ProductSums const& sums, MultiplySumsCall& call) {
        DeviceSumSteps steps(sums, call);
        return steps.put();
    }

private:
    static constexpr auto max_products = static_cast<std::size_t>(max_sum_products);
    static constexpr std::size_t max_slots = 2 * max_products;
    static constexpr std::int32_t no_product = -1;

    DeviceSumSteps(ProductSums const& sums, MultiplySumsCall& call) : sums_(sums), call_(call) {
        held_.fill(no_product);
    }

    [[nodiscard]] static Error refused(std::string_view reason, std::int64_t got, std::int64_t expected) {
        return Error{ErrorCode::shape_mismatch}.in("multiply_sums").because(reason).got(got).expected(expected);
    }
    [[nodiscard]] static Error too_many(std::string_view reason, std::int64_t got, std::int64_t most) {
        return Error{ErrorCode::capacity_exceeded}.in("multiply_sums").because(reason).got(got).at_most(most);
    }

    [[nodiscard]] Result<> put() {
        auto const slots = sums_.sums + sums_.scratch;
        if (sums_.sums < 0 || sums_.scratch < 0 || slots > static_cast<std::int64_t>(max_slots))
            return too_many("the steps keep more slots than a device's call", slots, max_slots);
        call_.begins[0] = sums_.inputs.begin;
        for (auto const& step : sums_.steps) {
            if (step.to < 0 || step.to >= slots || (!step.is_product() && (step.from < 0 || step.from >= slots)))
                return refused("a step has a slot that is none", step.is_product() ? step.to : step.from, slots);
            auto const done = step.is_product() ? put_product(step) : put_addition(step);
            if (!done) return done;
        }
        if (call_.begins[products_] != sums_.inputs.end)
            return refused("the ranges do not make up the inputs", call_.begins[products_], sums_.inputs.end);
        for (std::int64_t sum = 0; sum < sums_.sums; ++sum) {
            auto const product = held_[static_cast<std::size_t>(sum)];
            if (product == no_product) return refused("a sum has no product", sum, sums_.sums);
            call_.results[sum] = static_cast<std::uint8_t>(product);
        }
        call_.products = static_cast<std::int32_t>(products_);
        call_.sums = static_cast<std::int32_t>(sums_.sums);
        sort_additions();
        return {};
    }
    [[nodiscard]] Result<> put_product(ProductStep const& step) {
        if (products_ == max_products)
            return too_many("there are more products than a device's call adds up",
                            static_cast<std::int64_t>(products_) + 1, max_sum_products);
        if (step.inputs.begin != call_.begins[products_])
            return refused("the ranges do not follow each other", step.inputs.begin, call_.begins[products_]);
        if (step.inputs.end < step.inputs.begin)
            return refused("a range ends before it begins", step.inputs.end, step.inputs.begin);
        held_[static_cast<std::size_t>(step.to)] = static_cast<std::int32_t>(products_);
        call_.begins[++products_] = step.inputs.end;
        return {};
    }
    [[nodiscard]] Result<> put_addition(ProductStep const& step) {
        if (additions_ == max_products)
            return too_many("there are more additions than a device's call makes",
                            static_cast<std::int64_t>(additions_) + 1, max_sum_products);
        auto const to = held_[static_cast<std::size_t>(step.to)];
        auto const from = held_[static_cast<std::size_t>(step.from)];
        if (to == no_product || from == no_product)
            return refused("a step adds a slot that has no product", step.from, sums_.sums + sums_.scratch);
        // After what made either, and before what changes either.
        auto& of_to = level_[static_cast<std::size_t>(to)];
        auto& of_from = level_[static_cast<std::size_t>(from)];
        auto const level = static_cast<std::uint8_t>(std::max(of_to, of_from) + 1);
        of_to = level;
        of_from = level;
        made_[additions_] = {static_cast<std::uint8_t>(to), static_cast<std::uint8_t>(from)};
        level_of_addition_[additions_] = level;
        ++additions_;
        return {};
    }
    void sort_additions() {
        std::size_t placed = 0;
        call_.levels = 0;
        while (placed < additions_) {
            auto const level = call_.levels + 1;
            for (std::size_t i = 0; i < additions_; ++i) {
                if (level_of_addition_[i] == level) call_.additions[placed++] = made_[i];
            }
            call_.level_ends[call_.levels++] = static_cast<std::uint8_t>(placed);
        }
    }

    ProductSums const& sums_;
    MultiplySumsCall& call_;
    std::size_t products_ = 0;
    std::size_t additions_ = 0;
    /// The product that a slot has.
    std::array<std::int32_t, max_slots> held_{};
    /// The last addition that reads or changes a product.
    std::array<std::uint8_t, max_products> level_{};
    std::array<MultiplySumsCall::Addition, max_products> made_{};
    std::array<std::uint8_t, max_products> level_of_addition_{};
};

/// How the ranges of a call lie in the weight, whose chunks have so many elements, and in the activations.
template <class T>
[[nodiscard]] SumsLayout sums_layout(MultiplySumsCall const& call, std::int64_t chunk) {
    bool const is_row_on_four = call.rows == 1 || call.in_row % 4 == 0;
    if (reinterpret_cast<std::uintptr_t>(call.in) % (4 * sizeof(T)) != 0 || !is_row_on_four) return SumsLayout::any;
    auto const are_multiples_of = [&](std::int64_t grain) {
        return std::all_of(call.begins, call.begins + call.products + 1,
                           [grain](std::int64_t begin) { return begin % grain == 0; });
    };
    if (are_multiples_of(chunk)) return SumsLayout::chunks;
    return are_multiples_of(4) ? SumsLayout::fours : SumsLayout::any;
}

}  // namespace detail

template <class Api>
template <class T>
Result<> DeviceBackend<Api>::multiply_sums(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           ProductSums const& sums, TensorView<float, 3, DeviceBackend> out,
                                           Stream& stream) {
    constexpr std::string_view subject = "multiply_sums";
    if (auto const known = check_views(subject, in, out); !known) return known;
    TensorView<float, 2, DeviceBackend> const one(out.data(), {out.extent(1), out.extent(2)}, out.stride(1));
    auto const checked = detail::check_device_product<Api>(subject, in, weight, sums.inputs, one);
    if (!checked) return checked;
    if (out.extent(0) != sums.sums) {
        return Error{ErrorCode::shape_mismatch}
            .in(subject)
            .because("the result has another number of sums than the steps")
            .got(out.extent(0))
            .expected(sums.sums);
    }
    detail::MultiplySumsCall call{.weight = weight.view(),
                                  .in = in.data(),
                                  .in_row = in.stride(0),
                                  .out = out.data(),
                                  .out_row = out.stride(1),
                                  .out_sum = out.stride(0),
                                  .rows = in.extent(0),
                                  .first_input = sums.inputs.begin,
                                  .in_element = detail::row_element<T>};
    if (auto const put = detail::DeviceSumSteps::put(sums, call); !put) return put;
    for (std::int32_t product = 0; product < call.products; ++product) {
        UnitRange const range{call.begins[product], call.begins[product + 1]};
        if (auto const whole = detail::check_device_range(subject, weight, range); !whole) return whole;
    }
    if (out.empty()) return {};
    call.layout = detail::sums_layout<T>(call, 128 / detail::device_format(weight.format()).quant_bits);
    stream.submit([&](typename Api::Stream native) { return detail::launch_multiply_sums<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
