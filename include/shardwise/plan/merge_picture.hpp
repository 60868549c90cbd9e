// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/plan/picture.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A node as it is drawn, or several that hold the same.
struct PictureNode {
    std::int32_t number = 0;
    std::string label;
    std::vector<std::int32_t> equals;
    std::vector<PictureDevice> devices;
};

/// The boxes of a picture.
struct PictureBoxes {
    std::vector<PictureNode> nodes;
    /// What was drawn once for several, or left out, in words.
    std::vector<std::string> notes;

    [[nodiscard]] std::size_t count() const {
        std::size_t devices = 0;
        for (auto const& node : nodes) devices += node.devices.size();
        return devices;
    }
};

namespace detail {

/// Pictures of up to so many devices show each of them; beyond, equal ones are drawn once.
inline constexpr std::size_t max_single_devices = 32;
/// More boxes than these fill no page that people read; the rest is summed up in one.
inline constexpr std::size_t max_boxes = 64;

/// True where the devices differ in nothing but their names and ranks.
[[nodiscard]] inline bool holds_the_same(PictureDevice const& a, PictureDevice const& b) {
    bool const has_same_stage = a.ranks.has_value() == b.ranks.has_value() && (!a.ranks || a.ranks->pp == b.ranks->pp);
    return a.name == b.name && a.capacity == b.capacity && a.terms == b.terms && a.missing == b.missing &&
           a.link == b.link && a.network == b.network && a.segments == b.segments &&
           a.is_accelerator == b.is_accelerator && has_same_stage;
}

inline void extend(PictureRange& range, PictureRange const& other) {
    range.first = std::min(range.first, other.first);
    range.last = std::max(range.last, other.last);
}

/// Lets one device stand for another one too.
inline void stand_for(PictureDevice& device, PictureDevice const& other) {
    device.count += other.count;
    if (!device.ranks || !other.ranks) return;
    extend(device.ranks->tp, other.ranks->tp);
    extend(device.ranks->dp, other.ranks->dp);
    extend(device.ranks->ep, other.ranks->ep);
}

/// Numbers with runs folded: "0-3, 8".
[[nodiscard]] inline std::string folded(std::vector<std::int32_t> const& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        auto const first = i;
        while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
        text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
        if (i > first) text += "-" + std::to_string(numbers[i]);
    }
    return text;
}

[[nodiscard]] inline std::vector<PictureNode> nodes_of(Picture const& picture) {
    std::vector<PictureNode> nodes;
    for (auto const& device : picture.devices) {
        auto place = std::find_if(nodes.begin(), nodes.end(),
                                  [&](PictureNode const& node) { return node.number == device.node; });
        if (place == nodes.end()) place = nodes.insert(nodes.end(), PictureNode{device.node, {}, {device.node}, {}});
        place->devices.push_back(device);
    }
    return nodes;
}

inline void merge_nodes(std::vector<PictureNode>& nodes) {
    std::vector<PictureNode> kept;
    for (auto& node : nodes) {
        auto const same = std::find_if(kept.begin(), kept.end(), [&](PictureNode const& other) {
            return std::equal(other.devices.begin(), other.devices.end(), node.devices.begin(), node.devices.end(),
                              holds_the_same);
        });
        if (same == kept.end()) {
            kept.push_back(std::move(node));
            continue;
        }
        same->equals.push_back(node.number);
        for (std::size_t i = 0; i < node.devices.size(); ++i) {
            stand_for(same->devices[i], node.devices[i]);
            // Its number in the first node would mislead.
            if (same->devices[i].is_accelerator) same->devices[i].label.clear();
        }
    }
    nodes = std::move(kept);
}

inline void merge_neighbours(std::vector<PictureDevice>& devices) {
    std::vector<PictureDevice> kept;
    std::string first_label;
    for (auto& device : devices) {
        if (kept.empty() || !holds_the_same(kept.back(), device)) {
            first_label = device.label;
            kept.push_back(std::move(device));
            continue;
        }
        stand_for(kept.back(), device);
        if (!first_label.empty()) kept.back().label = first_label + "-" + device.label;
    }
    devices = std::move(kept);
}

/// Replaces the boxes beyond the limit by one that counts them.
inline void leave_out_the_rest(PictureBoxes& boxes) {
    std::size_t room = max_boxes - 1;
    std::size_t kept = 0;
    PictureDevice rest;
    rest.count = 0;
    Bytes least{INT64_MAX};
    Bytes most{};
    for (auto& node : boxes.nodes) {
        auto const first_left = std::min(room, node.devices.size());
        room -= first_left;
        if (first_left > 0) ++kept;
        for (auto i = first_left; i < node.devices.size(); ++i) {
            rest.link = node.devices[i].link;
            rest.network = node.devices[i].network;
            rest.count += node.devices[i].count;
            least = std::min(least, node.devices[i].terms.total());
            most = std::max(most, node.devices[i].terms.total());
        }
        node.devices.resize(first_left);
    }
    boxes.nodes.resize(kept);
    rest.name = std::to_string(rest.count) + " more devices";
    boxes.notes.push_back(rest.name + " are not drawn; each holds " + to_text(least) +
                          (least < most ? " to " + to_text(most) : std::string()) + ".");
    rest.count = 1;
    boxes.nodes.back().devices.push_back(std::move(rest));
}

}  // namespace detail

/// What of a picture is drawn: every device of few; of many the equal nodes once, then the equal neighbours in a node once,
/// then no more than a page holds. The notes say so.
[[nodiscard]] inline PictureBoxes merge_picture(Picture const& picture) {
    PictureBoxes boxes{detail::nodes_of(picture), {}};
    auto const node_count = boxes.nodes.size();
    auto const device_count = picture.devices.size();
    if (device_count > detail::max_single_devices) {
        detail::merge_nodes(boxes.nodes);
        if (boxes.count() > detail::max_single_devices) {
            for (auto& node : boxes.nodes) detail::merge_neighbours(node.devices);
        }
        if (boxes.count() < device_count) {
            boxes.notes.push_back(std::to_string(device_count) + " devices in " + std::to_string(boxes.count()) +
                                  " boxes: those that hold the same are drawn once.");
        }
        if (boxes.count() > detail::max_boxes) detail::leave_out_the_rest(boxes);
    }
    if (node_count == 1) return boxes;
    for (auto& node : boxes.nodes) {
        node.label = node.equals.size() == 1
                         ? "node " + std::to_string(node.number)
                         : std::to_string(node.equals.size()) + " nodes: " + detail::folded(node.equals);
    }
    return boxes;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
