// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>

#include "temporary_folder.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::tests {

/// What the built program did.
struct Ran {
    int status = -1;
    std::string out;
    std::string err;

    [[nodiscard]] bool says(std::string_view text) const { return err.find(text) != std::string::npos; }
};

using testing::TemporaryFolder;

[[nodiscard]] inline std::string read_text(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Runs a command line; its output goes through files, so that neither pipe can fill up. `meanwhile` gets the process's
/// number while it runs.
[[nodiscard]] inline Ran run_command_line(std::vector<std::string> words,
                                          std::vector<std::pair<std::string, std::string>> const& environment = {},
                                          std::function<void(pid_t)> const& meanwhile = {}) {
    TemporaryFolder const folder;
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    auto const out = folder.path() + "/out";
    auto const err = folder.path() + "/err";
    auto const child = ::fork();
    if (child == 0) {
        if (std::freopen(out.c_str(), "w", stdout) == nullptr || std::freopen(err.c_str(), "w", stderr) == nullptr) {
            ::_exit(126);
        }
        ::unsetenv("NO_COLOR");
        ::setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
        for (auto const& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    if (child > 0 && meanwhile) meanwhile(child);
    Ran ran;
    int status = 0;
    if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status)) ran.status = WEXITSTATUS(status);
    ran.out = read_text(out);
    ran.err = read_text(err);
    return ran;
}

/// Runs the program with these arguments.
[[nodiscard]] inline Ran run(std::vector<std::string> const& words,
                             std::vector<std::pair<std::string, std::string>> const& environment = {}) {
    std::vector<std::string> all{SHARDWISE_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return run_command_line(std::move(all), environment);
}

/// A JSON document and ways into it; absent values read as 0, "" and null.
class Answer {
public:
    explicit Answer(std::string_view text) : document_(parse_json(text)) {}

    [[nodiscard]] bool is_valid() const { return document_.has_value(); }
    /// The value at a path of keys and list positions.
    template <class... Steps>
    [[nodiscard]] std::optional<JsonValue> at(Steps... steps) const {
        if (!document_) return std::nullopt;
        std::optional<JsonValue> value = document_->root();
        ((value = value ? step(*value, steps) : value), ...);
        return value;
    }
    template <class... Steps>
    [[nodiscard]] std::int64_t integer(Steps... steps) const {
        auto const value = at(steps...);
        return value ? value->integer().value_or(0) : 0;
    }
    template <class... Steps>
    [[nodiscard]] double real(Steps... steps) const {
        auto const value = at(steps...);
        return value ? value->real().value_or(0.0) : 0.0;
    }
    template <class... Steps>
    [[nodiscard]] std::string text(Steps... steps) const {
        auto const value = at(steps...);
        return std::string(value ? value->string().value_or(std::string_view{}) : std::string_view{});
    }
    template <class... Steps>
    [[nodiscard]] std::size_t size(Steps... steps) const {
        auto const value = at(steps...);
        return value ? value->size() : 0;
    }
    template <class... Steps>
    [[nodiscard]] bool is_null(Steps... steps) const {
        auto const value = at(steps...);
        return value && value->is_null();
    }

private:
    static std::optional<JsonValue> step(JsonValue value, char const* key) { return value.find(key); }
    static std::optional<JsonValue> step(JsonValue value, std::size_t position) {
        for (auto const member : value) {
            if (position-- == 0) return member;
        }
        return std::nullopt;
    }

    Result<JsonDocument> document_;
};

/// The token ids of run's answer in JSON, each with a blank after it.
inline std::string ids_of(std::string_view json) {
    std::string ids;
    Answer const answer(json);
    for (std::size_t i = 0; i < answer.size("token_ids"); ++i)
        ids += std::to_string(answer.integer("token_ids", i)) + " ";
    return ids;
}

/// The device map as text: "model.layers.0=0 lm_head=cpu".
[[nodiscard]] inline std::string map_text(Answer const& answer) {
    std::string out;
    auto const map = answer.at("device_map");
    if (!map) return out;
    for (auto const entry : *map) {
        out += (out.empty() ? "" : " ") + std::string(entry.key()) + "=";
        out += entry.integer() ? std::to_string(*entry.integer()) : std::string(entry.string().value_or("?"));
    }
    return out;
}

}  // namespace shardwise::tests
