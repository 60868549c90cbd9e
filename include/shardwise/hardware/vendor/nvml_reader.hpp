// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/preset_rates.hpp>
#include <shardwise/hardware/system/processor.hpp>
#include <shardwise/hardware/vendor/nvml_session.hpp>
#include <shardwise/hardware/vendor/pci_path.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A GPU with its handle.
struct NvmlGpu {
    DetectedDevice found;
    NvmlHandle handle = nullptr;
    /// Places for MIG instances; 0 where it cannot be split.
    std::int32_t max_instances = 0;
};

/// Reads one GPU after the other from NVML.
class NvmlReader {
public:
    NvmlReader(NvmlSession const& session, SystemFiles const& files) : session_(session), files_(files) {}

    /// The GPU of this number. One that this user may not open is not available and has neither name nor UUID:
    /// containers and control groups keep GPUs from their users, and nothing is broken then.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<NvmlGpu> gpu(int index) const {
        NvmlGpu gpu;
        gpu.found.index = index;
        auto const& api = session_.api();
        if (!api.handle) return session_.lacks(api.handle.name);
        auto const status = session_.status_of(api.handle, static_cast<unsigned>(index), &gpu.handle);
        if (status == nvml_no_permission) {
            gpu.handle = nullptr;
            gpu.found.is_available = false;
            gpu.found.reason = "this user may not open it (" + std::string(api.handle.name) + ": no permission)";
            return gpu;
        }
        if (status != nvml_success) return session_.failure(api.handle.name, status, index);
        if (auto const read = identity(gpu); !read) return read.error();
        if (auto const read = memory(gpu.found, gpu.handle, index); !read) return read.error();
        if (auto const read = speed(gpu); !read) return read.error();
        if (auto const read = nearness(gpu); !read) return read.error();
        if (auto const read = mig_mode(gpu); !read) return read.error();
        return gpu;
    }

    /// The MIG instances of a GPU that is split.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<std::vector<DetectedDevice>> instances(NvmlGpu const& gpu) const {
        std::vector<DetectedDevice> found;
        auto const& api = session_.api();
        for (std::int32_t place = 0; gpu.found.is_split && place < gpu.max_instances; ++place) {
            NvmlHandle handle = nullptr;
            auto const got =
                session_.ask(api.mig_handle, gpu.found.index, gpu.handle, static_cast<unsigned>(place), &handle);
            if (!got) return got.error();
            // Places may be empty in between.
            if (!*got) continue;
            auto instance = mig_instance(gpu, handle);
            if (!instance) return instance.error();
            found.push_back(*std::move(instance));
        }
        return found;
    }

private:
    template <std::size_t size>
    static std::string text_of(std::array<char, size>& buffer) {
        buffer.back() = '\0';
        return buffer.data();
    }

    Result<> identity(NvmlGpu& gpu) const {
        auto const& api = session_.api();
        auto& found = gpu.found;
        std::array<char, 96> text{};
        if (auto const got = session_.require(api.name, found.index, gpu.handle, text.data(), unsigned{text.size()});
            !got) {
            return got.error();
        }
        found.name = text_of(text);
        found.device.name.assign(found.name);
        text = {};
        if (auto const got = session_.require(api.uuid, found.index, gpu.handle, text.data(), unsigned{text.size()});
            !got) {
            return got.error();
        }
        found.device.uuid.assign(text_of(text));
        NvmlPciInfo pci{};
        auto const got = session_.ask(api.pci_info, found.index, gpu.handle, &pci);
        if (!got) return got.error();
        found.device.pci.assign(pci.bus_id[0] != '\0' ? text_of(pci.bus_id) : text_of(pci.legacy_bus_id));
        int major = 0;
        int minor = 0;
        auto const known = session_.ask(api.compute_capability, found.index, gpu.handle, &major, &minor);
        if (!known) return known.error();
        if (*known && major > 0)
            found.device.architecture.assign("sm_" + std::to_string(major) + std::to_string(minor));
        return {};
    }

    /// Memory in bytes; a GPU that shares the host's memory has none of its own.
    Result<> memory(DetectedDevice& found, NvmlHandle handle, int index) const {
        NvmlMemory memory{};
        auto const got = session_.require(session_.api().memory_info, index, handle, &memory);
        if (!got) return got.error();
        if (!*got) {
            auto const shared = read_system_memory(files_);
            found.device.memory = shared.total;
            found.device.memory_free = shared.available;
            return {};
        }
        constexpr auto most = static_cast<unsigned long long>(INT64_MAX);
        if (memory.total > most) {
            return Error{ErrorCode::backend_failure}
                .in(session_.api().memory_info.name)
                .because("tells an impossible size");
        }
        found.device.memory = Bytes{static_cast<std::int64_t>(memory.total)};
        found.device.memory_free =
            Bytes{static_cast<std::int64_t>(memory.free < memory.total ? memory.free : memory.total)};
        return {};
    }

    /// Rates of the preset of its name, else clock times width.
    Result<> speed(NvmlGpu& gpu) const {
        auto const& api = session_.api();
        auto& found = gpu.found;
        constexpr unsigned sm_clock = 1;
        constexpr unsigned memory_clock = 2;
        unsigned megahertz = 0;
        unsigned memory_megahertz = 0;
        unsigned bits = 0;
        unsigned cores = 0;
        unsigned generation = 0;
        unsigned lanes = 0;
        struct Question {
            Result<bool> answer;
            unsigned& value;
        };
        Question questions[]{
            {session_.ask(api.max_clock, found.index, gpu.handle, sm_clock, &megahertz), megahertz},
            {session_.ask(api.max_clock, found.index, gpu.handle, memory_clock, &memory_megahertz), memory_megahertz},
            {session_.ask(api.bus_width, found.index, gpu.handle, &bits), bits},
            {session_.ask(api.cores, found.index, gpu.handle, &cores), cores},
            {session_.ask(api.pcie_generation, found.index, gpu.handle, &generation), generation},
            {session_.ask(api.pcie_width, found.index, gpu.handle, &lanes), lanes},
        };
        for (auto& question : questions) {
            if (!question.answer) return question.answer.error();
            // No device has a clock of 100 GHz, a bus or cores beyond this; what a driver writes there is noise.
            if (!*question.answer || question.value > 100000) question.value = 0;
        }
        found.clock = megahertz * 1e6;
        found.pcie_generation = static_cast<std::int32_t>(generation);
        found.pcie_lanes = static_cast<std::int32_t>(lanes);
        if (take_preset_rates(found)) return {};
        // Two transfers in a clock; two operations in a fused multiply-add.
        found.device.bandwidth = 2.0 * memory_megahertz * 1e6 * bits / 8.0;
        found.device.peak.fp32 = 2.0 * cores * found.clock;
        return {};
    }

    Result<> nearness(NvmlGpu& gpu) const {
        auto const& api = session_.api();
        auto& found = gpu.found;
        constexpr std::size_t words = 16;
        std::array<unsigned long, words> processors{};
        auto const got = session_.ask(api.cpu_affinity, found.index, gpu.handle, unsigned{words}, processors.data());
        if (!got) return got.error();
        auto const near = *got ? bits_of(processors) : std::vector<std::int64_t>{};
        found.near_processors = list_text(near);
        if (near.empty()) found.near_processors = pci_near_processors(files_, found.device.pci.view());
        found.device.numa = pci_numa_node(files_, found.device.pci.view());
        if (found.device.numa >= 0) return {};
        std::array<unsigned long, words> nodes{};
        constexpr unsigned node_scope = 0;
        auto const asked =
            session_.ask(api.memory_affinity, found.index, gpu.handle, unsigned{words}, nodes.data(), node_scope);
        if (!asked) return asked.error();
        if (auto const numbers = bits_of(nodes); *asked && !numbers.empty()) {
            found.device.numa = static_cast<std::int32_t>(numbers.front());
        }
        return {};
    }
    static std::vector<std::int64_t> bits_of(std::array<unsigned long, 16> const& words) {
        std::vector<std::int64_t> numbers;
        constexpr std::size_t width = sizeof(unsigned long) * 8;
        for (std::size_t bit = 0; bit < words.size() * width; ++bit) {
            if ((words[bit / width] >> (bit % width) & 1UL) != 0) numbers.push_back(static_cast<std::int64_t>(bit));
        }
        return numbers;
    }
    /// {0, 1, 2, 8} as "0-2,8"
    static std::string list_text(std::vector<std::int64_t> const& numbers) {
        std::string text;
        for (std::size_t i = 0; i < numbers.size();) {
            auto last = i;
            while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
            text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
            if (last > i) text += "-" + std::to_string(numbers[last]);
            i = last + 1;
        }
        return text;
    }

    Result<> mig_mode(NvmlGpu& gpu) const {
        auto const& api = session_.api();
        unsigned current = 0;
        unsigned pending = 0;
        auto const got = session_.ask(api.mig_mode, gpu.found.index, gpu.handle, &current, &pending);
        if (!got) return got.error();
        gpu.found.is_split = *got && current == 1;
        if (!gpu.found.is_split) return {};
        unsigned most = 0;
        auto const asked = session_.ask(api.max_mig_count, gpu.found.index, gpu.handle, &most);
        if (!asked) return asked.error();
        // 7 on every GPU so far.
        constexpr unsigned absurd = 64;
        gpu.max_instances = *asked && most <= absurd ? static_cast<std::int32_t>(most) : 0;
        return {};
    }

    Result<DetectedDevice> mig_instance(NvmlGpu const& gpu, NvmlHandle handle) const {
        auto const& api = session_.api();
        auto const index = gpu.found.index;
        auto instance = gpu.found;
        instance.is_split = false;
        instance.index = -1;
        instance.parent = gpu.found.device.uuid.view();
        std::array<char, 96> text{};
        if (auto const got = session_.require(api.uuid, index, handle, text.data(), unsigned{text.size()}); !got)
            return got.error();
        instance.device.uuid.assign(text_of(text));
        if (auto const read = memory(instance, handle, index); !read) return read.error();
        unsigned gpu_instance = 0;
        unsigned compute_instance = 0;
        auto const got_gpu = session_.ask(api.gpu_instance, index, handle, &gpu_instance);
        if (!got_gpu) return got_gpu.error();
        auto const got_compute = session_.ask(api.compute_instance, index, handle, &compute_instance);
        if (!got_compute) return got_compute.error();
        if (*got_gpu && gpu_instance < 64) instance.gpu_instance = static_cast<std::int32_t>(gpu_instance);
        if (*got_compute && compute_instance < 64)
            instance.compute_instance = static_cast<std::int32_t>(compute_instance);
        NvmlAttributes attributes{};
        auto const got = session_.ask(api.attributes, index, handle, &attributes);
        if (!got) return got.error();
        text = {};
        auto const named = session_.ask(api.name, index, handle, text.data(), unsigned{text.size()});
        if (!named) return named.error();
        if (*named && text[0] != '\0') instance.name = text_of(text);
        auto const slices = *got ? attributes.compute_slices : 0U;
        if (slices > 0 && instance.name == gpu.found.name) instance.name += " MIG " + profile(attributes);
        instance.device.name.assign(instance.name);
        scale(instance.device, gpu, slices);
        return instance;
    }
    /// "3g.20gb", as nvidia-smi names profiles.
    static std::string profile(NvmlAttributes const& attributes) {
        auto const gigabytes = (attributes.memory_mebibytes + 1023) / 1024;
        auto const whole = std::to_string(attributes.gpu_slices) + "g." + std::to_string(gigabytes) + "gb";
        if (attributes.compute_slices == attributes.gpu_slices) return whole;
        return std::to_string(attributes.compute_slices) + "c." + whole;
    }
    /// An instance has its share of the memory's bandwidth and of the processors.
    static void scale(Device& device, NvmlGpu const& gpu, unsigned slices) {
        auto const whole = gpu.found.device.memory.count();
        auto const share = whole > 0 ? static_cast<double>(device.memory.count()) / static_cast<double>(whole) : 0.0;
        auto const compute = gpu.max_instances > 0 ? static_cast<double>(slices) / gpu.max_instances : 0.0;
        device.bandwidth *= share;
        for (auto* rate : {&device.peak.fp32, &device.peak.bf16, &device.peak.fp8, &device.peak.int8, &device.peak.fp16,
                           &device.peak.fp64, &device.peak.fp4}) {
            *rate *= compute;
        }
    }

    NvmlSession const& session_;
    SystemFiles const& files_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
