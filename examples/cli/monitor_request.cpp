// SPDX-License-Identifier: Apache-2.0
#include "monitor_request.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<std::chrono::nanoseconds> read_interval(std::string const& word) {
    double seconds = 0.0;
    auto const* const end = word.data() + word.size();
    auto const got = std::from_chars(word.data(), end, seconds);
    if (got.ec == std::errc{} && got.ptr == end && seconds >= 0.01 && seconds <= 3600.0)
        return std::chrono::nanoseconds(std::llround(seconds * 1e9));
    return Error{ErrorCode::invalid_argument}
        .in("--interval")
        .at(word.empty() ? std::string("\"\"") : word)
        .because("is no number of seconds from 0.01 to 3600")
        .fix("write for example --interval 0.5");
}

[[nodiscard]] Error excludes(char const* flag, char const* other) {
    return Error{ErrorCode::invalid_argument}.in(flag).because("does not go together with " + std::string(other)).fix(
        "give one of them");
}

}  // namespace

Result<MonitorRequest> read_monitor_request(Arguments const& arguments) {
    MonitorRequest request;
    bool const has_command = !arguments.command_line.empty();
    if (arguments.devices) {
        request.devices = *arguments.devices;
        if (request.devices.find_first_not_of(' ') == std::string::npos) {
            return Error{ErrorCode::invalid_argument}
                .in("--devices")
                .because("names no device")
                .fix("write devices like cuda:0,cuda:1, or cpu for the host alone");
        }
    }
    if (arguments.interval) {
        auto const interval = read_interval(*arguments.interval);
        if (!interval) return interval.error();
        request.interval = *interval;
    }
    if (arguments.json && arguments.csv) return excludes("--json", "--csv");
    if (arguments.json && arguments.prometheus) return excludes("--json", "--prometheus");
    if (arguments.csv && arguments.prometheus) return excludes("--csv", "--prometheus");
    if (has_command && arguments.prometheus) return excludes("--prometheus", "a COMMAND");
    if (has_command && arguments.once) return excludes("--once", "a COMMAND");
    if (arguments.csv && arguments.csv->empty()) {
        return Error{ErrorCode::invalid_argument}.in("--csv").because("an empty name is no file's").fix("name the file to write");
    }
    if (arguments.listen) {
        if (arguments.once) return excludes("--listen", "--once");
        if (arguments.prometheus) return excludes("--listen", "--prometheus");
        auto const address = read_listen_address(*arguments.listen);
        if (!address) return address.error();
        request.listen = *address;
    }
    if (arguments.csv) request.csv = *arguments.csv;
    if (arguments.json) request.form = MonitorRequest::Form::json;
    if (arguments.csv) request.form = MonitorRequest::Form::csv;
    if (arguments.prometheus) request.form = MonitorRequest::Form::prometheus;
    request.is_once = arguments.once || arguments.prometheus;
    return request;
}

}  // namespace shardwise::cli
