// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/memory/request.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What training keeps of the parameters of one rank.
struct ModelStates {
    Bytes weights{};
    Bytes gradients{};
    Bytes optimizer{};
    /// Buffers for gathering and reducing over data-parallel ranks.
    Bytes communication{};
    /// What of the above lives in host memory instead.
    Bytes host{};
};

/// What the states of one rank depend on.
struct TrainingShare {
    /// Trained elements on the rank, before data-parallel ranks share anything.
    std::int64_t parameters = 0;
    Bytes parameter_bytes{};
    Bytes buffer_bytes{};
    /// Of an adapter's base: weights without gradients and states, which ZeRO's stage 3 shares like any others.
    Bytes frozen_bytes{};
    /// Optimizer states of these parameters without the fp32 copy.
    Bytes state_bytes{};
    /// The weights of the largest layer or module: what ZeRO-3 and offloading hold whole.
    Bytes largest_part{};
    /// The elements of the module with the most parameters of its own: DeepSpeed's largest layer.
    std::int64_t largest_module = 0;
    Dtype dtype = Dtype::bf16;
    std::int64_t dp = 1;
};

/// bitsandbytes' 8-bit optimizers: blocks of 256 elements share an fp32 maximum, and small tensors stay at 32 bits.
///
/// Source  bitsandbytes 0.45 optim/optimizer.py (blocksize 256, min_8bit_size 4096)
inline constexpr std::int64_t optimizer_block = 256;
inline constexpr std::int64_t smallest_8bit_tensor = 4096;

/// The states of one tensor without an fp32 copy of it: Adam's two moments, SGD's momentum.
[[nodiscard]] constexpr std::int64_t optimizer_state_bytes(OptimizerKind optimizer, std::int64_t elements) {
    switch (optimizer) {
        case OptimizerKind::adam:
            return 8 * elements;
        case OptimizerKind::sgd:
            return 4 * elements;
        case OptimizerKind::adam8bit:
            if (elements < smallest_8bit_tensor) return 8 * elements;
            return 2 * (elements + 4 * ceil_divide(elements, optimizer_block));
    }
    return 0;
}

/// PyTorch's gradient bucket.
///
/// Source  torch.nn.parallel.DistributedDataParallel, bucket_cap_mb
inline constexpr Bytes gradient_bucket{25LL << 20U};

namespace detail {

/// Our own accounting: weights and gradients in the model's type; 16-bit models keep an fp32 copy with the optimizer. An adapter is
/// fp32 itself, whatever its base is.
[[nodiscard]] constexpr ModelStates shardwise_states(TrainingPlan const& plan, TrainingShare const& share) {
    auto const share_of_zero = [&](Bytes bytes, std::int32_t from_stage) {
        return plan.zero >= from_stage ? Bytes{ceil_divide(bytes.count(), share.dp)} : bytes;
    };
    bool const has_master = bits(share.dtype) < 32 && !plan.has_adapter;
    auto const master = has_master ? Bytes{4 * share.parameters} : Bytes{0};
    auto const all_bytes = share.parameter_bytes + share.frozen_bytes;
    auto const parameters = share_of_zero(all_bytes, 3);
    auto const gradients = share_of_zero(share.parameter_bytes, 2);
    auto const optimizer = share_of_zero(master + share.state_bytes, 1);
    ModelStates states{.weights = parameters + share.buffer_bytes, .gradients = gradients, .optimizer = optimizer};
    if (share.dp > 1) {
        states.communication = gradients < gradient_bucket ? gradients : gradient_bucket;
        // Parameters of the layer at work and of the next one, which is being gathered.
        if (plan.zero >= 3 && plan.offload != Offload::all) states.communication += 2 * share.largest_part;
    }
    if (plan.offload != Offload::none) {
        states.host += optimizer;
        states.optimizer = Bytes{0};
    }
    if (plan.offload == Offload::all) {
        states.host += parameters + gradients;
        auto const working = 2 * share.largest_part;
        states.weights = share.buffer_bytes + (working < all_bytes ? working : all_bytes);
        states.gradients = share.largest_part < share.parameter_bytes ? share.largest_part : share.parameter_bytes;
    }
    return states;
}

/// Mixed-precision training as the ZeRO paper counts it: 2 bytes of weights, 2 of gradients, K of optimizer (Adam 12).
///
/// Source  Rajbhandari et al., ZeRO, 2020, section 3.1 and table 1
[[nodiscard]] constexpr ModelStates zero_paper_states(TrainingPlan const& plan, TrainingShare const& share) {
    auto const k = [&] {
        switch (plan.optimizer) {
            case OptimizerKind::adam:
                return 12;
            case OptimizerKind::sgd:
                return 8;
            case OptimizerKind::adam8bit:
                break;
        }
        return 6;
    }();
    auto const p = share.parameters;
    // Sums are rounded, not summands, so that the total is the paper's to the byte.
    auto const part = [&](std::int64_t bytes_each) { return ceil_divide(bytes_each * p, share.dp); };
    ModelStates states{.weights = Bytes{2 * p}, .gradients = Bytes{2 * p}, .optimizer = Bytes{k * p}};
    if (plan.zero >= 1) states.optimizer = Bytes{part(k)};
    if (plan.zero >= 2) states.gradients = Bytes{part(k + 2) - part(k)};
    if (plan.zero >= 3) states.weights = Bytes{part(k + 4) - part(k + 2)};
    return states;
}

/// DeepSpeed's estimators for stages 2 and 3, one node; 18 bytes with fp32 gradients.
///
/// Source  deepspeed/runtime/zero/stage_1_and_2.py and stage3.py, estimate_zero{2,3}_model_states_mem_needs
[[nodiscard]] constexpr ModelStates deepspeed_states(TrainingPlan const& plan, TrainingShare const& share) {
    auto const p = share.parameters;
    auto const n = share.dp;
    auto const part = [&](std::int64_t bytes_each) { return bytes_each * p / n; };
    ModelStates states;
    // Additional host buffers are half of what is kept there.
    auto const host = [](std::int64_t bytes) { return Bytes{bytes * 3 / 2}; };
    if (plan.zero == 2) {
        states.weights = Bytes{2 * p};
        if (plan.offload != Offload::none) {
            states.host = host(p * (4 * n > 16 ? 4 * n : 16));
        } else {
            states.gradients = Bytes{part(6)};
            states.optimizer = Bytes{part(18) - part(6)};
            states.host = host(4 * n * p);
        }
        return states;
    }
    auto const layer = 2 * share.largest_module;
    states.weights = Bytes{layer};
    states.gradients = Bytes{layer};
    switch (plan.offload) {
        case Offload::all:
            states.host = host(18 * p);
            break;
        case Offload::optimizer:
            states.weights += Bytes{part(2)};
            states.host = host(16 * p);
            break;
        case Offload::none:
            states.weights += Bytes{part(2)};
            states.gradients += Bytes{part(6) - part(2)};
            states.optimizer = Bytes{part(18) - part(6)};
            states.host = host(4 * n * share.largest_module);
            break;
    }
    return states;
}

/// Megatron-LM's bytes per parameter; `zero` 1 is its distributed optimizer.
///
/// Source  Megatron-LM docs, distributed optimizer: theoretical memory per parameter
[[nodiscard]] constexpr ModelStates megatron_states(TrainingPlan const& plan, TrainingShare const& share) {
    auto const p = share.parameters;
    auto const d = plan.zero >= 1 ? share.dp : 1;
    bool const is_wide = share.dtype == Dtype::f32;
    bool const is_fp16 = share.dtype == Dtype::f16;
    // Weights of 16 bits have a copy of 32 beside the two moments; fp16's gradients have one, too, bf16's are fp32 already.
    std::int64_t const state = is_wide ? 8 : is_fp16 ? 16 : 12;
    return {.weights = Bytes{(is_wide ? 4 : 2) * p},
            .gradients = Bytes{(is_fp16 ? 2 : 4) * p},
            .optimizer = Bytes{ceil_divide(state * p, d)}};
}

}  // namespace detail

/// What training keeps of one rank's parameters under the plan's convention.
[[nodiscard]] constexpr ModelStates model_states(TrainingPlan const& plan, TrainingShare const& share) {
    switch (plan.convention) {
        case MemoryConvention::shardwise:
        case MemoryConvention::transformers:
            return detail::shardwise_states(plan, share);
        case MemoryConvention::zero:
            return detail::zero_paper_states(plan, share);
        case MemoryConvention::deepspeed:
            return detail::deepspeed_states(plan, share);
        case MemoryConvention::megatron:
        case MemoryConvention::megatron_paper:
            return detail::megatron_states(plan, share);
    }
    return {};
}

/// The activations that one transformer layer keeps for the backward pass, at 16 bits, as Megatron counts them: b
/// sequences of s tokens, hidden size h, a heads, t tensor-parallel ranks.
///
/// none sbh(34 + 5as/h); tensor parallel sbh(10 + 24/t + 5as/(ht)), with sequence parallelism all divided by t;
/// selective recomputation drops the 5as/h term; full keeps the input, 2sbh.
///
/// Source  Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, table 2
[[nodiscard]] constexpr Bytes megatron_activations(std::int64_t s, std::int64_t b, std::int64_t h, std::int64_t a,
                                                   std::int64_t t, bool is_sequence_parallel, Recompute recompute) {
    auto const sbh = s * b * h;
    if (recompute == Recompute::full) return Bytes{2 * sbh};
    // Scores of a context that no memory could hold saturate.
    constexpr auto limit = std::int64_t{1} << 50U;
    auto const pairs = checked_multiply(s * b, s);
    auto const kept = pairs ? checked_multiply(*pairs, 5 * a) : pairs;
    auto const scores = recompute == Recompute::selective ? 0 : kept && *kept < limit ? *kept : limit;
    if (is_sequence_parallel) return Bytes{ceil_divide(34 * sbh + scores, t)};
    return Bytes{10 * sbh + ceil_divide(24 * sbh + scores, t)};
}

/// Refuses plans that the convention has no number for, or that training cannot run.
///
/// Errors  invalid_argument, unsupported
[[nodiscard]] constexpr Result<> check_training(TrainingPlan const& plan, EstimateRequest const& request, Dtype dtype) {
    if (plan.zero < 0 || plan.zero > 3) {
        return Error{ErrorCode::invalid_argument}
            .at("zero")
            .because("is no stage of ZeRO")
            .got(plan.zero)
            .fix("stages are 0, 1, 2 and 3");
    }
    if (plan.has_adapter && plan.convention != MemoryConvention::shardwise) {
        return Error{ErrorCode::unsupported}
            .at("convention")
            .because("counts no adapters")
            .fix("use the convention shardwise");
    }
    if (is_quantised(request) || !traits(dtype).is_floating || bits(dtype) < 16) {
        return Error{ErrorCode::unsupported}
            .at("training")
            .because("packed weights are not trained")
            .fix("leave quant out, or give a dtype of 16 bits or more");
    }
    bool const is_adam = plan.optimizer == OptimizerKind::adam;
    switch (plan.convention) {
        case MemoryConvention::shardwise:
        case MemoryConvention::transformers:
            break;
        case MemoryConvention::zero:
            if (plan.offload != Offload::none) {
                return Error{ErrorCode::unsupported}
                    .at("offload")
                    .because("the ZeRO paper counts no offloading")
                    .fix("use the convention deepspeed or shardwise");
            }
            break;
        case MemoryConvention::deepspeed:
            if (plan.zero < 2) {
                return Error{ErrorCode::unsupported}
                    .at("zero")
                    .because("DeepSpeed has estimators for stages 2 and 3 only")
                    .got(plan.zero)
                    .fix("use stage 2 or 3, or the convention zero");
            }
            if (plan.zero == 2 && plan.offload == Offload::all) {
                return Error{ErrorCode::unsupported}
                    .at("offload")
                    .because("DeepSpeed offloads parameters in stage 3 only")
                    .fix("use stage 3, or offload the optimizer only");
            }
            if (!is_adam) {
                return Error{ErrorCode::unsupported}
                    .at("training")
                    .because("DeepSpeed's estimators count Adam only")
                    .fix("use adam");
            }
            break;
        case MemoryConvention::megatron:
        case MemoryConvention::megatron_paper:
            if (plan.zero > 1 || plan.offload != Offload::none) {
                return Error{ErrorCode::unsupported}
                    .at(plan.zero > 1 ? "zero" : "offload")
                    .because("Megatron's table knows the distributed optimizer (stage 1) and no offloading")
                    .fix("use stage 0 or 1 and offload none");
            }
            if (!is_adam) {
                return Error{ErrorCode::unsupported}
                    .at("training")
                    .because("Megatron's table counts Adam only")
                    .fix("use adam");
            }
            break;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
