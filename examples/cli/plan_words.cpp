// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/cost_model.hpp>
#include <shardwise/placement/max_memory.hpp>

#include "plan_answer.hpp"
#include "text.hpp"

#include <cstddef>

namespace shardwise::cli {

namespace {

[[nodiscard]] bool is_alike(Device const& a, Device const& b) {
    return a.name.view() == b.name.view() && a.memory == b.memory;
}

/// "8xH100-80GB+cpu" for the devices [first, last).
[[nodiscard]] std::string describe_run(List<Device> const& devices, std::size_t first, std::size_t last) {
    std::string text;
    while (first < last) {
        auto end = first + 1;
        while (end < last && is_alike(devices[end], devices[first])) ++end;
        auto const name = escaped(devices[first].name.view());
        if (!text.empty()) text += "+";
        text += devices[first].id.is_accelerator() ? std::to_string(end - first) + "x" + name : name;
        first = end;
    }
    return text;
}

/// Where the node that begins at `first` ends.
[[nodiscard]] std::size_t end_of_node(List<Device> const& devices, std::size_t first) {
    auto end = first + 1;
    while (end < devices.size() && devices[end].node == devices[first].node &&
           devices[end].id.is_accelerator() == devices[first].id.is_accelerator()) {
        ++end;
    }
    return end;
}

}  // namespace

std::string describe_devices(Topology const& topology) {
    auto const& devices = topology.devices;
    std::string text;
    for (std::size_t first = 0; first < devices.size();) {
        auto const end = end_of_node(devices, first);
        auto const node = describe_run(devices, first, end);
        auto after = end;
        std::size_t nodes = 1;
        while (after < devices.size() && devices[after].id.is_accelerator()) {
            auto const next = end_of_node(devices, after);
            if (describe_run(devices, after, next) != node) break;
            after = next;
            ++nodes;
        }
        if (!text.empty()) text += "+";
        text += nodes > 1 ? std::to_string(nodes) + "x(" + node + ")" : node;
        first = after;
    }
    return text.empty() ? "no device" : text;
}

StepWords step_words(PlanAnswer const& answer) {
    switch (step_pass(answer.loaded.model, answer.request.estimate)) {
        case Pass::training:
            return {"one update", "an update", "trained"};
        case Pass::decode:
            return {"one token", "a token", "decoded"};
        case Pass::prefill:
            return {"one pass", "a pass", "read"};
    }
    return {};
}

std::string describe_stage(PlanStage const& stage) {
    std::string text;
    auto const add = [&text](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
    if (stage.has_embedding) add("embedding");
    auto const last = stage.first_layer + stage.layer_count - 1;
    if (stage.layer_count == 1) add("layer " + std::to_string(last));
    if (stage.layer_count > 1) add("layers " + std::to_string(stage.first_layer) + "-" + std::to_string(last));
    if (stage.has_head) add("head");
    return text.empty() ? "nothing" : text;
}

std::string describe_degrees(PlanDegrees const& degrees) {
    std::string text;
    auto const add = [&text](std::string_view name, std::int64_t degree, std::int64_t least = 2) {
        if (degree >= least) text += (text.empty() ? "" : ", ") + std::string(name) + " " + grouped(degree);
    };
    add("tp", degrees.tp);
    add("pp", degrees.pp);
    add("dp", degrees.dp);
    add("ep", degrees.ep);
    if (text.empty()) text = "one device";
    add("zero", degrees.zero, 1);
    add("micro-batches", degrees.micro_batches);
    return text;
}

}  // namespace shardwise::cli
