// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/legal_degrees.hpp>
#include <shardwise/plan/plan_words.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What bounds the degrees of a job, beside its request.
struct PinBounds {
    ModelConfig const& config;
    std::int64_t layers = 1;
    std::int64_t devices = 1;
    /// Why there is no tensor parallelism on the devices; empty where there may be.
    std::string_view tensor_refusal;
};

namespace detail {

/// "legal is 1", "legal are 1 to 8", "legal are 1, 2, 4, 8".
[[nodiscard]] inline std::string legal_text(List<std::int64_t> const& legal) {
    if (legal.size() == 1) return "legal is " + std::to_string(legal[0]);
    auto const last = legal[legal.size() - 1];
    if (last - legal[0] + 1 == static_cast<std::int64_t>(legal.size()))
        return "legal are " + std::to_string(legal[0]) + " to " + std::to_string(last);
    constexpr std::size_t most = 24;
    std::string text = "legal are ";
    for (std::size_t i = 0; i < legal.size(); ++i) {
        if (legal.size() > most && i == most - 1) text += "..., " + std::to_string(last);
        if (legal.size() > most && i >= most - 1) break;
        text += std::to_string(legal[i]) + (i + 1 < legal.size() ? ", " : "");
    }
    return text;
}
[[nodiscard]] inline std::string legal_text(std::int64_t most) {
    return most == 1 ? "legal is 1" : "legal are 1 to " + std::to_string(most);
}

/// A bound of a pin and what it comes from.
struct PinBound {
    std::int64_t most = 0;
    std::string_view because;
};

/// Refuses a pin below 1 or beyond the lower of two bounds.
[[nodiscard]] inline Result<> check_pin(std::string_view name, Optional<std::int64_t> const& pin, PinBound const& one,
                                        PinBound const& other) {
    if (!pin) return {};
    auto const& bound = other.most < one.most ? other : one;
    auto const most = bound.most < 1 ? 1 : bound.most;
    if (*pin >= 1 && *pin <= most) return {};
    Error error{ErrorCode::invalid_argument};
    error.at(name).got(*pin).fix(legal_text(most));
    return *pin < 1 ? error.because("must be at least 1").at_least(1) : error.because(bound.because).at_most(most);
}

/// Refuses a pin that is not among the legal degrees.
[[nodiscard]] inline Result<> check_pin(std::string_view name, Optional<std::int64_t> const& pin,
                                        List<std::int64_t> const& legal, std::string_view because) {
    if (!pin) return {};
    for (auto const degree : legal) {
        if (degree == *pin) return {};
    }
    return Error{ErrorCode::invalid_argument}.at(name).because(because).got(*pin).fix(legal_text(legal));
}

/// Refuses pins that ask for more ranks together than there are devices.
[[nodiscard]] inline Result<> check_pinned_ranks(PlanPins const& pins, std::int64_t devices) {
    std::string names;
    std::int64_t ranks = 1;
    auto const add = [&](std::string_view name, Optional<std::int64_t> const& pin) {
        if (!pin || *pin == 1) return;
        names += (names.empty() ? "" : ", ") + std::string(name);
        ranks = checked_multiply(ranks, *pin).value_or(INT64_MAX);
    };
    add("tp", pins.tp);
    add("pp", pins.pp);
    add("dp", pins.dp);
    add("ep", pins.ep);
    if (ranks <= devices) return {};
    return Error{ErrorCode::invalid_argument}
        .at(names)
        .because("ask for more ranks together than there are devices")
        .got(ranks)
        .at_most(devices)
        .fix("lower one of them: legal is a product of at most " + std::to_string(devices));
}

}  // namespace detail

/// Refuses pins that no cut of a job could have, and says which are legal.
///
/// Errors  invalid_argument, naming the pin
[[nodiscard]] inline Result<> check_pins(PlanRequest const& request, PinBounds const& given) {
    auto const& pins = request.pins;
    auto const& config = given.config;
    auto const batch = request.estimate.batch;
    detail::PinBound const devices{given.devices, "is more than there are devices"};
    bool const has_tensor = given.tensor_refusal.empty();
    if (config.experts < 1 && pins.ep && *pins.ep > 1) {
        return Error{ErrorCode::invalid_argument}
            .at("ep")
            .because("shards experts, and the model has none")
            .got(*pins.ep)
            .at_most(1)
            .fix("legal is 1; tp shards dense layers");
    }
    for (auto const& checked :
         {detail::check_pin("tp", pins.tp,
                            {has_tensor ? config.heads : 1,
                             has_tensor ? "is more than the model has query heads" : given.tensor_refusal},
                            devices),
          detail::check_pin("pp", pins.pp, {given.layers, "is more than the model has layers"}, devices),
          detail::check_pin("dp", pins.dp, {batch, "is more replicas than the batch has sequences"}, devices),
          detail::check_pin("ep", pins.ep, {config.experts, "is more than the model has experts"}, devices)}) {
        if (!checked) return checked;
    }
    auto most = degree_limits(config, given.layers, batch, given.devices);
    if (!has_tensor) most.tp = 1;
    PlanRequest own{.estimate = request.estimate, .is_even = request.is_even};
    DegreeChoices const legal(config, most, own);
    for (auto const& checked :
         {detail::check_pin("tp", pins.tp, legal.tp,
                            "is not even: it does not divide the model's query heads and key-value heads"),
          detail::check_pin("ep", pins.ep, legal.ep,
                            request.is_even ? "is not even: it does not divide the model's experts"
                                            : "leaves the fullest rank as many experts as a lower degree"),
          detail::check_pinned_ranks(pins, given.devices),
          detail::check_pin("micro_batches", pins.micro_batches,
                            {ceil_divide(batch, pins.dp.value_or(1) * pins.ep.value_or(1)),
                             "is more micro-batches than a rank has sequences"},
                            {INT64_MAX, {}})}) {
        if (!checked) return checked;
    }
    if (!pins.zero) return {};
    std::int64_t const stages = request.estimate.training ? 3 : 0;
    if (*pins.zero >= 0 && *pins.zero <= stages) return {};
    return Error{ErrorCode::invalid_argument}
        .at("zero")
        .because(stages > 0 ? "is no stage of ZeRO" : "shards what training keeps, and nothing is trained")
        .got(*pins.zero)
        .between(0, stages)
        .fix(stages > 0 ? "legal are 0 to 3" : "legal is 0");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
