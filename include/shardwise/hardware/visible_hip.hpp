// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/visible_environment.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Applies ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES to what it leaves.
class HipVisibility {
public:
    HipVisibility(std::span<DetectedDevice const> devices, VisibleEnvironment const& environment)
        : devices_(devices), environment_(environment), reasons_(devices.size()) {}

    [[nodiscard]] Visibility read() {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (devices_[i].is_available) {
                order.push_back(i);
            } else {
                reasons_[i] = devices_[i].reason;
            }
        }
        if (environment_.rocr_visible_devices) order = filter_rocr(order, *environment_.rocr_visible_devices);
        auto const& hip = environment_.hip_visible_devices;
        auto const& cuda = environment_.cuda_visible_devices;
        // To HIP an empty variable is one that is not set.
        if (hip && !hip->empty()) {
            order = filter_hip(order, "HIP_VISIBLE_DEVICES", *hip);
        } else if (cuda && !cuda->empty()) {
            order = filter_hip(order, "CUDA_VISIBLE_DEVICES", *cuda);
        }
        return {order, reasons_};
    }

private:
    using Positions = std::vector<std::size_t>;

    /// Notes why those of `before` that are not in `after` are hidden.
    void explain(Positions const& before, Positions const& after, std::string const& reason) {
        for (auto const position : before) {
            if (std::find(after.begin(), after.end(), position) == after.end()) reasons_[position] = reason;
        }
    }
    static std::string ending(std::string const& setting, std::optional<std::string> const& invalid) {
        auto reason = "hidden by " + setting;
        if (invalid) reason += ", which ends at its entry \"" + *invalid + "\"";
        return reason;
    }

    static std::string upper(std::string_view text) {
        std::string out(trimmed(text));
        for (auto& letter : out)
            letter = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
        return out;
    }

    Positions filter_rocr(Positions const& before, std::string const& value) {
        Positions after;
        if (value.empty()) {
            explain(before, after, "hidden: ROCR_VISIBLE_DEVICES is empty");
            return after;
        }
        auto entries = split_text(value, ',');
        if (entries.back().empty()) entries.pop_back();
        std::optional<std::string> invalid;
        for (auto const raw : entries) {
            auto const entry = upper(raw);
            auto const position = entry.substr(0, 1) == "G" ? find_uuid(before, entry) : find_number(before, entry);
            // A device named twice ends the list too.
            if (!position || std::find(after.begin(), after.end(), *position) != after.end()) {
                invalid = std::string(raw);
                break;
            }
            after.push_back(*position);
        }
        explain(before, after, ending("ROCR_VISIBLE_DEVICES=" + value, invalid));
        return after;
    }
    [[nodiscard]] std::optional<std::size_t> find_uuid(Positions const& among, std::string const& entry) const {
        // "GPU-" and 1 to 16 digits.
        if (entry.size() < 5 || entry.size() > 20) return std::nullopt;
        std::optional<std::size_t> found;
        for (auto const position : among) {
            auto const uuid = upper(devices_[position].device.uuid.view());
            if (uuid.compare(0, entry.size(), entry) != 0) continue;
            if (found) return std::nullopt;
            found = position;
        }
        return found;
    }
    /// strtol's numbers, hexadecimal and octal ones too.
    static std::optional<std::size_t> find_number(Positions const& among, std::string const& entry) {
        char* end = nullptr;
        errno = 0;
        auto const number = std::strtol(entry.c_str(), &end, 0);
        if (entry.empty() || *end != '\0' || errno != 0) return std::nullopt;
        if (number < 0 || static_cast<unsigned long>(number) >= among.size()) return std::nullopt;
        return among[static_cast<std::size_t>(number)];
    }

    Positions filter_hip(Positions const& before, std::string const& name, std::string const& value) {
        Positions after;
        auto entries = split_text(value, ',');
        if (entries.back().empty() && entries.size() > 1) entries.pop_back();
        std::optional<std::string> invalid;
        for (auto const entry : entries) {
            auto const index = hip_index(before, entry);
            if (!index) {
                invalid = std::string(entry);
                break;
            }
            auto const position = before[*index];
            if (std::find(after.begin(), after.end(), position) == after.end()) after.push_back(position);
        }
        explain(before, after, ending(name + "=" + value, invalid));
        return after;
    }
    /// A number written as HIP would write it, or since ROCm 6.2 a part of a UUID.
    [[nodiscard]] std::optional<std::size_t> hip_index(Positions const& among, std::string_view entry) const {
        if (entry.find("GPU-") != std::string_view::npos) {
            for (std::size_t i = 0; i < among.size(); ++i) {
                if (devices_[among[i]].device.uuid.view().find(entry) != std::string_view::npos) return i;
            }
            return std::nullopt;
        }
        auto const number = to_integer(entry);
        if (!number || *number < 0 || *number >= static_cast<std::int64_t>(among.size())) return std::nullopt;
        if (entry != std::to_string(*number)) return std::nullopt;
        return static_cast<std::size_t>(*number);
    }

    std::span<DetectedDevice const> devices_;
    VisibleEnvironment const& environment_;
    std::vector<std::string> reasons_;
};

}  // namespace detail

/// Which of these AMD devices HIP shows this process, and under which numbers.
///
/// ROCR_VISIBLE_DEVICES (not set, all; empty, none): numbers or beginnings of UUIDs; then HIP_VISIBLE_DEVICES counts
/// among what is left, and where it is not set or empty, CUDA_VISIBLE_DEVICES does. Each list ends at its first invalid
/// entry.
///
/// Source  ROCm, GPU isolation techniques; ROCR-Runtime's RvdFilter and clr's Device::init
[[nodiscard]] inline Visibility visible_hip_devices(std::span<DetectedDevice const> devices,
                                                    VisibleEnvironment const& environment) {
    return detail::HipVisibility(devices, environment).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
