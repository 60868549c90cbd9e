// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/memory/overhead.hpp>
#include <shardwise/plan/plan_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the runtime takes of a device before the first rank: nothing of a processor's memory.
[[nodiscard]] inline Bytes runtime_of(Device const& device) {
    switch (device.kind) {
        case DeviceKind::cpu:
        case DeviceKind::disk:
            return runtime_overhead(DeviceClass::cpu);
        case DeviceKind::metal:
            return runtime_overhead(DeviceClass::mps);
        case DeviceKind::cuda:
        case DeviceKind::hip:
            break;
    }
    return runtime_overhead(DeviceClass::gpu);
}

/// The devices of a topology by what a plan asks of them: memory, rates, links. What the best and the largest of them
/// can do.
class DeviceClasses {
public:
    /// `counts_runtime` where the runtime's share of each device is not for ranks; `cache` is what attention reads.
    explicit DeviceClasses(Topology const& topology, bool counts_runtime = true, CacheKind const& cache = {})
        : counts_runtime_(counts_runtime), cache_(cache) {
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

    /// What the runtime takes of a device of a class, and what that leaves to a rank.
    [[nodiscard]] Bytes runtime(std::size_t index) const {
        return counts_runtime_ ? runtime_of(*classes_[index]) : Bytes{0};
    }
    [[nodiscard]] Bytes capacity(std::size_t index) const { return classes_[index]->available() - runtime(index); }

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

    /// What a rank may take of the largest device.
    [[nodiscard]] double max_memory() const { return bytes_of(by_memory_[0]); }
    /// Of the smallest device of some classes, which are given as bits.
    [[nodiscard]] double memory_of(std::uint64_t classes) const {
        auto least = max_memory();
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
    [[nodiscard]] double max_capacity(std::int64_t ranks, std::int64_t stages) const {
        double capacity = 0.0;
        std::int64_t devices = 0;
        std::int64_t passed = 0;
        for (auto const index : by_memory_) {
            devices += sizes_[index];
            auto const here = (devices / ranks < stages ? devices / ranks : stages) - passed;
            passed += here;
            capacity += static_cast<double>(here) * bytes_of(index);
        }
        return capacity;
    }
    /// True where a class's devices come first when the strongest do: by memory, bandwidth, arithmetic. Where attention was
    /// measured, its rates count beside those of weights.
    [[nodiscard]] bool is_stronger(std::size_t a, std::size_t b) const {
        auto const& one = *classes_[a];
        auto const& other = *classes_[b];
        if (capacity(a) != capacity(b)) return capacity(a) > capacity(b);
        auto const rates = device_rates(one, Dtype::bf16, default_efficiency, cache_);
        auto const others = device_rates(other, Dtype::bf16, default_efficiency, cache_);
        auto const reads = together(rates.memory, rates.decode_attention);
        auto const other_reads = together(others.memory, others.decode_attention);
        if (reads != other_reads) return reads > other_reads;
        auto const works = together(rates.products, rates.prefill_attention);
        auto const other_works = together(others.products, others.prefill_attention);
        if (works != other_works) return works > other_works;
        return a < b;
    }

private:
    /// The rate of as much work with weights as in attention, which was not measured where its rate is 0.
    static double together(double weights, double attention) {
        if (weights == 0.0) return attention;
        return attention == 0.0 ? weights : 2.0 / (1.0 / weights + 1.0 / attention);
    }
    double bytes_of(std::size_t index) const { return static_cast<double>(capacity(index).count()); }

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

    bool counts_runtime_;
    CacheKind cache_;
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
