// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/active_parameters.hpp>
#include <shardwise/memory/check_model_request.hpp>
#include <shardwise/memory/detail/rank_estimator.hpp>
#include <shardwise/memory/part_grains.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What the numbers of an estimate rest on.
constexpr void note_assumptions(Model const& model, EstimateRequest const& request, MemoryEstimate& estimate,
                                bool is_tie_copied) {
    auto const note = [&](bool applies, Assumption assumption) {
        if (applies) estimate.assumptions.insert(assumption);
    };
    auto const& config = model.config;
    auto const& parallel = request.parallel;
    bool const is_own = !request.training || counts_everything(request.training->convention);
    bool const is_megatron = request.training && request.training->convention == MemoryConvention::megatron;
    bool const is_paper = request.training && request.training->convention == MemoryConvention::megatron_paper;
    note(request.context == 0, Assumption::context_not_given);
    note(config.max_positions > 0 && estimate.context > config.max_positions, Assumption::context_beyond_model);
    note(model.program.blocks().empty(), Assumption::unknown_program);
    note(is_own && request.device == DeviceClass::gpu, Assumption::runtime_overhead);
    note(estimate.transient_buffers.count() > 0, Assumption::transient_buffers);
    bool const is_chunked = prefill_request(model, request).prefill_chunk > 0;
    note(!request.training && is_chunked, Assumption::chunked_prefill);
    note(!request.training && !is_chunked, Assumption::whole_prefill);
    note(is_own && parallel.ep > 1, Assumption::worst_case_routing);
    note(parallel.ep > 1, Assumption::replicated_over_expert_ranks);
    note(is_tie_copied, Assumption::tied_tensor_copied);
    note(parallel.tp > 1 && config.heads % parallel.tp != 0, Assumption::uneven_tensor_split);
    note(parallel.tp > 1 && request.quant.has_value(), Assumption::packed_shares);
    note(parallel.dp > 1, Assumption::batch_per_replica);
    if (!request.training) return;
    auto const& plan = *request.training;
    auto const dtype = request.dtype.value_or(config.dtype_or(Dtype::f32));
    note(bits(dtype) < 32 && !plan.has_adapter, Assumption::mixed_precision_copy);
    note(plan.optimizer == OptimizerKind::sgd, Assumption::momentum);
    note(parallel.pp > 1 && (is_own || is_megatron || is_paper), Assumption::full_pipeline);
    note(plan.convention == MemoryConvention::zero || plan.convention == MemoryConvention::deepspeed,
         Assumption::model_states_only);
    if (is_own && plan.recompute != Recompute::full) {
        bool const is_eager = plan.attention == AttentionKind::eager;
        note(plan.recompute == Recompute::selective, Assumption::attention_again);
        note(plan.recompute == Recompute::none && is_eager, Assumption::eager_attention);
        note(plan.recompute == Recompute::none && !is_eager, Assumption::blocked_attention);
        bool const has_copies = plan.convention == MemoryConvention::transformers;
        note(true, has_copies ? Assumption::fp32_norms : Assumption::saved_by_operators);
    }
    note(is_megatron, Assumption::megatron_report);
    note(is_paper, Assumption::megatron_formula);
    note(plan.convention == MemoryConvention::deepspeed, Assumption::one_node);
    note(is_own && (plan.zero >= 3 || plan.offload == Offload::all), Assumption::working_layer);
}

/// True for no bounds, and for those of `stages` stages that cover all layers, none of them empty.
[[nodiscard]] constexpr bool are_stages(Span<std::int64_t const> begins, std::int64_t stages, std::int64_t layers) {
    if (begins.empty()) return true;
    if (begins.size() != static_cast<std::size_t>(stages) + 1 || begins.front() != 0 || begins.back() != layers)
        return false;
    for (std::size_t i = 1; i < begins.size() && stages > 1; ++i) {
        if (begins[i] <= begins[i - 1]) return false;
    }
    return true;
}

/// What training keeps of one part that is `held`, on one rank without offloading.
[[nodiscard]] constexpr ModelStates part_states(Model const& model, EstimateRequest const& whole,
                                                HeldMemory const& held) {
    auto plan = *whole.training;
    plan.offload = Offload::none;
    return model_states(plan, training_share(held, whole, model.config, 1));
}

/// What one block's activations take in a request without parallelism.
[[nodiscard]] constexpr Bytes block_activations(Model const& model, BlockBody const& body, ModuleRole role,
                                                EstimateRequest const& whole, bool is_sequence_parallel) {
    if (!whole.training) return activation_peak(body, whole, model.config);
    auto const& plan = *whole.training;
    if (counts_everything(plan.convention)) {
        return saved_activations(body, op_context(body, training_step(whole, model.config)), plan);
    }
    if (role != ModuleRole::layer) return Bytes{0};
    if (plan.convention == MemoryConvention::megatron) {
        // One layer of an inner stage: nothing but the layer.
        return MegatronReport(model).activations(context_of(whole, model.config), whole.batch, 1, 1, 1,
                                                 {.pp = 3, .sequence_parallel = is_sequence_parallel}, plan.recompute);
    }
    if (plan.convention != MemoryConvention::megatron_paper) return Bytes{0};
    return megatron_activations(context_of(whole, model.config), whole.batch, model.config.hidden_size,
                                model.config.heads, 1, false, plan.recompute);
}

/// What each part takes by itself, without parallelism.
constexpr void list_modules(Model const& model, EstimateRequest const& request, ModelParts const& parts,
                            MemoryEstimate& estimate) {
    auto whole = prefill_request(model, request);
    whole.parallel = {};
    List<Bytes> activations(model.program.bodies().size(), Bytes{-1});
    for (std::size_t i = 0; i < parts.parts.size(); ++i) {
        auto const& part = parts.parts[i];
        ModuleEstimate module;
        module.path = part.path;
        module.role = part.role;
        module.is_numbered = part.is_numbered;
        module.first = part.first;
        module.count = part.count;
        auto held = held_memory(model, part, whole, {});
        for (auto const& tie : parts.ties) {
            if (tie.other == i) held -= held_memory(tie, whole, {});
        }
        module.weights = held.weights;
        if (request.training) {
            auto const states = part_states(model, whole, held);
            module.weights = states.weights;
            module.gradients = states.gradients;
            module.optimizer = states.optimizer;
        }
        if (part.body >= 0) {
            auto const& body = model.program.bodies()[static_cast<std::size_t>(part.body)];
            if (!request.training) module.kv_cache = kv_cache_bytes(body, whole, model.config);
            auto& known = activations[static_cast<std::size_t>(part.body)];
            if (known < Bytes{0})
                known = block_activations(model, body, part.role, whole, request.parallel.sequence_parallel);
            module.activations = known;
        }
        estimate.modules.push_back(module);
    }
}

}  // namespace detail

/// What a model takes: weights, cache, activations, training states, per rank and per part.
///
/// Weights are as published where the request names no dtype and no packing. The sums go over all ranks; a shard that every rank holds counts on each. Weights are parameters and the buffers
/// that checkpoints store, a tied tensor once.
///
/// `stage_begins` may give each pipeline stage's first layer and, last, the number of layers; empty: stages of even weight.
///
/// Errors   as check_request and check_sizes; invalid_argument for stages that are not so many consecutive runs of layers
/// Example  estimate_memory(*describe(presets::llama_3_8b), {.context = 8192})->total
[[nodiscard]] constexpr Result<MemoryEstimate> estimate_memory(Model const& model, EstimateRequest const& asked = {},
                                                               Span<std::int64_t const> stage_begins = {}) {
    auto const request = as_published(asked, model.config);
    auto parts = find_parts(model, depends_on_layer(request));
    if (auto const checked = check_request(model, request, parts.layers); !checked) return checked.error();
    if (!detail::are_stages(stage_begins, request.parallel.pp, parts.layers)) {
        return Error{ErrorCode::invalid_argument}
            .at("stages")
            .because("are not one run of consecutive layers after another, one for each pipeline rank")
            .fix("give each stage's first layer in order, and then the number of layers");
    }
    if (request.training && request.training->convention == MemoryConvention::megatron) {
        if (auto const checked = MegatronReport(model).check(request.parallel); !checked) return checked.error();
    }
    if (request.parallel.tp > 1) find_grains(parts, model, request);
    MemoryEstimate estimate;
    estimate.context = context_of(request, model.config);
    estimate.parameters = count_parameters(model.tree);
    estimate.active_parameters = count_active_parameters(model.tree, model.config);
    estimate.kv_bytes_per_token = kv_bytes_per_token(model, request);
    estimate.transient_buffers = Bytes{sum_tensors(model.tree, [](Tensor const& tensor) {
        return tensor.kind == TensorKind::transient_buffer ? tensor.bytes().count() : std::int64_t{0};
    })};
    detail::list_modules(model, request, parts, estimate);

    detail::RankEstimator ranks(model, request, parts, stage_begins);
    auto const& parallel = request.parallel;
    bool const is_deepspeed = request.training && request.training->convention == MemoryConvention::deepspeed;
    for (std::int64_t pp = 0; pp < parallel.pp; ++pp) {
        auto const first = estimate.devices.size();
        for (std::int64_t ep = 0; ep < parallel.ep; ++ep) {
            for (std::int64_t tp = 0; tp < parallel.tp; ++tp) {
                estimate.devices.push_back(ranks.estimate({.tp = tp, .pp = pp, .ep = ep}));
            }
        }
        auto const one_replica = estimate.devices.size() - first;
        for (std::int64_t dp = 1; dp < parallel.dp; ++dp) {
            for (std::size_t i = 0; i < one_replica; ++i) {
                auto device = estimate.devices[first + i];
                device.place.dp = dp;
                // DeepSpeed's host memory is that of the node, stated once.
                if (is_deepspeed) device.host = Bytes{0};
                estimate.devices.push_back(device);
            }
        }
    }
    auto const most = Bytes{INT64_MAX / parallel.ranks()};
    for (auto const& device : estimate.devices) {
        if (most < device.total() || most < device.host) {
            return Error{ErrorCode::size_overflow}
                .because("all ranks together take more than can be counted")
                .fix("lower batch, context or the number of ranks");
        }
        estimate.terms += device.terms;
        estimate.host += device.host;
    }
    estimate.total = estimate.terms.total();
    detail::note_assumptions(model, request, estimate, ranks.is_tie_copied());
    return estimate;
}

/// The estimator of one architecture: a policy's face, whose answers may be constant expressions.
///
/// Example  static_assert(MemoryEstimator<Llama>::estimate(config)->total < 80_GiB)
template <ModelArchitecture Arch>
struct MemoryEstimator {
    static constexpr std::string_view name = Arch::name;

    /// Errors  what Arch::complete refuses; as check_request and check_sizes
    [[nodiscard]] static constexpr Result<MemoryEstimate> estimate(ModelConfig const& config,
                                                                   EstimateRequest const& request = {}) {
        auto const model = describe<Arch>(config);
        if (!model) return model.error();
        return estimate_memory(*model, request);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
