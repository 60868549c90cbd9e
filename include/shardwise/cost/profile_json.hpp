// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/cost/profile.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The form of profiles that this version writes and reads.
inline constexpr std::string_view profile_schema = "shardwise.profile/1";

/// What a profile may hold at most; the largest published models have a few hundred layers.
struct ProfileLimits {
    std::size_t text = std::size_t{16} << 20U;
    std::size_t devices = 4096;
    std::size_t name = 512;
    /// Of batch, context and repeat.
    std::int64_t count = std::int64_t{1} << 32U;
    /// No step of one module takes longer.
    ///
    /// Units  seconds
    double seconds = 1000.0;
};

namespace detail {

/// Reads one profile; errors name the file and the field: "devices.0.modules.model.layers.3.decode".
class ProfileReader {
public:
    explicit ProfileReader(std::string_view file) : file_(file) {}

    Result<Profile> read(JsonValue root) {
        if (!root.is_object()) return refuse("", "a profile is a JSON object");
        if (auto const checked = check_schema(root); !checked) return checked.error();
        Profile profile;
        if (auto const model = root.find("model"); model && !model->is_null()) {
            auto const name = text("model", *model);
            if (!name) return name.error();
            profile.model = *name;
        }
        auto const devices = root.find("devices");
        if (!devices) return lacks("devices");
        if (!devices->is_array()) return refuse("devices", "is no list");
        if (devices->empty()) return refuse("devices", "is empty: nothing was measured");
        for (auto const each : *devices) {
            if (profile.devices.size() == limits_.devices) {
                return Error{ErrorCode::capacity_exceeded}
                    .in(file_)
                    .at("devices")
                    .because("has too many entries")
                    .at_most(static_cast<std::int64_t>(limits_.devices));
            }
            auto device = read_device("devices." + std::to_string(profile.devices.size()), each);
            if (!device) return device.error();
            profile.devices.push_back(*std::move(device));
        }
        return profile;
    }

private:
    [[nodiscard]] Error refuse(std::string_view field, std::string_view why) const {
        return Error{ErrorCode::invalid_field}.in(file_).at(field).because(why).fix(
            "see docs/reference/profile-file.md");
    }
    [[nodiscard]] Error lacks(std::string_view field) const {
        return Error{ErrorCode::missing_field}
            .in(file_)
            .at(field)
            .because("is missing")
            .fix("see docs/reference/profile-file.md");
    }

    Result<> check_schema(JsonValue root) const {
        auto const schema = root.find("schema");
        if (!schema) return lacks("schema");
        auto const word = schema->string();
        if (!word) return refuse("schema", "is no string");
        if (*word == profile_schema) return {};
        constexpr std::string_view family = "shardwise.profile/";
        if (word->substr(0, family.size()) != family) return refuse("schema", "is not that of a profile");
        return Error{ErrorCode::unsupported}
            .in(file_)
            .at("schema")
            .because("is of another version")
            .fix("this program reads shardwise.profile/1");
    }

    Result<std::string> text(std::string_view field, JsonValue value) const {
        auto const word = value.string();
        if (!word) return refuse(field, "is no string");
        if (word->size() > limits_.name) return refuse(field, "is too long for a name");
        return std::string(*word);
    }

    /// An optional whole number of at least 1.
    Result<> count(std::string const& place, JsonValue object, std::string_view field, std::int64_t& target) const {
        auto const value = object.find(field);
        if (!value) return {};
        auto const number = value->integer();
        auto const path = place + "." + std::string(field);
        if (!number) return refuse(path, "is no whole number");
        if (*number < 1 || *number > limits_.count) return refuse(path, "is out of range").got(*number);
        target = *number;
        return {};
    }

    Result<DeviceProfile> read_device(std::string const& place, JsonValue object) const {
        if (!object.is_object()) return refuse(place, "is no JSON object");
        auto const device = object.find("device");
        if (!device) return lacks(place + ".device");
        auto const name = text(place + ".device", *device);
        if (!name) return name.error();
        if (name->empty()) return refuse(place + ".device", "is empty");
        DeviceProfile out{.device = *name, .modules = {}};
        for (auto const& read : {count(place, object, "batch", out.batch), count(place, object, "context", out.context),
                                 count(place, object, "repeat", out.repeat)}) {
            if (!read) return read.error();
        }
        auto const modules = object.find("modules");
        if (!modules) return lacks(place + ".modules");
        if (!modules->is_object()) return refuse(place + ".modules", "is no JSON object");
        for (auto const each : *modules) {
            auto time = read_time(place + ".modules." + std::string(each.key()), each);
            if (!time) return time.error();
            out.modules.push_back(*std::move(time));
        }
        if (out.modules.empty()) return refuse(place + ".modules", "is empty: nothing was measured");
        return out;
    }

    Result<ModuleTime> read_time(std::string const& place, JsonValue object) const {
        if (object.key().size() > limits_.name) return refuse(place, "has too long a name");
        if (!object.is_object()) return refuse(place, R"(is not like {"prefill": 0.01, "decode": 0.0004})");
        ModuleTime time{.module = std::string(object.key())};
        for (auto const& [field, target] : {std::pair{"prefill", &time.prefill}, std::pair{"decode", &time.decode}}) {
            auto const value = object.find(field);
            if (!value || value->is_null()) continue;
            auto const seconds = value->real();
            auto const path = place + "." + field;
            if (!seconds) return refuse(path, "is no number of seconds");
            if (!(*seconds >= 0.0 && *seconds <= limits_.seconds))
                return refuse(path, "is not between 0 and 1000 seconds");
            *target = *seconds;
        }
        if (time.prefill < 0.0 && time.decode < 0.0) return lacks(place + ".decode");
        return time;
    }

    std::string_view file_;
    ProfileLimits limits_;
};

}  // namespace detail

/// Reads a profile from JSON; `file` names it in errors. Fields that are not known are left out.
///
/// Memory  the document and the profile, together below 64 MiB
/// Errors  malformed_file; missing_field and invalid_field with the field; unsupported for other versions; capacity_exceeded
[[nodiscard]] inline Result<Profile> read_profile(std::string_view text, std::string_view file) {
    auto const document = parse_json(text, {.depth = 16, .values = 500'000, .text = ProfileLimits{}.text});
    if (!document) return Error{document.error()}.in(file);
    return detail::ProfileReader(file).read(document->root());
}

/// Reads a profile from a file.
///
/// Errors  those of read_profile; file_not_found, file_unreadable
[[nodiscard]] inline Result<Profile> read_profile_file(std::string const& path) {
    auto const text = read_text_file(path, ProfileLimits{}.text);
    if (!text) return text.error();
    return read_profile(*text, path);
}

/// A profile as JSON that read_profile reads back.
[[nodiscard]] inline std::string write_profile(Profile const& profile) {
    JsonWriter json(2);
    json.begin_object().member("schema", profile_schema).member("model", profile.model).key("devices").begin_array();
    for (auto const& device : profile.devices) {
        json.begin_object().member("device", device.device).member("batch", device.batch);
        json.member("context", device.context).member("repeat", device.repeat).key("modules").begin_object();
        for (auto const& time : device.modules) {
            json.key(time.module).begin_object();
            if (time.prefill >= 0.0) json.member("prefill", time.prefill);
            if (time.decode >= 0.0) json.member("decode", time.decode);
            json.end_object();
        }
        json.end_object().end_object();
    }
    return std::move(json.end_array().end_object()).text() + "\n";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
