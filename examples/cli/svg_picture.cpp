// SPDX-License-Identifier: Apache-2.0
#include "svg_picture.hpp"

#include <shardwise/core/files/write_file.hpp>
#include <shardwise/plan/draw_picture.hpp>
#include <shardwise/plan/picture_of_map.hpp>

#include "text.hpp"

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string verdict_of(MapAnswer const& answer) {
    if (answer.fits) return answer.certificate ? "fits: " + certificate_text(*answer.certificate) : std::string("fits");
    auto text = std::string("does not fit");
    if (answer.shortfall) text += ": " + to_text(answer.shortfall->missing) + " are missing";
    if (!answer.reason.empty()) text += ": " + answer.reason;
    return text;
}

}  // namespace

Picture map_picture(MapRequest const& request, MapAnswer const& answer) {
    List<DeviceUse> uses;
    for (auto const& device : answer.devices) {
        DeviceUse use;
        use.id = device.id;
        // A disk without a limit, as SPECs give it.
        use.capacity = device.capacity.value_or(Bytes{INT64_MAX / 2});
        use.used = device.used;
        use.weights = device.weights;
        use.kv_cache = device.kv_cache;
        use.activations = device.activations;
        use.overhead = device.overhead;
        uses.push_back(use);
    }
    List<MapEntry> entries;
    for (auto const& entry : answer.device_map) entries.push_back({entry.prefix, entry.device});
    auto topology = topology_of({request.devices.data(), request.devices.size()});
    // --max devices counts devices that detection did not see: no links are known of those.
    if (request.inverse != Inverse::devices) topology.links = request.links;
    auto picture = picture_of_map({uses.data(), uses.size()}, {entries.data(), entries.size()}, topology);
    picture.title = answer.model;
    if (answer.parameters) picture.title += ", " + short_count(*answer.parameters) + " parameters";
    picture.subtitle = answer.question;
    picture.is_fitting = answer.fits;
    picture.verdict = verdict_of(answer);
    for (auto& device : picture.devices) {
        bool const is_short = answer.shortfall && device.label == device_key(answer.shortfall->device);
        if (is_short) device.missing = answer.shortfall->missing;
    }
    for (auto const& fix : answer.fixes) picture.notes.push_back("It would fit: " + sentence(fix, answer));
    return picture;
}

Result<> check_picture_path(Arguments const& arguments) {
    if (!arguments.svg) return {};
    auto const& path = *arguments.svg;
    Error error{ErrorCode::invalid_argument};
    error.in("--svg").fix("write --svg map.svg");
    if (path.empty()) return error.because("names no file");
    if (path == "-") return error.at(path).because("names no file: stdout has the answer already");
    return {};
}

Result<> write_picture(std::string const& path, Picture const& picture) {
    return write_file(path, draw_picture(picture));
}

}  // namespace shardwise::cli
