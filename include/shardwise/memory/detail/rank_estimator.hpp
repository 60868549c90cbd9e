// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/check_request.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/megatron_report.hpp>
#include <shardwise/memory/stage_memory.hpp>
#include <shardwise/memory/stages.hpp>

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
          micro_batch_(working_request(model, request)),
          parts_(parts),
          bodies_(parts.bodies.size()) {
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
        auto needs = hold(device, place);
        if (is_megatron())
            needs.held.parameters = MegatronReport(model_).parameters(device.layer_count, place.pp, request_.parallel);
        run_blocks(needs, device, place);
        auto const& training = request_.training;
        auto const largest = training ? largest_module(model_, request_, place) : 0;
        auto const memory = StageRule(model_, request_, largest)
                                .memory(needs, place.pp, request_.parallel.dp, training ? training->zero : 0);
        device.parameters = needs.held.parameters;
        device.terms = memory.terms;
        device.communication = memory.communication;
        device.phases = memory.phases;
        device.host = memory.host;
        return device;
    }

private:
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

    constexpr StageNeeds hold(DeviceEstimate const& device, RankPlace const& place) const {
        StageNeeds needs;
        for (auto const& part : parts_.parts) {
            auto const count = instances(part, device);
            if (count == 0) continue;
            auto const held = held_memory(model_, part, request_, place);
            needs.add({.held = held, .largest_part = held.weights}, count);
        }
        for (auto const& tie : parts_.ties) {
            if (is_copied(tie) || instances(parts_.parts[tie.other], device) == 0) continue;
            needs.held -= held_memory(tie, request_, place);
        }
        needs.layers = device.layer_count;
        return needs;
    }

    /// Calls visit(number in ModelParts::bodies, instances) for the blocks of a stage.
    template <class Visit>
    constexpr void for_each_block(DeviceEstimate const& device, Visit const& visit) const {
        parts_.for_each_block(model_.program, device.first_layer, device.first_layer + device.layer_count, visit);
    }

    constexpr BlockBody const& body_of(std::size_t id) const {
        return model_.program.bodies()[static_cast<std::size_t>(parts_.bodies[id].body)];
    }
    /// Adds what the blocks of a stage need while they run, and their cache.
    constexpr void run_blocks(StageNeeds& needs, DeviceEstimate const& device, RankPlace const& place) {
        price_bodies(place);
        for_each_block(device, [&](std::size_t id, std::int64_t count) {
            auto const& body = body_of(id);
            auto const grains = parts_.bodies[id].span();
            auto block = bodies_[id];
            block.communication = exchange_buffer(body, micro_batch_, model_.config, place, grains);
            if (!request_.training) block.kv_cache = kv_cache_bytes(body, request_, model_.config, place.tp, grains);
            needs.add(block, count);
        });
    }

    /// True where every rank's share of every value is the same.
    constexpr bool is_even() const {
        auto const& parallel = request_.parallel;
        if (parallel.ep > 1 && model_.config.experts % parallel.ep != 0) return false;
        if (parallel.sequence_parallel && largest_step(micro_batch_, model_.config).tokens() % parallel.tp != 0)
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
        for (std::size_t id = 0; id < bodies_.size(); ++id)
            bodies_[id] = working_needs(body_of(id), micro_batch_, model_.config, place, parts_.bodies[id].span());
        is_priced_ = true;
        priced_ = place;
    }

    Model const& model_;
    EstimateRequest const& request_;
    EstimateRequest micro_batch_;
    ModelParts const& parts_;
    List<std::int64_t> begins_;
    List<StageNeeds> bodies_;
    RankPlace priced_{};
    bool is_priced_ = false;
    bool is_tie_copied_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
