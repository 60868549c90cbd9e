// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/stable_sort.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/find_device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a device is wanted for.
struct DeviceWish {
    /// What a model takes, all of it; 0: unknown.
    Bytes needed{};
    /// Taken before others where it can hold the model (hip: "prefer ROCm").
    std::optional<DeviceKind> prefer = std::nullopt;
    /// The share of an accelerator's memory that a model may take.
    double utilization = default_utilization;
};

/// Which devices to use.
struct Recommendation {
    /// Positions among the detected devices: one, or several that hold the model together; none where nothing does.
    std::vector<std::size_t> devices;
    /// Why, in words.
    std::string reason;
};

namespace detail {

/// Chooses devices for a wish. Decoding reads every weight for every token, so that the bandwidth of memory ranks
/// first.
class DeviceChooser {
public:
    DeviceChooser(std::span<DetectedDevice const> devices, DeviceWish const& wish) : devices_(devices), wish_(wish) {}

    [[nodiscard]] Recommendation choose() const {
        if (wish_.prefer) {
            auto preferred = of_kinds({*wish_.prefer});
            if (!preferred.devices.empty()) return preferred;
        }
        auto chosen = of_kinds(accelerator_kinds);
        if (!chosen.devices.empty() && wish_.prefer) {
            chosen.reason += "; no " + std::string(name_of(*wish_.prefer)) + " device holds it";
        }
        if (!chosen.devices.empty()) return chosen;
        auto const have = total();
        auto const why = have > Bytes{} ? "; no accelerator holds it" : "; there is no accelerator to use";
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            auto const& found = devices_[i];
            bool const is_processor = found.is_available && found.device.kind == DeviceKind::cpu;
            if (is_processor && holds(found)) return {{i}, sizes(found) + why};
        }
        return {{},
                "needs " + to_text(wish_.needed) + ", but the accelerators have " + to_text(have) +
                    " to use together; add devices, quantize, or offload"};
    }

private:
    static constexpr std::array accelerator_kinds{DeviceKind::cuda, DeviceKind::hip, DeviceKind::metal};

    [[nodiscard]] Bytes usable(DetectedDevice const& found) const { return found.device.usable(wish_.utilization); }
    [[nodiscard]] bool holds(DetectedDevice const& found) const { return usable(found) >= wish_.needed; }
    [[nodiscard]] static bool is_accelerator(DetectedDevice const& found) {
        return std::find(accelerator_kinds.begin(), accelerator_kinds.end(), found.device.kind) !=
               accelerator_kinds.end();
    }
    [[nodiscard]] std::string sizes(DetectedDevice const& found) const {
        auto text = describe(found) + ": " + to_text(usable(found)) + " to use";
        if (wish_.needed > Bytes{}) text += ", " + to_text(wish_.needed) + " needed";
        return text;
    }
    [[nodiscard]] Bytes total() const {
        Bytes sum{};
        for (auto const& found : devices_) {
            if (found.is_available && is_accelerator(found)) sum += usable(found);
        }
        return sum;
    }

    /// How fast a device is: its memory's bandwidth, then its products in 16 bits; measured ones where there are.
    [[nodiscard]] static std::pair<double, double> speed(Device const& device) {
        auto const& measured = device.measured;
        auto const bandwidth = measured.bandwidth > 0.0 ? measured.bandwidth : device.bandwidth;
        auto const products = measured.products.of(Dtype::f16) > 0.0 ? measured.products : device.peak;
        return {bandwidth, products.of(Dtype::f16)};
    }
    /// True where the first device is the better choice: the faster one; of unknown need the larger.
    [[nodiscard]] bool is_better(std::size_t first, std::size_t second) const {
        auto const& a = devices_[first];
        auto const& b = devices_[second];
        bool const is_size_first = wish_.needed <= Bytes{};
        if (is_size_first && usable(a) != usable(b)) return usable(a) > usable(b);
        if (speed(a.device) != speed(b.device)) return speed(a.device) > speed(b.device);
        return usable(a) > usable(b);
    }

    [[nodiscard]] Recommendation of_kinds(std::span<DeviceKind const> kinds) const {
        auto alone = holders(kinds);
        if (!alone.empty()) {
            auto const others = alone.size() - 1;
            auto reason = sizes(devices_[alone[0]]);
            if (others > 0) {
                reason += wish_.needed > Bytes{} ? "; the fastest of " : "; the one with the most memory to use of ";
                reason += std::to_string(alone.size()) + (wish_.needed > Bytes{} ? " that hold it" : "");
            }
            return {{alone[0]}, std::move(reason)};
        }
        Recommendation best;
        for (auto const kind : kinds) {
            auto together = fewest(kind);
            bool const is_first = best.devices.empty();
            if (together.empty() || (!is_first && together.size() >= best.devices.size())) continue;
            best = {std::move(together), {}};
            best.reason = "no device alone holds " + to_text(wish_.needed) + "; " +
                          std::to_string(best.devices.size()) + " of kind " + std::string(name_of(kind)) +
                          " do together";
        }
        return best;
    }
    [[nodiscard]] Recommendation of_kinds(std::initializer_list<DeviceKind> kinds) const {
        return of_kinds(std::span<DeviceKind const>{kinds.begin(), kinds.size()});
    }

    /// The available devices that hold the model alone, the best first.
    [[nodiscard]] std::vector<std::size_t> holders(std::span<DeviceKind const> kinds) const {
        std::vector<std::size_t> positions;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            bool const is_kind = std::find(kinds.begin(), kinds.end(), devices_[i].device.kind) != kinds.end();
            if (devices_[i].is_available && is_kind && holds(devices_[i])) positions.push_back(i);
        }
        detail::stable_sort(positions.begin(), positions.end(), [this](auto a, auto b) { return is_better(a, b); });
        return positions;
    }
    /// The fewest devices of one kind that hold the model together, in their order; none where all do not. Instances of a
    /// split GPU are no help: CUDA shows a process one of them only.
    [[nodiscard]] std::vector<std::size_t> fewest(DeviceKind kind) const {
        std::vector<std::size_t> positions;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            bool const is_whole = devices_[i].parent.empty();
            if (devices_[i].is_available && devices_[i].device.kind == kind && is_whole) positions.push_back(i);
        }
        detail::stable_sort(positions.begin(), positions.end(),
                            [this](auto a, auto b) { return usable(devices_[a]) > usable(devices_[b]); });
        Bytes sum{};
        std::size_t count = 0;
        while (count < positions.size() && sum < wish_.needed) sum += usable(devices_[positions[count++]]);
        if (sum < wish_.needed) return {};
        positions.resize(count);
        std::sort(positions.begin(), positions.end());
        return positions;
    }

    std::span<DetectedDevice const> devices_;
    DeviceWish wish_;
};

}  // namespace detail

/// The device to use for a model: of the available accelerators with enough memory to use (Device::usable) the fastest;
/// where none holds it alone, the fewest of one kind that do together; where they do not, the processor. Of unknown
/// need the one with the most. That devices hold a model together is a sum: `shardwise map` says where its parts go.
[[nodiscard]] inline Recommendation recommend_devices(std::span<DetectedDevice const> devices,
                                                      DeviceWish const& wish = {}) {
    return detail::DeviceChooser(devices, wish).choose();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
