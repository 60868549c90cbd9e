// SPDX-License-Identifier: Apache-2.0
#include "run_profile.hpp"

#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/cost/profile_json.hpp>
#include <shardwise/hardware/detect.hpp>

#include "detect_options.hpp"

namespace shardwise::cli {

namespace {

/// The processor's name as device maps and description files have it.
[[nodiscard]] std::string processor_name() {
    auto const detection = detect_devices(program_detection_options());
    if (detection) {
        for (auto const& found : detection->devices) {
            if (found.device.kind == DeviceKind::cpu) return std::string(found.device.name.view());
        }
    }
    return "cpu";
}

}  // namespace

Result<> check_profile_out(Arguments const& arguments) {
    if (!arguments.profile_out) return {};
    Error error{ErrorCode::invalid_argument};
    if (arguments.profile_out->empty()) return error.in("--profile-out").because("names no file").fix("name one");
    if (!arguments.ep || *arguments.ep == "1") return {};
    return error.in("--profile-out, --ep")
        .because("a profile holds the times of whole layers, and each group has a part of the experts")
        .fix("leave --ep out; tensor-parallel ranks and stages of a pipeline are fine");
}

Result<> write_run_profile(std::string const& path, std::string const& model, BlockTimes const& times,
                           std::int64_t context) {
    if (!times.has_steps()) {
        return Error{ErrorCode::invalid_argument}
            .in("--profile-out")
            .because("nothing was computed that could be measured")
            .fix("generate two tokens or more");
    }
    Profile profile;
    profile.model = model;
    profile.devices.push_back(times.profile(processor_name(), 1, context));
    return write_file(path, write_profile(profile));
}

}  // namespace shardwise::cli
