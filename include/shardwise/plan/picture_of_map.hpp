// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/topology.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/max_memory.hpp>
#include <shardwise/plan/picture.hpp>

#include <charconv>
#include <span>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A prefix of a device map taken apart at its last number: "model.layers.19" is "layers" and 19.
struct NumberedPrefix {
    std::string_view list;
    std::int64_t number = -1;
};

[[nodiscard]] inline NumberedPrefix numbered_prefix(std::string_view prefix) {
    for (std::string_view const root : {"model.", "transformer."}) {
        if (prefix.size() > root.size() && prefix.substr(0, root.size()) == root) prefix.remove_prefix(root.size());
    }
    auto const dot = prefix.rfind('.');
    auto const digits = dot == std::string_view::npos ? std::string_view{} : prefix.substr(dot + 1);
    std::int64_t number = -1;
    auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    bool const is_number = !digits.empty() && problem == std::errc{} && end == digits.data() + digits.size();
    if (!is_number || number < 0) return {prefix, -1};
    return {prefix.substr(0, dot), number};
}

/// Writes a run of entries: "embed_tokens, layers 0-18".
class SegmentWriter {
public:
    void add(std::string_view prefix) {
        auto const part = numbered_prefix(prefix);
        bool const continues = part.number >= 0 && last_ >= 0 && part.list == list_ && part.number == last_ + 1;
        if (!continues) close();
        if (!continues && part.number < 0) {
            append(prefix.empty() ? "everything" : part.list);
        } else if (!continues) {
            list_ = part.list;
            first_ = part.number;
        }
        last_ = part.number;
        ++size_;
    }

    [[nodiscard]] PictureSegment finish() {
        close();
        segment_.size = size_;
        return std::move(segment_);
    }

private:
    void append(std::string_view text) { segment_.text += (segment_.text.empty() ? "" : ", ") + std::string(text); }
    void close() {
        if (last_ < 0) return;
        auto range = std::to_string(first_);
        if (last_ > first_) range += "-" + std::to_string(last_);
        append((list_ == "layers" && first_ == last_ ? "layer" : std::string(list_)) + " " + range);
        segment_.brief += (segment_.brief.empty() ? "" : ", ") + range;
        last_ = -1;
    }

    PictureSegment segment_;
    std::string list_;
    std::int64_t first_ = 0;
    std::int64_t last_ = -1;
    std::int64_t size_ = 0;
};

}  // namespace detail

/// The picture of a device map: `uses` says what each device holds, `entries` which parts of the model, `topology` what the
/// devices are. Title, verdict and notes are the caller's.
[[nodiscard]] inline Picture picture_of_map(std::span<DeviceUse const> uses, std::span<MapEntry const> entries,
                                            Topology const& topology) {
    Picture picture;
    for (auto const& use : uses) {
        PictureDevice device;
        device.label = device_key(use.id);
        device.is_accelerator = use.id.is_accelerator();
        // Disks without a limit are given as half of what 63 bits hold.
        if (use.capacity < Bytes{INT64_MAX / 2}) device.capacity = use.capacity;
        device.terms.kv_cache = use.kv_cache;
        device.terms.activations = use.activations;
        device.terms.overhead = use.overhead;
        device.terms.weights = use.used - use.kv_cache - use.activations - use.overhead;
        for (auto const& given : topology.devices) {
            if (given.id != use.id) continue;
            device.name = given.name.view() == device.label ? std::string_view{} : given.name.view();
            device.node = given.node;
            device.link = given.link;
            device.network = given.network;
        }
        picture.devices.push_back(std::move(device));
    }
    for (std::size_t i = 0; i < entries.size();) {
        detail::SegmentWriter writer;
        auto const id = entries[i].device;
        for (; i < entries.size() && entries[i].device == id; ++i) writer.add(entries[i].prefix);
        auto segment = writer.finish();
        segment.holder = name_of_device(id);
        for (std::size_t k = 0; k < uses.size(); ++k) {
            if (uses[k].id == id) picture.devices[k].segments.push_back(picture.segments.size());
        }
        picture.segments.push_back(std::move(segment));
    }
    for (auto const& pair : topology.links) {
        auto const& first = topology.devices[static_cast<std::size_t>(pair.first)];
        auto const& second = topology.devices[static_cast<std::size_t>(pair.second)];
        if (first.node != second.node) continue;
        picture.links.push_back({device_key(first.id), device_key(second.id), first.node, pair.link});
    }
    return picture;
}

/// The same for a finished plan, with its verdict.
[[nodiscard]] inline Picture picture_of(MapPlan const& plan, Topology const& topology) {
    auto picture = picture_of_map({plan.devices.data(), plan.devices.size()},
                                  {plan.device_map.data(), plan.device_map.size()}, topology);
    picture.is_fitting = plan.fits;
    picture.verdict = plan.fits ? "fits" : "does not fit";
    if (plan.reason) picture.verdict += ": " + plan.reason->message();
    if (!plan.shortfall) return picture;
    for (auto& device : picture.devices) {
        if (device.label == device_key(plan.shortfall->device)) device.missing = plan.shortfall->missing;
    }
    return picture;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
