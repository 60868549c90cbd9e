// SPDX-License-Identifier: Apache-2.0
#include "run_device_words.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/description.hpp>

#include "choices.hpp"
#include "run_placement.hpp"
#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
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

Result<Optional<Dtype>> read_activations(Arguments const& arguments, RunDevices const& devices) {
    if (!arguments.activations) return Optional<Dtype>{};
    auto const dtype = choose<Dtype>("--activations", *arguments.activations, activation_choices);
    if (!dtype) return dtype.error();
    if (!devices.empty() || *dtype == Dtype::f32) return Optional<Dtype>{*dtype};
    return Error{ErrorCode::unsupported}
        .in("--activations")
        .at(*arguments.activations)
        .because("is for devices, and this run computes on the processor, whose activations are fp32")
        .fix("name them: --devices cuda:0");
}

Result<List<AllReduceTime>> read_peer_sums(Arguments const& arguments, RunDevices const& devices) {
    if (!arguments.calibration) return List<AllReduceTime>{};
    if (devices.empty()) {
        return Error{ErrorCode::invalid_argument}
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

Result<> check_calibration_is_used(Arguments const& arguments, RunOptions const& options, bool is_group) {
    if (!arguments.calibration) return {};
    Error refused{ErrorCode::invalid_argument};
    refused.in("--calibration");
    std::string const of_sums = "says how ranks add up that reach each other's memory, and ";
    if (is_group && options.devices.most_on_one(static_cast<std::int32_t>(options.ranks())) > 1) {
        return refused.because(of_sums + "processes that share a device do not add up so")
            .fix("leave it out, name a device for each rank, or give --ranks threads");
    }
    bool const is_staged = options.comm == DeviceComm::staged;
    if (is_staged || options.comm == DeviceComm::nccl) {
        return refused
            .because(of_sums + "--comm " +
                     (is_staged ? "staged adds up through the host's memory" : "nccl by the vendor's library"))
            .fix("leave it out, or give --comm peers");
    }
    // As their back end says (tries_peers).
    if (options.comm == DeviceComm::automatic && options.devices.vendor == DeviceVendor::hip) {
        return refused.because(of_sums + "--comm auto does not try that on hip").fix("add --comm peers");
    }
    // What is placed is cut by --tp alone.
    if (options.tp > 1 && (arguments.tp || !has_placement(arguments))) return {};
    return refused.because(of_sums + "--tp 1 has no sums").fix("leave it out, or cut layers: --tp 2");
}

void warn_of_missing_sums(Arguments const& arguments, RunOptions const& options, std::vector<std::string>& warnings) {
    if (!arguments.calibration) return;
    std::set<std::int32_t> missing;
    auto const ranks = static_cast<std::int32_t>(options.ranks());
    for (std::int32_t first = 0; first < ranks; first += options.tp) {
        if (options.devices.is_processor(first)) continue;
        auto const devices = options.devices.count_of(first, options.tp);
        if (!two_shot_from(options.peer_sums, options.tp, devices)) missing.insert(devices);
    }
    for (auto const devices : missing) {
        warnings.push_back("--calibration: " + *arguments.calibration + " has no sums over " +
                           counted(options.tp, "rank") + " on " + counted(devices, "device") +
                           ": the table that is built in chooses how they are made");
    }
}

}  // namespace shardwise::cli
