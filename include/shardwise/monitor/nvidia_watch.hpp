// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/nvml_session.hpp>
#include <shardwise/monitor/counter_track.hpp>
#include <shardwise/monitor/device_sample.hpp>
#include <shardwise/monitor/monitor_notes.hpp>
#include <shardwise/monitor/nvml_calls.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// One NVIDIA GPU, or MIG instance, that is looked at again and again.
class NvidiaDevice {
public:
    NvidiaDevice(NvmlHandle handle, std::string name, bool is_instance)
        : handle_(handle), name_(std::move(name)), is_instance_(is_instance) {}
    NvidiaDevice(NvidiaDevice&&) noexcept = default;
    NvidiaDevice& operator=(NvidiaDevice&&) noexcept = default;
    ~NvidiaDevice() = default;

    /// Looks once more. A call that fails leaves its value empty, and is not made again where its failure lasts.
    void read(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        out = {};
        read_all(session, api, out, notes);
        if (!is_lost_) return;
        out = {};
        out.is_lost = true;
    }

    /// What is asked of GPM is held until the library is closed.
    void close(NvmlMonitorApi const& api) {
        for (auto*& sample : gpm_) {
            if (sample != nullptr && api.gpm_free) api.gpm_free.function(sample);
            sample = nullptr;
        }
    }

private:
    /// Calls that may be given up, each with its bit.
    enum Call : unsigned { utilization = 1, memory = 2, temperature = 4, clock = 8, memory_clock = 16, reasons = 32,
                           processes = 64, fields = 128, energy = 256, power = 512, gpm = 1024 };

    /// True where a call succeeded.
    template <class Function, class... Arguments>
    bool ask(NvmlSession const& session, MonitorNotes& notes, Call bit, VendorCall<Function> const& call,
             Arguments... arguments) {
        if (is_lost_ || (given_up_ & bit) != 0) return false;
        if (!call) return give_up(notes, bit, call.name, "is missing from the NVIDIA management library");
        auto const status = session.status_of(call, arguments...);
        return status == nvml_success || fail(session, notes, bit, call.name, status);
    }
    bool fail(NvmlSession const& session, MonitorNotes& notes, Call bit, char const* call, int status) {
        if (status == nvml_gpu_is_lost) {
            is_lost_ = true;
            notes.add(name_ + " is lost (" + call + ": status 15): it fell off the bus; its values end here; see dmesg, a "
                              "restart usually brings it back");
            return false;
        }
        auto const* const words = session.api().error_string ? session.api().error_string.function(status) : nullptr;
        std::string reason = "failed with " + std::string(words == nullptr ? "an unnamed status" : words) + " (" +
                             std::to_string(status) + ")";
        if (status == nvml_no_permission) {
            reason += ": this user may not ask; nvidia-smi as root, or the driver's option "
                      "NVreg_RestrictProfilingToAdminUsers=0 for counters, mends it";
        }
        if (status == nvml_not_supported && is_instance_) reason += ": MIG instances do not tell it";
        bool const may_pass = status == nvml_no_data || status == nvml_unknown;
        return may_pass ? (notes.add(name_ + ": " + call + " " + reason), false) : give_up(notes, bit, call, reason);
    }
    bool give_up(MonitorNotes& notes, Call bit, char const* call, std::string const& reason) {
        given_up_ |= bit;
        notes.add(name_ + ": " + call + " " + reason);
        return false;
    }

    void read_all(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        read_memory(session, api, out, notes);
        NvmlUtilization rates{};
        if (ask(session, notes, utilization, api.utilization, handle_, &rates) && rates.gpu <= 100)
            out.utilization = rates.gpu;
        constexpr unsigned at_the_chip = 0;
        unsigned value = 0;
        if (ask(session, notes, temperature, api.temperature, handle_, at_the_chip, &value)) out.temperature = value;
        constexpr unsigned sm = 1;
        constexpr unsigned mem = 2;
        if (ask(session, notes, clock, api.clock, handle_, sm, &value)) out.clock = value * 1e6;
        if (ask(session, notes, memory_clock, api.clock, handle_, mem, &value)) out.memory_clock = value * 1e6;
        unsigned long long bits = 0;
        if (ask(session, notes, reasons, api.throttle_reasons, handle_, &bits)) out.throttle_reasons = bits;
        read_processes(session, api, out, notes);
        read_fields(session, api, out, notes);
        if (!out.power && ask(session, notes, power, api.power, handle_, &value)) out.power = value * 1e-3;
        if (!out.energy && ask(session, notes, energy, api.energy, handle_, &bits)) {
            energy_.advance(bits);
            out.energy = energy_.total() * 1e-3;
        }
        read_gpm(session, api, out, notes);
    }

    /// Used memory as nvidia-smi shows it; drivers before 510 count what they reserve as used.
    void read_memory(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        unsigned long long total = 0;
        unsigned long long used = 0;
        NvmlMemoryV2 newer{nvml_memory_v2, 0, 0, 0, 0};
        has_memory_v2_ = has_memory_v2_ && api.memory_info && !is_lost_;
        if (has_memory_v2_) {
            auto const status = session.status_of(api.memory_info, handle_, &newer);
            if (status == nvml_gpu_is_lost) return (void)fail(session, notes, memory, api.memory_info.name, status);
            has_memory_v2_ = status == nvml_success;
            total = newer.total;
            used = newer.used;
        }
        if (!has_memory_v2_) {
            NvmlMemory older{};
            if (!ask(session, notes, memory, session.api().memory_info, handle_, &older)) return;
            total = older.total;
            used = older.used;
        }
        if (total > INT64_MAX || used > total) return;
        out.memory_total = Bytes{static_cast<std::int64_t>(total)};
        out.memory_used = Bytes{static_cast<std::int64_t>(used)};
    }

    void read_processes(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        if (is_lost_ || (given_up_ & processes) != 0) return;
        if (!api.processes) return (void)give_up(notes, processes, api.processes.name, "is missing from the library");
        unsigned count = 0;
        // With room for none it tells how many there are.
        auto const status = session.status_of(api.processes, handle_, &count, static_cast<void*>(nullptr));
        if (status == nvml_success || status == nvml_insufficient_size)
            out.processes = static_cast<std::int32_t>(std::min(count, 65535U));
        else
            (void)fail(session, notes, processes, api.processes.name, status);
    }

    /// A counter's value and how many values it has before it begins again; false for a type that counts nothing.
    static bool counter_of(NvmlFieldValue const& field, std::uint64_t& value, std::uint64_t& range) {
        range = 0;
        if (field.type == 1) return value = field.value.small, range = std::uint64_t{1} << 32U, true;
        if (field.type == 2 || field.type == 3) return value = field.value.large, true;
        return false;
    }

    /// Energy, power, and bytes over PCIe and NVLink in one call.
    void read_fields(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        // NVML_FI_DEV_*: memory temperature, energy in mJ, power now in mW, PCIe bytes sent and received, NVLink KiB sent and
        // received, over all links.
        constexpr std::array<unsigned, 7> ids{82, 83, 186, 197, 198, 138, 139};
        constexpr unsigned all_links = ~0U;
        std::array<NvmlFieldValue, ids.size()> values{};
        for (std::size_t i = 0; i < ids.size(); ++i) {
            values[i].field = ids[i];
            values[i].scope = i >= 5 ? all_links : 0U;
            values[i].status = nvml_unknown;
        }
        if (!ask(session, notes, fields, api.field_values, handle_, int{ids.size()}, values.data())) return;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (values[i].status == nvml_gpu_is_lost) return (void)fail(session, notes, fields, api.field_values.name, 15);
            std::uint64_t value = 0;
            std::uint64_t range = 0;
            if (values[i].status != nvml_success || !counter_of(values[i], value, range)) continue;
            switch (ids[i]) {
                case 82: out.memory_temperature = static_cast<double>(value); break;
                case 83: energy_.advance(value), out.energy = energy_.total() * 1e-3; break;
                case 186: out.power = static_cast<double>(value) * 1e-3; break;
                case 197: pcie_sent_.advance(value, range), out.pcie_sent = pcie_sent_.total(); break;
                case 198: pcie_received_.advance(value, range), out.pcie_received = pcie_received_.total(); break;
                case 138: nvlink_sent_.advance(value, range), out.nvlink_sent = nvlink_sent_.total() * 1024.0; break;
                case 139: nvlink_received_.advance(value, range), out.nvlink_received = nvlink_received_.total() * 1024.0; break;
            }
        }
    }

    /// What the counters of Hopper and later say of the time since the look before.
    void read_gpm(NvmlSession const& session, NvmlMonitorApi const& api, DeviceSample& out, MonitorNotes& notes) {
        if (is_lost_ || is_instance_ || (given_up_ & gpm) != 0) return;
        if (!has_asked_gpm_) {
            has_asked_gpm_ = true;
            NvmlGpmSupport support{1, 0};
            bool const is_whole = api.gpm_support && api.gpm_alloc && api.gpm_free && api.gpm_sample && api.gpm_metrics;
            if (!is_whole || session.status_of(api.gpm_support, handle_, &support) != nvml_success ||
                support.is_supported == 0) {
                given_up_ |= gpm;
                notes.add(name_ + ": SM, tensor and DRAM activity stay unknown: NVML tells them from Hopper and driver 525 on");
                return;
            }
            for (auto*& sample : gpm_) {
                if (!ask(session, notes, gpm, api.gpm_alloc, &sample)) return;
            }
        }
        if (!ask(session, notes, gpm, api.gpm_sample, handle_, gpm_[next_])) return;
        next_ = 1 - next_;
        if (!std::exchange(has_gpm_sample_, true)) return;
        if (!question_) question_ = std::make_unique<NvmlGpmQuestion>();
        auto& question = *question_;
        // The older sample comes first. NVML_GPM_METRIC_*: SM_UTIL, ANY_TENSOR_UTIL, DRAM_BW_UTIL.
        question.version = 1;
        question.count = 3;
        question.first = gpm_[next_];
        question.second = gpm_[1 - next_];
        constexpr std::array<unsigned, 3> metrics{2, 5, 10};
        for (std::size_t i = 0; i < metrics.size(); ++i) question.metrics[i] = {metrics[i], nvml_unknown, 0.0, {}};
        if (!ask(session, notes, gpm, api.gpm_metrics, &question)) return;
        auto const metric = [&question](std::size_t i) -> std::optional<double> {
            auto const& one = question.metrics[i];
            bool const is_share = one.status == nvml_success && one.value >= 0.0 && one.value <= 100.0;
            return is_share ? std::optional(one.value) : std::nullopt;
        };
        out.sm_activity = metric(0);
        out.tensor_activity = metric(1);
        out.dram_activity = metric(2);
    }

    NvmlHandle handle_;
    std::string name_;
    bool is_instance_;
    bool is_lost_ = false;
    unsigned given_up_ = 0;
    CounterTrack energy_, pcie_sent_, pcie_received_, nvlink_sent_, nvlink_received_;
    bool has_memory_v2_ = true;
    bool has_asked_gpm_ = false;
    bool has_gpm_sample_ = false;
    std::array<void*, 2> gpm_{};
    std::size_t next_ = 0;
    std::unique_ptr<NvmlGpmQuestion> question_;
};

}  // namespace detail

/// NVML, held open over many looks at its GPUs.
class NvidiaWatch {
public:
    /// Opens the library; null where there is none or no driver.
    ///
    /// Errors  backend_failure
    [[nodiscard]] static Result<std::unique_ptr<NvidiaWatch>> open(std::string const& library_name, CallWatch& watch) {
        watch.begin("dlopen of NVIDIA's management library");
        auto library = DynamicLibrary::open(library_name);
        if (!library) {
            if (library.error().code() == ErrorCode::file_not_found) return std::unique_ptr<NvidiaWatch>{};
            return library.error();
        }
        auto made = std::unique_ptr<NvidiaWatch>(new NvidiaWatch(*std::move(library), watch));
        auto const is_open = made->session_.open();
        if (!is_open) return is_open.error();
        if (!*is_open) made.reset();
        return Result<std::unique_ptr<NvidiaWatch>>(std::move(made));
    }
    NvidiaWatch(NvidiaWatch const&) = delete;
    NvidiaWatch& operator=(NvidiaWatch const&) = delete;
    ~NvidiaWatch() {
        for (auto& device : devices_) device.close(monitor_api_);
    }

    /// Watches the GPU or MIG instance of this UUID too; `name` is how notes call it.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<> add(std::string const& uuid, std::string name, bool is_instance) {
        auto const& call = monitor_api_.handle_by_uuid;
        if (!call) return session_.lacks(call.name);
        detail::NvmlHandle handle = nullptr;
        auto const status = session_.status_of(call, uuid.c_str(), &handle);
        if (status != detail::nvml_success) {
            auto error = session_.failure(call.name, status, -1);
            return error.at(name);
        }
        devices_.emplace_back(handle, std::move(name), is_instance);
        return {};
    }
    [[nodiscard]] std::size_t size() const { return devices_.size(); }
    /// Looks at one of them once more.
    void read(std::size_t device, DeviceSample& out, MonitorNotes& notes) {
        devices_[device].read(session_, monitor_api_, out, notes);
    }

private:
    NvidiaWatch(DynamicLibrary library, CallWatch& watch)
        : library_(std::move(library)), api_(library_), monitor_api_(library_), session_(api_, watch) {}

    DynamicLibrary library_;
    detail::NvmlApi api_;
    detail::NvmlMonitorApi monitor_api_;
    detail::NvmlSession session_;
    std::vector<detail::NvidiaDevice> devices_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
