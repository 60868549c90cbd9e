// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/detection.hpp>
#include <shardwise/hardware/detection_options.hpp>
#include <shardwise/hardware/vendor/amd_devices.hpp>
#include <shardwise/hardware/vendor/call_watch.hpp>
#include <shardwise/hardware/vendor/metal.hpp>
#include <shardwise/hardware/vendor/nvidia_devices.hpp>
#include <shardwise/hardware/visible_cuda.hpp>
#include <shardwise/hardware/visible_hip.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Puts together what vendors and system tell.
class Detector {
public:
    Detector(DetectionOptions const& options, CallWatch& watch)
        : options_(options), files_(options.root), watch_(watch) {}

    [[nodiscard]] Result<Detection> detect() {
        Detection detection;
        detection.processor = read_processor(files_);
        detection.memory = read_system_memory(files_);
        auto nvidia = read_nvidia_devices(options_.nvml_library, files_, watch_);
        if (!nvidia) return nvidia.error();
        add(detection, *nvidia, visible_cuda_devices(nvidia->devices, options_.environment), "cuda:");
        warn_of_order(detection);
        auto amd = read_amd_devices(options_.amd_smi_libraries, files_, watch_);
        if (!amd) return amd.error();
        add(detection, *amd, visible_hip_devices(amd->devices, options_.environment), "hip:");
        watch_.begin("sysctlbyname");
        auto const apple = read_apple_system();
        if (auto metal = metal_device(apple)) detection.devices.push_back(*std::move(metal));
        for (auto& found : detection.devices) found.device.is_whole_memory = true;
        add_processor(detection, apple);
        number(detection);
        set_links(detection);
        return detection;
    }

private:
    /// Adds a vendor's devices: the visible ones in the order of their runtime, then the others in the driver's.
    void add(Detection& detection, VendorDevices& vendor, Visibility const& visible, std::string const& prefix) const {
        std::vector<std::int32_t> position(vendor.devices.size(), -1);
        auto const take = [&](std::size_t i) {
            position[i] = static_cast<std::int32_t>(detection.devices.size());
            detection.devices.push_back(std::move(vendor.devices[i]));
        };
        for (std::size_t number = 0; number < visible.order.size(); ++number) {
            take(visible.order[number]);
            detection.devices.back().id = prefix + std::to_string(number);
        }
        for (std::size_t i = 0; i < vendor.devices.size(); ++i) {
            if (position[i] >= 0) continue;
            take(i);
            auto& hidden = detection.devices.back();
            hidden.is_available = false;
            hidden.reason = visible.reasons[i];
            // No number: the runtime does not count it.
            hidden.id = hidden.device.uuid.empty() ? std::string(hidden.device.pci.view())
                                                   : std::string(hidden.device.uuid.view());
            if (hidden.id.empty())
                hidden.id = prefix.substr(0, prefix.size() - 1) + " device " + std::to_string(hidden.index);
        }
        for (auto& link : vendor.links) {
            link.first = position[static_cast<std::size_t>(link.first)];
            link.second = position[static_cast<std::size_t>(link.second)];
            detection.links.push_back(std::move(link));
        }
        for (auto& warning : vendor.warnings) detection.warnings.push_back(std::move(warning));
    }

    /// CUDA's numbers of different GPUs are a guess unless the order is set; instances are shown one to a process.
    void warn_of_order(Detection& detection) const {
        DetectedDevice const* first = nullptr;
        bool is_mixed = false;
        int instances = 0;
        for (auto const& found : detection.devices) {
            if (found.device.kind != DeviceKind::cuda || !found.is_available) continue;
            instances += found.parent.empty() ? 0 : 1;
            is_mixed = is_mixed || (first != nullptr && first->name != found.name);
            first = &found;
        }
        if (is_mixed && options_.environment.cuda_device_order != "PCI_BUS_ID") {
            detection.warnings.push_back(
                "the GPUs differ, so that CUDA numbers them by its own guess of their speed: set "
                "CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID");
        }
        if (instances > 1) {
            detection.warnings.push_back(
                "CUDA shows a process one MIG instance only: start one process for each, with its "
                "UUID in CUDA_VISIBLE_DEVICES");
        }
    }

    void add_processor(Detection& detection, AppleSystem const& apple) const {
        auto& processor = detection.processor;
        if (!apple.chip.empty()) {
            processor.name = apple.chip;
            processor.cores = apple.cores;
            processor.threads = processor.usable_threads = apple.threads;
            detection.memory = {apple.memory, apple.memory, Bytes{-1}};
        }
        DetectedDevice found;
        found.id = "cpu";
        found.name = processor.name;
        found.index = 0;
        found.near_processors = files_.word("/sys/devices/system/cpu/online").value_or("");
        found.clock = processor.hertz;
        auto& device = found.device;
        device.name.assign(processor.name);
        device.kind = DeviceKind::cpu;
        device.id = DeviceId::cpu();
        device.memory = detection.memory.total;
        device.memory_free = detection.memory.available;
        device.peak = peak_rates(processor);
        // Nothing but a measurement tells it: `calibrate`.
        device.bandwidth = 0.0;
        device.link = pcie4;
        for (auto const& other : detection.devices) {
            auto const link = pcie_link(other);
            if (other.pcie_generation > 0 && link.bandwidth > device.link.bandwidth) device.link = link;
        }
        found.is_available = device.memory > Bytes{};
        if (!found.is_available) found.reason = "the system does not tell its memory";
        detection.devices.push_back(std::move(found));
    }

    /// Numbers the available accelerators from 0, in order.
    static void number(Detection& detection) {
        std::int32_t next = 0;
        for (auto& found : detection.devices) {
            if (found.is_available && found.device.id.kind == DeviceClass::gpu) found.device.id = DeviceId::gpu(next++);
        }
        for (auto& found : detection.devices) {
            if (!found.is_available && found.device.id.kind == DeviceClass::gpu)
                found.device.id = DeviceId::gpu(next++);
        }
    }

    /// What a device says of its way to its peers: the link that it has to all of them, else PCIe.
    static void set_links(Detection& detection) {
        for (std::size_t i = 0; i < detection.devices.size(); ++i) {
            auto& found = detection.devices[i];
            if (found.device.id.kind != DeviceClass::gpu) continue;
            found.device.link = pcie_link(found);
            std::optional<Link> common;
            bool is_same = true;
            for (auto const& link : detection.links) {
                if (link.first != static_cast<std::int32_t>(i) && link.second != static_cast<std::int32_t>(i)) continue;
                is_same = is_same && (!common || *common == link.link);
                common = link.link;
            }
            if (common && is_same) found.device.link = *common;
        }
    }

    DetectionOptions const& options_;
    SystemFiles files_;
    CallWatch& watch_;
};

/// What a watched detection and its watcher share; whoever is last lets it go.
struct WatchedDetection {
    DetectionOptions options;
    CallWatch watch;
    std::mutex mutex;
    std::condition_variable is_done;
    std::optional<Result<Detection>> result;

    void run() {
        auto found = [this]() -> Result<Detection> {
            try {
                return Detector(options, watch).detect();
            } catch (std::bad_alloc const&) {
                return Error{ErrorCode::capacity_exceeded}.because(
                    "this machine has not enough memory to look at its devices");
            }
        }();
        std::lock_guard const lock(mutex);
        result = std::move(found);
        is_done.notify_all();
    }
};

}  // namespace detail

/// The devices of this machine: NVIDIA's by NVML, AMD's by amd_smi or the kernel, Apple's, and the processor; each with
/// what it holds, and whether this process may use it or why not. A missing driver is no device.
///
/// A driver that hangs does not hang the caller: detection runs in a thread of its own, and after `options.deadline`
/// the answer is an error that names the call that has not returned. The thread then stays behind, inside the driver.
///
/// Order   NVIDIA's visible devices as CUDA numbers them, its hidden ones, AMD's alike, Apple's, the processor
/// Errors  backend_failure with the name of the vendor's call: a driver is broken, or does not answer in time
[[nodiscard]] inline Result<Detection> detect_devices(DetectionOptions const& options = {}) {
    if (options.deadline <= std::chrono::milliseconds::zero()) {
        CallWatch watch;
        return detail::Detector(options, watch).detect();
    }
    auto const shared = std::make_shared<detail::WatchedDetection>();
    shared->options = options;
    try {
        std::thread([shared] { shared->run(); }).detach();
    } catch (std::system_error const&) {
        return Error{ErrorCode::capacity_exceeded}.because("the system gives no thread to look at devices from");
    }
    std::unique_lock lock(shared->mutex);
    if (!shared->is_done.wait_for(lock, options.deadline, [&] { return shared->result.has_value(); })) {
        auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(options.deadline).count();
        return Error{ErrorCode::backend_failure}
            .in(shared->watch.current())
            .because("has not returned in " + std::to_string(seconds) + " s")
            .fix("the driver hangs: see dmesg; a restart usually helps");
    }
    return *std::move(shared->result);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
