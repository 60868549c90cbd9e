// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much matters what a line says; each level has those before it, too.
enum class LogLevel : std::uint8_t {
    error,  // work ends
    warn,   // work goes on, but perhaps not as it was meant
    info,   // what was done and how long it took
    debug,  // what lies on which device, and why
};

[[nodiscard]] constexpr std::string_view name_of(LogLevel level) {
    switch (level) {
        case LogLevel::error:
            return "error";
        case LogLevel::warn:
            return "warn";
        case LogLevel::info:
            return "info";
        case LogLevel::debug:
            return "debug";
    }
    return "unknown";
}

/// The level of a name; `from` is what the word was given by: an option, a variable.
///
/// Errors  unknown_name
[[nodiscard]] inline Result<LogLevel> parse_log_level(std::string_view word, std::string_view from) {
    for (auto const level : std::array{LogLevel::error, LogLevel::warn, LogLevel::info, LogLevel::debug}) {
        if (word == name_of(level)) return level;
    }
    return Error{ErrorCode::unknown_name}
        .in(from)
        .at(word.empty() ? std::string_view{"\"\""} : word)
        .because("is no level of a log")
        .fix("use error, warn, info or debug");
}

/// One line of a log, without an end of line.
struct LogLine {
    LogLevel level = LogLevel::info;
    std::int32_t rank = 0;
    std::string_view text;
};

/// Hears what the library does. It never prints: who wants a log passes a sink. Holds a reference; the default hears nothing and
/// costs a comparison.
///
/// Order    the sink is called on the threads of all ranks, several at a time
/// Example  auto const print = [](LogLine const& line) { std::fprintf(stderr, "%.*s\n", int(line.text.size()), line.text.data()); };
///          options.log = Log(print, LogLevel::debug);
class Log {
public:
    constexpr Log() = default;
    /// `sink(line)` is called with lines of the level `most` and of those before it.
    template <class Sink>
    constexpr Log(Sink const& sink, LogLevel most)
        : sink_(&sink),
          write_([](void const* who, LogLine const& line) { (*static_cast<Sink const*>(who))(line); }),
          most_(most) {}

    [[nodiscard]] constexpr bool hears(LogLevel level) const { return write_ != nullptr && level <= most_; }
    void operator()(LogLevel level, std::int32_t rank, std::string_view text) const {
        if (hears(level)) write_(sink_, {level, rank, text});
    }

private:
    void const* sink_ = nullptr;
    void (*write_)(void const* who, LogLine const& line) = nullptr;
    LogLevel most_ = LogLevel::error;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
