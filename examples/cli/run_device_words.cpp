// SPDX-License-Identifier: Apache-2.0
#include "run_device_words.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/description.hpp>

#include "choices.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardwise::cli {

namespace {

struct VendorWord {
    std::string_view start;
    DeviceVendor vendor;
};
constexpr VendorWord vendor_words[] = {
    {"cuda:", DeviceVendor::cuda}, {"hip:", DeviceVendor::hip}, {"rocm:", DeviceVendor::hip}};

[[nodiscard]] std::optional<VendorWord> vendor_of(std::string_view word) {
    for (auto const& known : vendor_words) {
        if (equal_ignoring_case(word.substr(0, known.start.size()), known.start)) return known;
    }
    return std::nullopt;
}

[[nodiscard]] Error refuse(std::string_view word) {
    Error error{ErrorCode::invalid_argument};
    return error.in("--devices").at(word);
}

/// Adds the device that a word names.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> add_device(std::string_view word, RunDevices& devices) {
    auto const known = vendor_of(word);
    if (!known || (!devices.empty() && known->vendor != devices.vendor)) {
        return refuse(word)
            .because("is no device of the vendor that is named first, and ranks compute on one vendor's")
            .fix("write cuda:0,cuda:1 or hip:0,hip:1");
    }
    auto const digits = word.substr(known->start.size());
    std::int32_t number = 0;
    auto const [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (problem != std::errc{} || last != digits.data() + digits.size() || number < 0)
        return refuse(word).because("has no number of a device").fix("write cuda:0");
    if (std::find(devices.numbers.begin(), devices.numbers.end(), number) != devices.numbers.end())
        return refuse(word).because("is named before").fix("name each device once; --tp N puts several ranks on one");
    devices.vendor = known->vendor;
    devices.numbers.push_back(number);
    return {};
}

}  // namespace

bool lists_run_devices(Arguments const& arguments) {
    if (!arguments.devices || arguments.strategy) return false;
    // A path is a description file, whatever it begins with.
    return vendor_of(*arguments.devices) && arguments.devices->find('/') == std::string::npos;
}

Result<RunDevices> read_run_devices(Arguments const& arguments, std::vector<std::string>& warnings) {
    RunDevices devices;
    if (!arguments.devices) return devices;
    if (!lists_run_devices(arguments)) {
        auto const choice = choose_devices(*arguments.devices);
        if (!choice) return choice.error();
        warnings.insert(warnings.end(), choice->warnings.begin(), choice->warnings.end());
        return runtime_devices(choice->accelerators);
    }
    for (auto const word : split_devices(*arguments.devices)) {
        if (auto const added = add_device(word, devices); !added) return added.error();
    }
    return devices;
}

Result<> check_storage_words(Arguments const& arguments, bool has_accelerators) {
    if (!arguments.devices || arguments.strategy || !(has_accelerators || lists_run_devices(arguments))) return {};
    for (auto const word : split_devices(*arguments.devices)) {
        auto const name = word.substr(0, word.find(':'));
        if (equal_ignoring_case(name, "cpu") || equal_ignoring_case(name, "disk")) {
            return refuse(word)
                .because(arguments.map ? "is for --strategy: --map says which layers are there"
                                       : "beside devices is for layers that a strategy places there")
                .fix(arguments.map ? "leave it out" : "add --strategy auto");
        }
    }
    return {};
}

Result<RunDevices> runtime_devices(std::vector<OwnAccelerator> const& accelerators) {
    RunDevices devices;
    for (auto const& accelerator : accelerators) {
        if (!vendor_of(accelerator.word)) {
            return Error{ErrorCode::unsupported}
                .in("--devices")
                .at(accelerator.word)
                .because("is a device that no back end computes on")
                .fix("name others: cuda:0, hip:0 or cpu");
        }
        if (auto const added = add_device(accelerator.word, devices); !added) return added.error();
    }
    return devices;
}

Result<DeviceComm> read_comm(Arguments const& arguments, RunDevices const& devices) {
    if (!arguments.comm) return DeviceComm::automatic;
    auto const comm = choose<DeviceComm>("--comm", *arguments.comm, device_comm_choices);
    if (!comm || !devices.empty()) return comm;
    return Error{ErrorCode::unsupported}
        .in("--comm")
        .because("is for devices, and this run computes on the processor")
        .fix("name them: --devices cuda:0");
}

Result<Dtype> read_activations(Arguments const& arguments, RunDevices const& devices) {
    if (!arguments.activations) return Dtype::f32;
    auto const dtype = choose<Dtype>("--activations", *arguments.activations, activation_choices);
    if (!dtype || !devices.empty() || *dtype == Dtype::f32) return dtype;
    return Error{ErrorCode::unsupported}
        .in("--activations")
        .at(*arguments.activations)
        .because("is for devices, and this run computes on the processor, whose activations are fp32")
        .fix("name them: --devices cuda:0");
}

Result<List<AllReduceTime>> read_peer_sums(Arguments const& arguments, RunDevices const& devices) {
    if (!arguments.calibration) return List<AllReduceTime>{};
    if (devices.empty()) {
        return Error{ErrorCode::unsupported}
            .in("--calibration")
            .because("is for ranks on devices, and this run computes on the processor")
            .fix("name them: --devices cuda:0");
    }
    auto machine = read_topology_file(*arguments.calibration);
    if (!machine) return machine.error();
    if (machine->all_reduce.empty()) {
        return Error{ErrorCode::invalid_argument}
            .in("--calibration")
            .at(*arguments.calibration)
            .because("has no sums over ranks on devices")
            .fix("measure them: shardwise calibrate --out FILE --devices cuda:0,cuda:1");
    }
    return std::move(machine->all_reduce);
}

}  // namespace shardwise::cli
