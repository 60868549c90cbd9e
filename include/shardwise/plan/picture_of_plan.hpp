// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/topology.hpp>
#include <shardwise/placement/max_memory.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/picture.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] inline PictureSegment segment_of(PlanStage const& stage, std::size_t number) {
    PictureSegment segment;
    segment.size = stage.layer_count + (stage.has_embedding ? 1 : 0) + (stage.has_head ? 1 : 0);
    if (stage.has_embedding) segment.text = "embedding";
    if (stage.layer_count > 0) {
        segment.brief = std::to_string(stage.first_layer);
        if (stage.layer_count > 1) segment.brief += "-" + std::to_string(stage.first_layer + stage.layer_count - 1);
        segment.text += (segment.text.empty() ? "" : ", ") + std::string(stage.layer_count > 1 ? "layers " : "layer ") +
                        segment.brief;
    }
    if (stage.has_head) segment.text += (segment.text.empty() ? "" : ", ") + std::string("head");
    segment.holder = "stage " + std::to_string(number);
    return segment;
}

[[nodiscard]] inline std::string all_degrees_text(PlanDegrees const& degrees) {
    auto text = "tp " + std::to_string(degrees.tp) + ", pp " + std::to_string(degrees.pp) + ", dp " +
                std::to_string(degrees.dp);
    if (degrees.ep > 1) text += ", ep " + std::to_string(degrees.ep);
    if (degrees.zero > 0) text += ", ZeRO " + std::to_string(degrees.zero);
    if (degrees.micro_batches > 1) text += ", " + std::to_string(degrees.micro_batches) + " micro-batches";
    return text;
}

}  // namespace detail

/// The picture of a parallel plan: every rank on its device, stages in colour, the reasons as notes. The title is the
/// caller's.
[[nodiscard]] inline Picture picture_of(ParallelPlan const& plan, Topology const& topology,
                                        double utilization = default_utilization) {
    Picture picture;
    picture.is_fitting = true;
    picture.verdict = "fits: " + detail::all_degrees_text(plan.degrees);
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        picture.segments.push_back(detail::segment_of(plan.stages[i], i));
    }
    for (auto const& given : topology.devices) {
        if (!given.id.is_accelerator()) continue;
        PictureDevice device;
        device.label = device_key(given.id);
        device.name = given.name.view();
        device.node = given.node;
        device.capacity = given.usable(utilization);
        device.link = given.link;
        device.network = given.network;
        picture.devices.push_back(std::move(device));
    }
    for (auto const& rank : plan.ranks) {
        auto& device = picture.devices[static_cast<std::size_t>(rank.device)];
        auto const& place = rank.place;
        device.terms = rank.terms;
        device.ranks =
            PictureRanks{{place.tp, place.tp}, {place.pp, place.pp}, {place.dp, place.dp}, {place.ep, place.ep}};
        device.segments = {static_cast<std::size_t>(place.pp)};
    }
    for (auto const& reason : plan.reasons) picture.notes.push_back(reason);
    for (auto const& pair : topology.links) {
        auto const& first = topology.devices[static_cast<std::size_t>(pair.first)];
        auto const& second = topology.devices[static_cast<std::size_t>(pair.second)];
        if (first.node != second.node) continue;
        picture.links.push_back({device_key(first.id), device_key(second.id), first.node, pair.link});
    }
    return picture;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
