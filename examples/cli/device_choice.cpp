// SPDX-License-Identifier: Apache-2.0
#include "device_choice.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/description.hpp>
#include <shardwise/hardware/detect.hpp>
#include <shardwise/hardware/find_device.hpp>
#include <shardwise/hardware/spec.hpp>

#include "detect_options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

std::vector<std::string_view> split_devices(std::string_view text) {
    std::vector<std::string_view> words;
    while (true) {
        auto const end = text.find_first_of(",+");
        words.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return words;
        text.remove_prefix(end + 1);
    }
}

namespace {

/// The same without blanks around them.
[[nodiscard]] std::vector<std::string_view> words_of_list(std::string_view text) {
    auto words = split_devices(text);
    for (auto& word : words) {
        while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
        while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    }
    return words;
}

[[nodiscard]] bool begins_with(std::string_view word, std::string_view start) {
    return equal_ignoring_case(word.substr(0, start.size()), start);
}

/// A word that names something of this machine; in a SPEC it would mean nothing.
[[nodiscard]] bool is_own_device(std::string_view word) {
    for (std::string_view const name : {"auto", "cpu", "mps"}) {
        if (equal_ignoring_case(word, name)) return true;
    }
    for (std::string_view const start : {"cuda:", "hip:", "rocm:", "GPU-", "MIG-"}) {
        if (begins_with(word, start)) return true;
    }
    bool const is_number = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    return is_number || detail::parse_pci(word).has_value();
}

/// A part of a SPEC that may stand beside devices of this machine.
[[nodiscard]] bool is_storage(std::string_view word) {
    return begins_with(word, "cpu:") || equal_ignoring_case(word, "disk") || begins_with(word, "disk:");
}

[[nodiscard]] Error named_flag(Error error) {
    return error.in("--devices");
}

/// Rates that nobody told are those of a SPEC's generic devices, so that unknown does not plan as infinitely fast.
void assume_rates(Device& device) {
    bool const is_processor = device.kind == DeviceKind::cpu;
    auto const generic = parse_device_spec(is_processor ? "cpu:1GiB" : "gpu:1GiB");
    if (!generic) return;
    auto const& assumed = generic->front();
    if (device.bandwidth <= 0.0) device.bandwidth = assumed.bandwidth;
    if (device.peak.fp32 <= 0.0) device.peak = assumed.peak;
}

/// Collects what a list of words names.
class OwnDevices {
public:
    explicit OwnDevices(Detection detection) : detection_(std::move(detection)), is_taken_(detection_.devices.size()) {}

    [[nodiscard]] Result<> add(std::string_view word) {
        if (equal_ignoring_case(word, "auto")) return add_all();
        auto const places = select_devices(detection_.devices, word);
        if (!places) return named_flag(places.error());
        for (auto const place : *places) {
            auto const id = detection_.devices[place].device.id;
            bool const is_processor = id.kind == DeviceClass::cpu;
            if (is_processor && std::exchange(is_implied_, false)) continue;
            bool const is_stored =
                std::any_of(storage_.begin(), storage_.end(), [id](Device const& device) { return device.id == id; });
            if (is_taken_[place] || is_stored) return twice(word);
            take(place);
        }
        return {};
    }

    [[nodiscard]] Result<> add_storage(std::string_view word) {
        auto devices = parse_device_spec(word);
        if (!devices) return named_flag(devices.error());
        auto const& device = devices->front();
        for (auto const& other : storage_) {
            if (other.id == device.id) return twice(word);
        }
        storage_.push_back(device);
        return {};
    }

    [[nodiscard]] DeviceChoice choice() {
        std::vector<std::size_t> order;
        for (auto const kind : {DeviceClass::gpu, DeviceClass::mps, DeviceClass::cpu}) {
            for (auto const place : taken_) {
                if (detection_.devices[place].device.id.kind == kind) order.push_back(place);
            }
        }
        DeviceChoice choice;
        auto& topology = choice.topology;
        std::vector<std::int32_t> position(detection_.devices.size(), -1);
        for (auto const place : order) {
            auto device = detection_.devices[place].device;
            assume_rates(device);
            position[place] = static_cast<std::int32_t>(topology.devices.size());
            topology.devices.push_back(device);
            if (device.id.is_accelerator()) choice.accelerators.push_back({device.id, detection_.devices[place].id});
        }
        for (auto const& link : detection_.links) {
            auto const first = position[static_cast<std::size_t>(link.first)];
            auto const second = position[static_cast<std::size_t>(link.second)];
            if (first < 0 || second < 0) continue;
            auto const usual = topology.between(static_cast<std::size_t>(first), static_cast<std::size_t>(second));
            if (!(usual == link.link)) topology.links.push_back({first, second, link.link});
        }
        for (auto const kind : {DeviceClass::cpu, DeviceClass::disk}) {
            for (auto const& device : storage_) {
                if (device.id.kind == kind) topology.devices.push_back(device);
            }
        }
        choice.warnings = std::move(detection_.warnings);
        return choice;
    }

private:
    [[nodiscard]] static Error twice(std::string_view word) {
        return Error{ErrorCode::invalid_argument}
            .in("--devices")
            .at(word)
            .because("is named before")
            .fix("name each device once");
    }

    void take(std::size_t place) {
        is_taken_[place] = true;
        taken_.push_back(place);
    }

    Result<> add_all() {
        bool has_accelerator = false;
        for (std::size_t i = 0; i < detection_.devices.size(); ++i) {
            auto const& found = detection_.devices[i];
            if (!found.is_available || !found.device.id.is_accelerator()) continue;
            has_accelerator = true;
            if (!is_taken_[i]) take(i);
        }
        bool const has_processor = std::any_of(storage_.begin(), storage_.end(),
                                               [](Device const& device) { return device.id == DeviceId::cpu(); });
        if (has_accelerator || has_processor) return {};
        for (std::size_t i = 0; i < detection_.devices.size(); ++i) {
            if (detection_.devices[i].id != "cpu" || !detection_.devices[i].is_available || is_taken_[i]) continue;
            take(i);
            is_implied_ = true;
        }
        if (!taken_.empty()) return {};
        return Error{ErrorCode::no_such_device}
            .in("--devices")
            .at("auto")
            .because("this machine has no device that may be used")
            .fix("see shardwise detect");
    }

    Detection detection_;
    std::vector<bool> is_taken_;
    std::vector<std::size_t> taken_;
    std::vector<Device> storage_;
    /// "auto" took the processor, so that "cpu" beside it asks for no second one.
    bool is_implied_ = false;
};

}  // namespace

Result<DeviceChoice> choose_devices(std::string_view word) {
    constexpr std::string_view suffix = ".json";
    bool const is_file = word.find('/') != std::string_view::npos ||
                         (word.size() > suffix.size() && word.substr(word.size() - suffix.size()) == suffix);
    if (is_file) {
        auto topology = read_topology_file(std::string(word));
        if (!topology) return topology.error();
        return DeviceChoice{*std::move(topology), {}, {}};
    }
    auto const words = words_of_list(word);
    bool const has_own = std::any_of(words.begin(), words.end(), is_own_device);
    if (!has_own && word.find(',') == std::string_view::npos) {
        auto topology = parse_topology(word);
        if (!topology) return named_flag(topology.error());
        return DeviceChoice{*std::move(topology), {}, {}};
    }
    if (!has_own) {
        std::string joined(word);
        std::replace(joined.begin(), joined.end(), ',', '+');
        if (parse_topology(joined)) {
            return Error{ErrorCode::invalid_argument}
                .in("--devices")
                .at(word)
                .because("separates kinds of devices by commas, which are for devices of this machine")
                .fix("write " + joined);
        }
    }
    auto detection = detect_devices(program_detection_options());
    if (!detection) return detection.error();
    OwnDevices devices(*std::move(detection));
    // First what has a size: "auto" must know whether a processor is given.
    for (auto const one : words) {
        if (!is_storage(one)) continue;
        if (auto const added = devices.add_storage(one); !added) return added.error();
    }
    for (auto const one : words) {
        if (is_storage(one)) continue;
        if (auto const added = devices.add(one); !added) return added.error();
    }
    return devices.choice();
}

}  // namespace shardwise::cli
