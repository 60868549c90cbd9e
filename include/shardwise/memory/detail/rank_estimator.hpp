// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/check_request.hpp>
#include <shardwise/memory/communication.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/megatron_report.hpp>
#include <shardwise/memory/model_parts.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/memory/saved_activations.hpp>
#include <shardwise/memory/stages.hpp>
#include <shardwise/memory/training.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Estimates one rank after another of one request; stages are cut once, and bodies are priced once where ranks agree.
/// `begins` may give each stage's first layer and, last, the number of layers; empty: stages of even weight.
class RankEstimator {
public:
    constexpr RankEstimator(Model const& model, EstimateRequest const& request, ModelParts const& parts,
                            Span<std::int64_t const> begins = {})
        : model_(model),
          request_(request),
          micro_batch_(micro_batch_of(prefill_request(model, request))),
          parts_(parts),
          prefill_peaks_(parts.bodies.size()),
          decode_peaks_(prefill_peaks_.size()) {
        if (begins.empty())
            cut_stages();
        else
            begins_.assign(begins.data(), begins.data() + begins.size());
        for (auto const& tie : parts_.ties) is_tie_copied_ = is_tie_copied_ || is_copied(tie);
    }

    [[nodiscard]] constexpr bool is_tie_copied() const { return is_tie_copied_; }

    [[nodiscard]] constexpr DeviceEstimate estimate(RankPlace const& place) {
        DeviceEstimate device;
        device.place = place;
        device.first_layer = begins_[static_cast<std::size_t>(place.pp)];
        device.layer_count = begins_[static_cast<std::size_t>(place.pp) + 1] - device.first_layer;
        Held held = hold(device, place);
        if (is_megatron())
            held.parameters = MegatronReport(model_).parameters(device.layer_count, place.pp, request_.parallel);
        device.parameters = held.parameters;
        device.terms.weights = held.weights;
        bool const is_own = !request_.training || counts_everything(request_.training->convention);
        if (!request_.training) {
            run_blocks(device, place);
        } else {
            train(device, held, place);
        }
        if (is_own) device.terms.overhead += device.communication + runtime_overhead(request_.device);
        return device;
    }

private:
    /// What a rank holds of the model.
    struct Held {
        Bytes weights{};
        Bytes buffers{};
        Bytes frozen{};
        Bytes largest_part{};
        Bytes state_bytes{};
        std::int64_t parameters = 0;
        std::int64_t largest_module = 0;
    };

    constexpr std::int64_t stage_of(std::int64_t layer) const {
        for (std::size_t stage = 1; stage + 1 < begins_.size(); ++stage) {
            if (layer < begins_[stage]) return static_cast<std::int64_t>(stage) - 1;
        }
        return static_cast<std::int64_t>(begins_.size()) - 2;
    }
    constexpr bool is_copied(TiedPart const& tie) const {
        return stage_of(parts_.parts[tie.first].layer) != stage_of(parts_.parts[tie.other].layer);
    }

    constexpr bool is_megatron() const {
        return request_.training && request_.training->convention == MemoryConvention::megatron;
    }

    constexpr void cut_stages() {
        if (request_.parallel.pp == 1) {
            begins_ = {0, parts_.layers};
            return;
        }
        if (is_megatron()) {
            begins_ = MegatronReport::stages(parts_.layers, request_.parallel.pp);
            return;
        }
        auto whole = request_;
        whole.parallel = {};
        List<Bytes> layers(static_cast<std::size_t>(parts_.layers));
        for (auto const& part : parts_.parts) {
            auto const bytes = part_bytes(model_, part, whole);
            bool const is_run = part.role == ModuleRole::layer && part.position.layer >= 0;
            for (std::int64_t k = 0; k < (is_run ? part.count : 1); ++k)
                layers[static_cast<std::size_t>(part.layer + k)] += bytes;
        }
        begins_ = split_stages(layers, request_.parallel.pp);
    }

    /// Instances of a part on a stage.
    constexpr std::int64_t instances(ModelPart const& part, DeviceEstimate const& device) const {
        auto const end = device.first_layer + device.layer_count;
        if (part.role == ModuleRole::layer && part.position.layer >= 0) {
            auto const from = part.layer < device.first_layer ? device.first_layer : part.layer;
            auto const to = part.layer + part.count < end ? part.layer + part.count : end;
            return from < to ? to - from : 0;
        }
        bool const is_here = part.layer >= device.first_layer && part.layer < end;
        return is_here || parts_.layers == 0 ? 1 : 0;
    }

    constexpr Held hold(DeviceEstimate const& device, RankPlace const& place) const {
        Held held;
        auto const& parallel = request_.parallel;
        auto const add = [&](std::int64_t& to, std::int64_t count, ModelPart const& part, auto const& measure) {
            auto const sum = sum_part(model_, part, parallel, place, measure);
            to += count * sum;
            return sum;
        };
        auto const elements = [&](Tensor const& tensor, LayerPosition const& at) {
            return is_trained(tensor, request_) ? shard_of(tensor, parallel, place, at.grain).elements()
                                                : std::int64_t{0};
        };
        auto const buffers = [&](Tensor const& tensor, LayerPosition const& at) {
            return tensor.is_parameter() ? std::int64_t{0} : shard_bytes(tensor, at, request_, place).count();
        };
        auto const states = [&](Tensor const& tensor, LayerPosition const&) {
            if (!is_trained(tensor, request_)) return std::int64_t{0};
            return optimizer_state_bytes(request_.training->optimizer, shard_of(tensor, parallel, place).elements());
        };
        auto const frozen = [&](Tensor const& tensor, LayerPosition const& at) {
            return is_frozen(tensor, request_) ? shard_bytes(tensor, at, request_, place).count() : std::int64_t{0};
        };
        std::int64_t buffer_bytes = 0;
        std::int64_t frozen_bytes = 0;
        std::int64_t state_bytes = 0;
        for (auto const& part : parts_.parts) {
            auto const count = instances(part, device);
            if (count == 0) continue;
            auto const bytes = part_bytes(model_, part, request_, place);
            held.weights += count * bytes;
            if (held.largest_part < bytes) held.largest_part = bytes;
            (void)add(held.parameters, count, part, elements);
            if (!request_.training) continue;
            (void)add(buffer_bytes, count, part, buffers);
            if (trains_adapter(request_)) (void)add(frozen_bytes, count, part, frozen);
            (void)add(state_bytes, count, part, states);
        }
        for (auto const& tie : parts_.ties) {
            if (is_copied(tie) || instances(parts_.parts[tie.other], device) == 0) continue;
            held.weights -= shard_bytes(tie.tensor, tie.position, request_, place);
            held.parameters -= elements(tie.tensor, tie.position);
            if (request_.training) state_bytes -= states(tie.tensor, tie.position);
            frozen_bytes -= frozen(tie.tensor, tie.position);
        }
        held.buffers = Bytes{buffer_bytes};
        held.frozen = Bytes{frozen_bytes};
        held.state_bytes = Bytes{state_bytes};
        if (request_.training) {
            for (auto const& module : model_.tree.modules()) {
                std::int64_t own = 0;
                for (std::uint32_t i = 0; i < module.tensor_count; ++i)
                    own += elements(model_.tree.tensor(module, i), {});
                if (held.largest_module < own) held.largest_module = own;
            }
        }
        return held;
    }

    /// Calls visit(number in ModelParts::bodies, instances) for the blocks of a stage.
    template <class Visit>
    constexpr void for_each_block(DeviceEstimate const& device, Visit const& visit) const {
        parts_.for_each_block(model_.program, device.first_layer, device.first_layer + device.layer_count, visit);
    }

    constexpr BlockBody const& body_of(std::size_t id) const {
        return model_.program.bodies()[static_cast<std::size_t>(parts_.bodies[id].body)];
    }
    constexpr OpContext context_of_body(std::size_t id, Step const& step, RankPlace const& place) const {
        return op_context(body_of(id), step, op_rank(request_.parallel, place), parts_.bodies[id].span());
    }

    /// What the blocks of a stage need in inference: cache, activations, buffers.
    constexpr void run_blocks(DeviceEstimate& device, RankPlace const& place) {
        auto const prefill = largest_step_of(Phase::prefill, micro_batch_, model_.config);
        price_bodies(place);
        for_each_block(device, [&](std::size_t id, std::int64_t count) {
            auto const& body = body_of(id);
            device.terms.kv_cache +=
                count * kv_cache_bytes(body, request_, model_.config, place.tp, parts_.bodies[id].span());
            if (device.phases.prefill < prefill_peaks_[id]) device.phases.prefill = prefill_peaks_[id];
            if (device.phases.decode < decode_peaks_[id]) device.phases.decode = decode_peaks_[id];
            auto const buffer = communication_buffer(body, context_of_body(id, prefill, place));
            if (device.communication < buffer) device.communication = buffer;
        });
        device.terms.activations = device.phases.peak();
        device.communication += message_buffer(prefill, place);
    }

    /// A pipeline stage receives the next micro-batch's hidden state while it computes.
    constexpr Bytes message_buffer(Step const& step, RankPlace const& place) const {
        if (request_.parallel.pp == 1 || place.pp == 0) return Bytes{0};
        return Bytes{step.tokens() * model_.config.hidden_size * bits(step.dtype) / 8};
    }

    /// True where every rank's share of every value is the same.
    constexpr bool is_even() const {
        auto const& parallel = request_.parallel;
        if (parallel.ep > 1 && model_.config.experts % parallel.ep != 0) return false;
        if (parallel.sequence_parallel &&
            largest_step_of(Phase::prefill, micro_batch_, model_.config).tokens() % parallel.tp != 0)
            return false;
        for (std::size_t id = 0; id < parts_.bodies.size(); ++id) {
            auto const& values = body_of(id).values();
            auto const& grains = parts_.bodies[id].grains;
            for (std::size_t value = 0; value < values.size(); ++value) {
                if (values[value].spread != Spread::sharded) continue;
                auto const& split = values[value].split;
                bool const has_even_heads = !split.has_kv_heads() || split.heads % parallel.tp == 0;
                if (split.count % parallel.tp != 0 || !has_even_heads) return false;
                if (!grains.empty() && !is_even(split, grains[value])) return false;
            }
        }
        return true;
    }
    constexpr bool is_even(UnitSplit const& split, UnitGrain grain) const {
        auto const tp = request_.parallel.tp;
        for (std::int64_t rank = 1; rank < tp; ++rank) {
            if (split.units_of(tp, rank, grain) != split.units_of(tp, 0, grain)) return false;
        }
        return true;
    }

    constexpr void price_bodies(RankPlace const& place) {
        // A stage differs in its layers, not in what a layer takes.
        if (is_priced_ && ((priced_.tp == place.tp && priced_.ep == place.ep) || is_even())) return;
        for (std::size_t id = 0; id < prefill_peaks_.size(); ++id) {
            auto const peaks =
                activation_peaks(body_of(id), micro_batch_, model_.config, place, parts_.bodies[id].span());
            prefill_peaks_[id] = peaks.prefill;
            decode_peaks_[id] = peaks.decode;
        }
        is_priced_ = true;
        priced_ = place;
    }

    constexpr void train(DeviceEstimate& device, Held const& held, RankPlace const& place) const {
        auto const& plan = *request_.training;
        TrainingShare const share{.parameters = held.parameters,
                                  .parameter_bytes = held.weights - held.buffers - held.frozen,
                                  .buffer_bytes = held.buffers,
                                  .frozen_bytes = held.frozen,
                                  .state_bytes = held.state_bytes,
                                  .largest_part = held.largest_part,
                                  .largest_module = held.largest_module,
                                  .dtype = request_.dtype.value_or(model_.config.dtype_or(Dtype::f32)),
                                  .dp = request_.parallel.dp};
        auto const states = model_states(plan, share);
        device.terms.weights = states.weights;
        device.terms.gradients = states.gradients;
        device.terms.optimizer = states.optimizer;
        device.communication = states.communication;
        device.host = states.host;
        // One forward, one backward: stage r of p has p - r micro-batches in flight.
        auto const stages_behind = request_.parallel.pp - place.pp;
        bool const is_short = request_.micro_batches > 0 && request_.micro_batches < stages_behind;
        auto const in_flight = is_short ? request_.micro_batches : stages_behind;
        if (plan.convention == MemoryConvention::megatron) {
            device.terms.activations = MegatronReport(model_).activations(
                context_of(request_, model_.config), micro_batch_.batch, device.layer_count, place.pp, in_flight,
                request_.parallel, plan.recompute);
        } else if (plan.convention == MemoryConvention::megatron_paper) {
            auto const each = megatron_activations(context_of(request_, model_.config), micro_batch_.batch,
                                                   model_.config.hidden_size, model_.config.heads, request_.parallel.tp,
                                                   request_.parallel.sequence_parallel, plan.recompute);
            device.terms.activations = device.layer_count * in_flight * each;
        } else if (counts_everything(plan.convention)) {
            keep_activations(device, plan, place, in_flight);
        }
        device.phases = {device.terms.activations, device.terms.activations};
    }

    constexpr void keep_activations(DeviceEstimate& device, TrainingPlan const& plan, RankPlace const& place,
                                    std::int64_t in_flight) const {
        auto const step = training_step(micro_batch_, model_.config);
        Bytes working{0};
        Bytes buffers{0};
        for_each_block(device, [&](std::size_t id, std::int64_t count) {
            auto const& body = body_of(id);
            auto const context = context_of_body(id, step, place);
            device.terms.activations += count * in_flight * saved_activations(body, context, plan);
            auto need = plan_activations(body, context).layout.peak;
            need += remade_activations(body, context, plan);
            if (working < need) working = need;
            auto const buffer = communication_buffer(body, context);
            if (buffers < buffer) buffers = buffer;
        });
        device.terms.activations += working;
        device.communication += buffers + message_buffer(step, place);
    }

    Model const& model_;
    EstimateRequest const& request_;
    EstimateRequest micro_batch_;
    ModelParts const& parts_;
    List<std::int64_t> begins_;
    List<Bytes> prefill_peaks_;
    List<Bytes> decode_peaks_;
    RankPlace priced_{};
    bool is_priced_ = false;
    bool is_tie_copied_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
