// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/memory_size.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The devices that a SPEC names, accelerators first in the order written, then cpu, then disk.
using DeviceList = List<Device>;

namespace detail {

/// More devices than any cluster that this library plans for; bounds what a SPEC can ask for.
inline constexpr std::int64_t max_spec_devices = 16384;

/// A reader of SPEC texts: part ('+' part)*, part = [count 'x'] (name [':' size] | '(' spec ')').
class SpecReader {
public:
    explicit SpecReader(std::string_view text) : text_(text) {}

    Result<DeviceList> read() {
        auto devices = parts(0);
        if (!devices) return devices;
        if (position_ != text_.size()) return refuse("has a closing parenthesis too many");
        DeviceList ordered;
        for (auto const kind : {DeviceClass::gpu, DeviceClass::mps, DeviceClass::cpu, DeviceClass::disk}) {
            std::int32_t index = 0;
            for (auto& device : *devices) {
                if (device.id.kind != kind) continue;
                if (kind != DeviceClass::gpu && index > 0) return refuse("names cpu, disk or mps twice");
                device.id.index = index++;
                ordered.push_back(device);
            }
        }
        return ordered;
    }

private:
    Error refuse(std::string_view why) const {
        return Error{ErrorCode::invalid_argument}.in("devices").at(text_).because(why).fix(
            "write devices like 4xA100-40GB, 2xA100-80GB+2xRTX4090, 4x(8xH100-80GB), 2xgpu:24GiB+cpu:64GiB+disk");
    }

    Result<DeviceList> parts(int depth) {
        DeviceList all;
        std::int32_t next_node = 0;
        while (true) {
            auto const added = part(all, next_node, depth);
            if (!added) return added.error();
            if (position_ == text_.size() || text_[position_] != '+') return all;
            ++position_;
        }
    }

    Result<> part(DeviceList& all, std::int32_t& next_node, int depth) {
        std::int64_t const count = read_count();
        if (count < 1) return refuse("asks for no device");
        DeviceList group;
        bool const is_node = position_ < text_.size() && text_[position_] == '(';
        if (is_node) {
            if (depth >= 4) return refuse("nests too deeply");
            ++position_;
            auto inner = parts(depth + 1);
            if (!inner) return inner.error();
            if (position_ == text_.size() || text_[position_] != ')') return refuse("lacks a closing parenthesis");
            ++position_;
            group = *std::move(inner);
        } else {
            auto device = named_device();
            if (!device) return device.error();
            if (count > 1 && !device->id.is_accelerator()) return refuse("asks for several cpus or disks");
            group.push_back(*device);
        }
        if (static_cast<std::int64_t>(all.size()) + count * static_cast<std::int64_t>(group.size()) >
            max_spec_devices) {
            return Error{ErrorCode::capacity_exceeded}
                .in("devices")
                .at(text_)
                .because("names more devices than are planned for: at most " + std::to_string(max_spec_devices))
                .fix("name fewer of them");
        }
        for (std::int64_t copy = 0; copy < count; ++copy) {
            std::int32_t last_node = next_node;
            for (auto device : group) {
                if (is_node) {
                    device.node += next_node;
                    last_node = device.node + 1 > last_node ? device.node + 1 : last_node;
                }
                all.push_back(device);
            }
            if (is_node) next_node = last_node;
        }
        return {};
    }

    /// A leading "4x"; 1 where there is none.
    std::int64_t read_count() {
        auto end = position_;
        std::int64_t count = 0;
        while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') {
            count = count > max_spec_devices ? count : count * 10 + (text_[end] - '0');
            ++end;
        }
        if (end == position_ || end == text_.size() || to_lower(text_[end]) != 'x') return 1;
        position_ = end + 1;
        return count;
    }

    Result<Device> named_device() {
        auto const begin = position_;
        while (position_ < text_.size() && std::string_view{"+()"}.find(text_[position_]) == std::string_view::npos)
            ++position_;
        auto const word = text_.substr(begin, position_ - begin);
        auto const colon = word.find(':');
        auto const name = word.substr(0, colon);
        if (name.empty()) return refuse("lacks the name of a device");
        if (auto const first = name[0]; first >= '0' && first <= '9') {
            auto const meant = meant_presets(device_presets, name);
            bool const is_part = !meant.empty() && is_part_of(letters_of(name), letters_of(meant.front()));
            if (is_part) return unknown(name);
            return refuse("has a second count, or a name that begins with a digit");
        }
        if (auto const first = to_lower(name[0]); first < 'a' || first > 'z')
            return refuse("has a name that begins with no letter");
        Optional<Bytes> size;
        if (colon != std::string_view::npos) {
            auto const parsed = parse_memory_size(word.substr(colon + 1));
            if (!parsed) return parsed.error();
            size = *parsed;
        }
        Device device{};
        if (equal_ignoring_case(name, "cpu")) {
            if (!size) return refuse("names cpu without its memory (cpu:64GiB)");
            // Two DDR5 channels and a desktop's AVX2 rate: an assumption until `calibrate` measures.
            device = Device{"cpu", DeviceKind::cpu, DeviceId::cpu(), *size, 60e9, {1e12, 1e12, 0, 0}, detail::pcie4};
        } else if (equal_ignoring_case(name, "disk")) {
            device = Device{"disk",
                            DeviceKind::disk,
                            DeviceId::disk(),
                            size.value_or(Bytes{INT64_MAX / 2}),
                            3e9,
                            {},
                            Link{LinkType::pcie, 3e9, 100e-6}};
        } else if (equal_ignoring_case(name, "gpu") || equal_ignoring_case(name, "mps")) {
            if (!size) return refuse("names a generic device without its memory (gpu:24GiB)");
            bool const is_mps = equal_ignoring_case(name, "mps");
            device = Device{is_mps ? "mps" : "gpu",
                            is_mps ? DeviceKind::metal : DeviceKind::cuda,
                            is_mps ? DeviceId::mps() : DeviceId::gpu(0),
                            *size,
                            1000e9,
                            {50e12, 200e12, 0, 0},
                            detail::pcie4};
        } else if (auto const* preset = find_device_preset(name)) {
            device = *preset;
            device.id = DeviceId::gpu(0);
            if (size) {
                device.memory = *size;
                device.is_whole_memory = false;
            }
        } else {
            return unknown(name);
        }
        return device;
    }

    /// The error for a name that no preset has, with the names that were meant.
    static Error unknown(std::string_view name) {
        auto const is_variant = [name](DevicePreset const& preset) {
            return is_same_device_name(without_memory(preset.device.name.view()), name);
        };
        std::string variants;
        for (auto const& preset : device_presets) {
            if (is_variant(preset)) variants += (variants.empty() ? "" : " or ") + std::string(preset.device.name.view());
        }
        Error error{ErrorCode::no_such_device};
        error.in("devices").at(name);
        if (!variants.empty()) return error.because("is several devices").fix("write " + variants);
        error.because("is not a known device");
        if (auto const meant = meant_presets(device_presets, name); !meant.empty()) return error.fix(did_you_mean(meant).view());
        return error.fix(
            "write its memory instead (gpu:24GiB), or the name of a preset like A100-80GB, RTX4090, MI300X");
    }

    std::string_view text_;
    std::size_t position_ = 0;
};

}  // namespace detail

/// Reads a SPEC: "4xA100-40GB", "2xA100-80GB+2xRTX4090", "4x(8xH100-80GB)" (four nodes), "+cpu:64GiB", "+disk". Names
/// forgive case and separators; "H100" is enough where one preset only has it.
///
/// Order   GPUs numbered from 0 as written, then mps, cpu, disk
/// Errors  no_such_device with the closest name; invalid_argument for a malformed text or size; capacity_exceeded
[[nodiscard]] inline Result<DeviceList> parse_device_spec(std::string_view text) {
    return detail::SpecReader{text}.read();
}

/// The same as devices and the ways between them: in a node each device's own link, between nodes its share of the
/// network of the vendor's reference node, where it has one.
///
/// Errors  as parse_device_spec
[[nodiscard]] inline Result<Topology> parse_topology(std::string_view text) {
    auto devices = parse_device_spec(text);
    if (!devices) return devices.error();
    Topology topology;
    topology.devices = *std::move(devices);
    return topology;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
