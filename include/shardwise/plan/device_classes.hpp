#pragma once

#include <shardwise/plan/plan_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline v0_2_0 {

/// The devices of a topology by what a plan asks of them: memory, rates, links. What the best and the largest of them
/// can do.
class DeviceClasses {
public:
    explicit DeviceClasses(Topology const& topology) {
        for (auto const& pair : topology.links) best_explicit_ = detail::faster_link(best_explicit_, pair.link);
        for (auto const& device : topology.accelerators()) {
            strongest_ = class_of_.empty() ? device : detail::mixed_device(strongest_, device, true);
            best_link_ = detail::faster_link(best_link_, device.link);
            best_network_ = detail::faster_link(best_network_, network_of(device));
            auto const index = find(device);
            if (index == classes_.size()) {
                classes_.push_back(&device);
                if (tensor_refusal_.empty()) tensor_refusal_ = tensor_parallel_refusal(device.kind);
                sizes_.push_back(0);
            }
            ++sizes_[index];
            class_of_.push_back(index);
        }
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            auto place = by_memory_.size();
            while (place > 0 && bytes_of(by_memory_[place - 1]) < bytes_of(i)) --place;
            (void)by_memory_.insert(by_memory_.begin() + place, i);
        }
    }

    [[nodiscard]] std::size_t count() const { return classes_.size(); }
    [[nodiscard]] Device const& device(std::size_t index) const { return *classes_[index]; }
    /// The devices of a class.
    [[nodiscard]] std::int64_t size(std::size_t index) const { return sizes_[index]; }
    /// The class of a device, by its position in the topology.
    [[nodiscard]] std::size_t of(std::int32_t position) const { return class_of_[static_cast<std::size_t>(position)]; }

    /// Why there is no tensor parallelism on these devices; empty where there may be.
    [[nodiscard]] std::string_view tensor_refusal() const { return tensor_refusal_; }

    /// A device with the best of every rate, and the best links.
    [[nodiscard]] Device const& strongest() const { return strongest_; }
    [[nodiscard]] Link const& best_link() const { return best_link_; }
    [[nodiscard]] Link const& best_network() const { return best_network_; }
    /// Of those that the topology names between two devices.
    [[nodiscard]] Link const& best_explicit() const { return best_explicit_; }
    [[nodiscard]] static Link const& network_of(Device const& device) {
        return device.network.type == LinkType::none ? default_network : device.network;
    }

    /// Of the largest device.
    [[nodiscard]] double most_memory() const { return bytes_of(by_memory_[0]); }
    /// Of the smallest device of some classes, which are given as bits.
    [[nodiscard]] double memory_of(std::uint64_t classes) const {
        auto least = most_memory();
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            if ((classes >> i & 1U) != 0 && bytes_of(i) < least) least = bytes_of(i);
        }
        return least;
    }
    /// All devices with at least as much memory as those of a class, for each class; the largest memory first.
    [[nodiscard]] List<std::int64_t> counts_by_memory() const {
        List<std::int64_t> counts;
        for (auto const index : by_memory_)
            counts.push_back(sizes_[index] + (counts.empty() ? std::int64_t{0} : counts.back()));
        return counts;
    }
    /// What `stages` stages of so many ranks each can hold together at most, as multiples of their smallest device.
    [[nodiscard]] double most_room(std::int64_t ranks, std::int64_t stages) const {
        double room = 0.0;
        std::int64_t devices = 0;
        std::int64_t passed = 0;
        for (auto const index : by_memory_) {
            devices += sizes_[index];
            auto const here = (devices / ranks < stages ? devices / ranks : stages) - passed;
            passed += here;
            room += static_cast<double>(here) * bytes_of(index);
        }
        return room;
    }
    /// True where a class's devices come first when the strongest do: by memory, bandwidth, arithmetic.
    [[nodiscard]] bool is_stronger(std::size_t a, std::size_t b) const {
        auto const& one = *classes_[a];
        auto const& other = *classes_[b];
        if (one.available() != other.available()) return one.available() > other.available();
        auto const rates = device_rates(one, Dtype::bf16);
        auto const others = device_rates(other, Dtype::bf16);
        if (rates.memory != others.memory) return rates.memory > others.memory;
        if (rates.products != others.products) return rates.products > others.products;
        return a < b;
    }

private:
    double bytes_of(std::size_t index) const { return static_cast<double>(classes_[index]->available().count()); }

    std::size_t find(Device const& device) const {
        for (auto i = classes_.size(); i-- > 0;) {
            auto const& other = *classes_[i];
            bool const are_rates_equal = detail::is_no_worse(device, other) && detail::is_no_worse(other, device);
            if (are_rates_equal && device.available() == other.available() && device.link == other.link &&
                device.network == other.network)
                return i;
        }
        return classes_.size();
    }

    List<Device const*> classes_;
    List<std::int64_t> sizes_;
    /// Classes, the largest memory first.
    List<std::size_t> by_memory_;
    List<std::size_t> class_of_;
    std::string_view tensor_refusal_;
    Device strongest_{};
    Link best_link_{};
    Link best_network_{};
    Link best_explicit_{};
};

}  // namespace shardwise::inline v0_2_0
