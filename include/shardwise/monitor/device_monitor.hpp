// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/detect.hpp>
#include <shardwise/hardware/find_device.hpp>
#include <shardwise/monitor/amd_watch.hpp>
#include <shardwise/monitor/host_reader.hpp>
#include <shardwise/monitor/host_sample.hpp>
#include <shardwise/monitor/monitor_notes.hpp>
#include <shardwise/monitor/nvidia_watch.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What is watched.
struct MonitorOptions {
    /// Devices as `select_devices` takes them ("cuda:0,GPU-3f2a"); "cpu" is the host alone; "" all that this process may use.
    std::string devices;
    /// Where devices and the kernel's files are looked for.
    DetectionOptions detection{};
};

/// Watches the devices of this machine and the host. What a device does not tell stays empty, and a note says why, once.
///
/// Memory  a look allocates nothing once the first two are done, but for notes
/// Order   of one thread at a time
/// Example  auto monitor = DeviceMonitor::open({}); MonitorSample sample; monitor->read(sample);
class DeviceMonitor {
public:
    /// Finds the devices and opens their libraries. Where all are asked for, a broken driver is a note and the host is
    /// watched alone.
    ///
    /// Errors  no_such_device; backend_failure where devices are named
    [[nodiscard]] static Result<DeviceMonitor> open(MonitorOptions const& options) {
        DeviceMonitor out(options);
        auto detection = detect_devices(options.detection);
        if (!detection) {
            if (!options.devices.empty()) return detection.error();
            out.notes_.add(detection.error().message() + "; only the host is watched");
            return Result<DeviceMonitor>(std::move(out));
        }
        for (auto const& warning : detection->warnings) out.notes_.add(warning);
        std::vector<std::size_t> chosen;
        if (options.devices.empty()) {
            for (std::size_t i = 0; i < detection->devices.size(); ++i) {
                if (detection->devices[i].is_available) chosen.push_back(i);
            }
        } else {
            auto named = select_devices(detection->devices, options.devices);
            if (!named) return named.error();
            chosen = *std::move(named);
        }
        for (auto const position : chosen) {
            auto const added = out.add(detection->devices[position], options);
            if (!added && !options.devices.empty()) return added.error();
            if (!added) out.notes_.add(added.error().message());
        }
        return Result<DeviceMonitor>(std::move(out));
    }

    /// The accelerators that are watched.
    [[nodiscard]] std::vector<MonitoredDevice> const& devices() const { return devices_; }

    /// Looks once more. What is counted from look to look (processors, activity) is empty the first time.
    void read(MonitorSample& out) {
        using namespace std::chrono;
        auto const now = steady_clock::now();
        out.time = duration<double>(system_clock::now().time_since_epoch()).count();
        out.elapsed = duration<double>(now - begin_).count();
        watch_->begin("read of the kernel's files below /proc");
        host_.read(out.host, out.cores);
        out.devices.resize(devices_.size());
        for (std::size_t i = 0; i < places_.size(); ++i) {
            auto const place = places_[i];
            if (place.is_nvidia)
                nvidia_->read(place.index, out.devices[i], notes_);
            else
                amd_[place.index].read(out.devices[i], notes_);
        }
        watch_->begin("");
    }

    /// Why something stays unknown, a sentence for each; grows with looks.
    [[nodiscard]] std::vector<std::string> const& notes() const { return notes_.all(); }
    /// Which vendor's call a look is in, "" between looks; may be asked by other threads.
    [[nodiscard]] std::shared_ptr<CallWatch const> watch() const { return watch_; }

private:
    struct Place {
        bool is_nvidia;
        std::size_t index;
    };

    explicit DeviceMonitor(MonitorOptions const& options)
        : files_(options.detection.root), watch_(std::make_shared<CallWatch>()), host_(files_) {
        for (auto const& note : host_.notes()) notes_.add(note);
    }

    /// Adds an accelerator; the processor is watched anyway.
    Result<> add(DetectedDevice const& found, MonitorOptions const& options) {
        auto const& device = found.device;
        bool const is_nvidia = device.kind == DeviceKind::cuda;
        if (!is_nvidia && device.kind != DeviceKind::hip) return {};
        Place place{is_nvidia, amd_.size()};
        if (is_nvidia) {
            if (!nvidia_) {
                auto opened = NvidiaWatch::open(options.detection.nvml_library, *watch_);
                if (!opened) return opened.error();
                nvidia_ = *std::move(opened);
                if (!nvidia_) {
                    return Error{ErrorCode::no_such_device}.in(found.id).because("is not there any more: its driver is gone");
                }
            }
            place.index = nvidia_->size();
            auto const added = nvidia_->add(std::string(device.uuid.view()), found.id, !found.parent.empty());
            if (!added) return added.error();
        } else {
            amd_.emplace_back(files_, *watch_, device.pci.view(), found.id);
        }
        places_.push_back(place);
        devices_.push_back({found.id, found.name, std::string(device.uuid.view()), std::string(device.pci.view()),
                            found.parent});
        return {};
    }

    SystemFiles files_;
    std::shared_ptr<CallWatch> watch_;
    std::unique_ptr<NvidiaWatch> nvidia_;
    std::vector<AmdWatch> amd_;
    HostReader host_;
    std::vector<MonitoredDevice> devices_;
    std::vector<Place> places_;
    MonitorNotes notes_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
