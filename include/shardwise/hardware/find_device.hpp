// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/presets.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A number in digits of this base; nothing for other text or more than eight digits.
[[nodiscard]] constexpr std::optional<std::uint32_t> parse_digits(std::string_view text, std::uint32_t base) {
    if (text.empty() || text.size() > 8) return std::nullopt;
    std::uint64_t number = 0;
    for (char const letter : text) {
        auto const low = to_lower(letter);
        auto const digit = low >= '0' && low <= '9'   ? static_cast<std::uint32_t>(low - '0')
                           : low >= 'a' && low <= 'f' ? static_cast<std::uint32_t>(low - 'a' + 10)
                                                      : base;
        if (digit >= base) return std::nullopt;
        number = number * base + digit;
    }
    return static_cast<std::uint32_t>(number);
}

/// Domain, bus, device and function of a PCI address: "00000000:3B:00.0", "3b:00.0".
[[nodiscard]] constexpr std::optional<std::array<std::uint32_t, 4>> parse_pci(std::string_view text) {
    auto const dot = text.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    auto rest = text.substr(0, dot);
    auto const function = parse_digits(text.substr(dot + 1), 16);
    auto const last = rest.rfind(':');
    if (!function || last == std::string_view::npos) return std::nullopt;
    auto const slot = parse_digits(rest.substr(last + 1), 16);
    rest = rest.substr(0, last);
    auto const first = rest.rfind(':');
    auto const bus = parse_digits(first == std::string_view::npos ? rest : rest.substr(first + 1), 16);
    auto const domain = first == std::string_view::npos ? std::optional{0U} : parse_digits(rest.substr(0, first), 16);
    if (!slot || !bus || !domain) return std::nullopt;
    return std::array{*domain, *bus, *slot, *function};
}

/// What is said of a detected device: "cuda:1 (NVIDIA L4)".
[[nodiscard]] inline std::string describe(DetectedDevice const& found) {
    auto const name = found.name.empty() ? std::string(found.device.name.view()) : found.name;
    return found.id + (name.empty() || name == found.id ? "" : " (" + name + ")");
}

/// Looks for one device by any of the ways in which people name it.
class DeviceLookup {
public:
    explicit DeviceLookup(std::span<DetectedDevice const> devices) : devices_(devices) {}

    /// The position of the device that a word names, whether or not it is available.
    [[nodiscard]] Result<std::size_t> find(std::string_view word) const {
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (!word.empty() && equal_ignoring_case(devices_[i].id, word)) return i;
        }
        if (auto const number = parse_digits(word, 10)) return numbered(word, *number);
        auto const colon = word.find(':');
        auto const kind = word.substr(0, colon);
        auto const is_kind = [kind](std::string_view name) { return equal_ignoring_case(kind, name); };
        if (colon != std::string_view::npos &&
            (is_kind("cuda") || is_kind("hip") || is_kind("rocm") || is_kind("gpu"))) {
            auto const number = parse_digits(word.substr(colon + 1), 10);
            if (!number) return refuse(word, "is not a device: a number must follow the colon");
            if (is_kind("gpu")) return numbered(word, *number);
            // PyTorch for ROCm calls AMD's devices cuda.
            bool const is_hip = !is_kind("cuda") || !has_kind(DeviceKind::cuda);
            return counted(word, is_hip ? DeviceKind::hip : DeviceKind::cuda, *number);
        }
        if (auto const pci = parse_pci(word)) return at_address(word, *pci);
        return by_uuid(word);
    }

    /// The error for a word that names no device that may be used.
    [[nodiscard]] Error refuse(std::string_view word, std::string_view reason) const {
        std::string names;
        for (auto const& found : devices_) {
            if (found.is_available) names += (names.empty() ? "" : ", ") + found.id;
        }
        Error error{ErrorCode::no_such_device};
        error.in("devices").at(word).because(reason);
        // "5090": a number of three digits and more is rather the name of a product.
        auto const meant = meant_presets(device_presets, word);
        bool const is_product = word.size() > 2 && !meant.empty() && is_part_of(letters_of(word), letters_of(meant.front()));
        if (is_product) return error.fix(did_you_mean(meant).view());
        return error.fix(names.empty() ? "this machine has none that may be used" : "available: " + names);
    }

private:
    [[nodiscard]] bool has_kind(DeviceKind kind) const {
        return std::any_of(devices_.begin(), devices_.end(),
                           [kind](auto const& found) { return found.device.kind == kind; });
    }

    /// The accelerator with this number in device maps.
    [[nodiscard]] Result<std::size_t> numbered(std::string_view word, std::uint32_t number) const {
        std::size_t count = 0;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            auto const id = devices_[i].device.id;
            if (id.kind != DeviceClass::gpu) continue;
            if (static_cast<std::uint32_t>(id.index) == number) return i;
            if (devices_[i].is_available) ++count;
        }
        return refuse(word, "is not a device: there are " + std::to_string(count) + " that may be used");
    }

    /// The device with this number among the visible ones of its kind.
    [[nodiscard]] Result<std::size_t> counted(std::string_view word, DeviceKind kind, std::uint32_t number) const {
        std::uint32_t count = 0;
        std::size_t hidden = 0;
        std::string_view reason;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (devices_[i].device.kind != kind) continue;
            if (devices_[i].is_available && count++ == number) return i;
            if (devices_[i].is_available) continue;
            ++hidden;
            reason = devices_[i].reason;
        }
        auto why = "is not a device: there are " + std::to_string(count) + " of its kind";
        if (hidden > 0) why += " and " + std::to_string(hidden) + " not available (" + std::string(reason) + ")";
        return refuse(word, why);
    }

    [[nodiscard]] Result<std::size_t> at_address(std::string_view word, std::array<std::uint32_t, 4> const& pci) const {
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (parse_pci(devices_[i].device.pci.view()) == pci) return i;
        }
        return refuse(word, "has no device at this PCI address");
    }

    /// The device whose UUID is this or begins with it, as CUDA_VISIBLE_DEVICES takes them.
    [[nodiscard]] Result<std::size_t> by_uuid(std::string_view word) const {
        std::optional<std::size_t> only;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            auto const uuid = devices_[i].device.uuid.view();
            if (word.empty() || !equal_ignoring_case(uuid.substr(0, word.size()), word)) continue;
            if (uuid.size() == word.size()) return i;
            if (only) return refuse(word, "is the beginning of several UUIDs");
            only = i;
        }
        if (only) return *only;
        return refuse(word, "is not a device of this machine");
    }

    std::span<DetectedDevice const> devices_;
};

}  // namespace detail

/// One word of a list of devices, and whether it names one that this process may use.
struct DeviceAnswer {
    std::string word;
    /// Its position among the detected devices; -1 where there is none.
    std::ptrdiff_t position = -1;
    bool is_available = false;
    /// Why it is not available, else "".
    std::string reason;
};

/// Which of these devices may be used, and why not: "0", "cuda:1", "hip:0" ("rocm:0"; "cuda:0" too where there are only
/// AMD's), "mps", "cpu", UUIDs and their beginnings ("GPU-3f2a", "MIG-..."), PCI addresses ("3b:00.0"), separated by
/// commas.
///
/// Order  that of the words
[[nodiscard]] inline std::vector<DeviceAnswer> check_devices(std::span<DetectedDevice const> devices,
                                                             std::string_view words) {
    std::vector<DeviceAnswer> answers;
    detail::DeviceLookup const lookup(devices);
    while (true) {
        auto const comma = words.find(',');
        auto word = words.substr(0, comma);
        while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
        while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
        DeviceAnswer answer{std::string(word), -1, false, {}};
        if (auto const place = lookup.find(word); !place) {
            answer.reason = place.error().reason();
        } else {
            answer.position = static_cast<std::ptrdiff_t>(*place);
            answer.is_available = devices[*place].is_available;
            answer.reason = devices[*place].reason;
        }
        for (auto const& before : answers) {
            if (answer.position < 0 || before.position != answer.position) continue;
            answer.is_available = false;
            answer.reason = "is named before, as " + before.word;
            break;
        }
        answers.push_back(std::move(answer));
        if (comma == std::string_view::npos) return answers;
        words.remove_prefix(comma + 1);
    }
}

/// The positions of the devices that a list names, in its order.
///
/// Errors  no_such_device with the first word that names none, or one that is not available, and why
[[nodiscard]] inline Result<std::vector<std::size_t>> select_devices(std::span<DetectedDevice const> devices,
                                                                     std::string_view words) {
    std::vector<std::size_t> positions;
    for (auto const& answer : check_devices(devices, words)) {
        if (!answer.is_available) {
            auto const reason = answer.reason.empty() ? std::string("is not available") : answer.reason;
            return detail::DeviceLookup(devices).refuse(answer.word, reason);
        }
        positions.push_back(static_cast<std::size_t>(answer.position));
    }
    return positions;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
