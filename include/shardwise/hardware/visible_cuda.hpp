// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/vendor/pci_path.hpp>
#include <shardwise/hardware/visible_environment.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Applies CUDA_VISIBLE_DEVICES to GPUs and their MIG instances.
class CudaVisibility {
public:
    CudaVisibility(std::span<DetectedDevice const> devices, VisibleEnvironment const& environment)
        : devices_(devices), environment_(environment) {}

    [[nodiscard]] Visibility read() {
        sort_gpus();
        auto const& value = environment_.cuda_visible_devices;
        if (!value) {
            show_all();
        } else if (value->empty()) {
            otherwise_ = "hidden: CUDA_VISIBLE_DEVICES is empty";
        } else {
            otherwise_ = "hidden by CUDA_VISIBLE_DEVICES=" + *value;
            show_listed(*value);
        }
        if (is_repeated_) shown_.clear();
        return result();
    }

private:
    /// Positions of the GPUs as CUDA numbers them before any is hidden. GPUs that this user may not open have no
    /// number.
    void sort_gpus() {
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (devices_[i].parent.empty() && devices_[i].is_available) gpus_.push_back(i);
        }
        // The driver's order is by address already; a GPU without one leaves it as it is.
        auto const address_of = [this](std::size_t i) { return parse_pci_address(devices_[i].device.pci.view()); };
        if (std::all_of(gpus_.begin(), gpus_.end(), [&](std::size_t i) { return address_of(i).has_value(); })) {
            detail::stable_sort(gpus_.begin(), gpus_.end(), [&](std::size_t a, std::size_t b) {
                auto const one = *address_of(a);
                auto const other = *address_of(b);
                return std::tie(one.domain, one.bus, one.device, one.function) <
                       std::tie(other.domain, other.bus, other.device, other.function);
            });
        }
        if (environment_.cuda_device_order == "PCI_BUS_ID") return;
        bool const has_rates = std::all_of(gpus_.begin(), gpus_.end(),
                                           [this](std::size_t i) { return devices_[i].device.peak.fp32 > 0.0; });
        auto const speed_of = [&](std::size_t i) {
            auto const& device = devices_[i].device;
            auto const words = std::string_view{device.architecture.view()};
            auto const capability = words.size() > 3 ? to_integer(words.substr(3)).value_or(0) : 0;
            return std::tuple(has_rates ? device.peak.fp32 : static_cast<double>(capability), device.memory.count());
        };
        detail::stable_sort(gpus_.begin(), gpus_.end(),
                            [&](std::size_t a, std::size_t b) { return speed_of(a) > speed_of(b); });
    }

    [[nodiscard]] std::vector<std::size_t> instances_of(std::size_t gpu) const {
        std::vector<std::size_t> instances;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            if (!devices_[i].parent.empty() && devices_[i].parent == devices_[gpu].device.uuid.view())
                instances.push_back(i);
        }
        return instances;
    }

    void show_all() {
        for (auto const gpu : gpus_) {
            if (!devices_[gpu].is_split) shown_.push_back(gpu);
            for (auto const instance : instances_of(gpu)) shown_.push_back(instance);
        }
    }

    void show_listed(std::string const& value) {
        for (std::string_view const prefix : {"GPU-", "MIG-"}) {
            if (value.compare(0, prefix.size(), prefix) == 0) return show_uuids(value, prefix);
        }
        show_numbers(value);
    }

    void stop_at(std::string_view entry) {
        otherwise_ += ", which ends at its entry \"" + std::string(entry) + "\": there is no such device";
    }
    void repeat(std::string_view entry) {
        is_repeated_ = true;
        otherwise_ += ", which names \"" + std::string(entry) + "\" twice: CUDA then shows none";
    }
    [[nodiscard]] bool is_shown(std::size_t position) const {
        return std::find(shown_.begin(), shown_.end(), position) != shown_.end();
    }

    void show_uuids(std::string const& value, std::string_view prefix) {
        // A list keeps to the form of its first entry.
        std::vector<std::string_view> entries;
        std::optional<std::string_view> foreign;
        for (auto const entry : split_text(value, ',')) {
            if (std::find(entries.begin(), entries.end(), entry) != entries.end()) return repeat(entry);
            if (entry.substr(0, prefix.size()) != prefix) {
                foreign = entry;
                break;
            }
            entries.push_back(entry);
        }
        for (auto const entry : entries) {
            auto const position = prefix == "GPU-" ? find_gpu(entry) : find_instance(entry);
            if (!position) return stop_at(entry);
            if (is_shown(*position)) return repeat(entry);
            shown_.push_back(*position);
        }
        if (foreign) stop_at(*foreign);
    }

    /// CUDA reads numbers like strtoul: blanks before, a sign, digits, and whatever follows ("1gpu" is 1).
    static std::optional<std::string> leading_number(std::string_view entry) {
        entry = trimmed(entry);
        bool const is_negative = !entry.empty() && entry[0] == '-';
        if (!entry.empty() && (entry[0] == '+' || entry[0] == '-')) entry.remove_prefix(1);
        auto digits = entry.substr(0, entry.find_first_not_of("0123456789"));
        if (digits.empty()) return std::nullopt;
        auto const first = digits.find_first_not_of('0');
        digits = first == std::string_view::npos ? digits.substr(0, 1) : digits.substr(first);
        if (is_negative && digits != "0") return std::nullopt;
        return std::string(digits);
    }

    void show_numbers(std::string const& value) {
        // As text, so that numbers of any length compare.
        std::vector<std::string> numbers;
        std::optional<std::string_view> invalid;
        for (auto const entry : split_text(value, ',')) {
            auto number = leading_number(entry);
            if (!number) {
                invalid = entry;
                break;
            }
            if (std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) return repeat(*number);
            numbers.push_back(*std::move(number));
        }
        for (auto const& number : numbers) {
            auto const index = to_integer(number);
            if (!index || *index >= static_cast<std::int64_t>(gpus_.size())) return stop_at(number);
            auto const position = visible_part(gpus_[static_cast<std::size_t>(*index)]);
            if (!position) return stop_at(number);
            shown_.push_back(*position);
        }
        if (invalid) stop_at(*invalid);
    }

    /// A GPU itself, or of one that is split its first instance, which is all that CUDA shows of it.
    [[nodiscard]] std::optional<std::size_t> visible_part(std::size_t gpu) const {
        if (!devices_[gpu].is_split) return gpu;
        auto const instances = instances_of(gpu);
        if (instances.empty()) return std::nullopt;
        return instances.front();
    }

    [[nodiscard]] std::optional<std::size_t> find_gpu(std::string_view prefix) const {
        std::optional<std::size_t> found;
        for (auto const gpu : gpus_) {
            if (devices_[gpu].device.uuid.view().substr(0, prefix.size()) != prefix) continue;
            if (found) return std::nullopt;
            found = gpu;
        }
        return found ? visible_part(*found) : std::nullopt;
    }

    /// "MIG-<uuid>" or its beginning; before driver 470 "MIG-<GPU's uuid>/<GPU instance>/<compute instance>".
    [[nodiscard]] std::optional<std::size_t> find_instance(std::string_view word) const {
        auto const parts = split_text(word, '/');
        std::optional<std::size_t> found;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            auto const& device = devices_[i];
            if (device.parent.empty()) continue;
            bool const is_old_form = parts.size() == 3 && parts[0].substr(4) == device.parent &&
                                     to_integer(parts[1]) == device.gpu_instance &&
                                     to_integer(parts[2]) == device.compute_instance;
            if (!is_old_form && device.device.uuid.view().substr(0, word.size()) != word) continue;
            if (found) return std::nullopt;
            found = i;
        }
        return found;
    }

    [[nodiscard]] Visibility result() const {
        Visibility result{shown_, std::vector<std::string>(devices_.size())};
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            auto const& device = devices_[i];
            auto& reason = result.reasons[i];
            if (is_shown(i)) continue;
            if (!device.is_available) {
                reason = device.reason;
            } else if (device.is_split) {
                bool const has_instances = !instances_of(i).empty();
                reason = has_instances ? "is split by MIG: use its instances"
                                       : "MIG is on and it has no instance: make one, or turn MIG off";
            } else if (is_later_instance(i)) {
                reason =
                    "hidden: of a GPU named in CUDA_VISIBLE_DEVICES CUDA shows the first MIG instance; name this one";
            } else {
                reason = otherwise_;
            }
        }
        return result;
    }
    [[nodiscard]] bool is_later_instance(std::size_t position) const {
        auto const& parent = devices_[position].parent;
        if (parent.empty() || !environment_.cuda_visible_devices) return false;
        if (environment_.cuda_visible_devices->compare(0, 4, "MIG-") == 0) return false;
        return std::any_of(shown_.begin(), shown_.end(),
                           [&](std::size_t shown) { return devices_[shown].parent == parent; });
    }

    std::span<DetectedDevice const> devices_;
    VisibleEnvironment const& environment_;
    std::vector<std::size_t> gpus_;
    std::vector<std::size_t> shown_;
    std::string otherwise_;
    bool is_repeated_ = false;
};

}  // namespace detail

/// Which of these NVIDIA devices CUDA shows this process, and under which numbers.
///
/// CUDA_VISIBLE_DEVICES: not set, all; empty, none; numbers, beginnings of UUIDs that mean one GPU, or `MIG-<uuid>`; the
/// list ends at its first invalid entry, and a device named twice hides all. Numbers count in the order of
/// CUDA_DEVICE_ORDER: PCI_BUS_ID, or by default fastest first, a guess of CUDA's that is repeated here by the peak
/// rate.
///
/// Source  CUDA C++ Programming Guide, environment variables; PyTorch's torch/cuda/__init__.py, which follows the
///         driver; MIG User Guide, device enumeration
[[nodiscard]] inline Visibility visible_cuda_devices(std::span<DetectedDevice const> devices,
                                                     VisibleEnvironment const& environment) {
    return detail::CudaVisibility(devices, environment).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
