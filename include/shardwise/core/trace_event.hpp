// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank was at: each track has its own row in a picture.
enum class TraceTrack : std::uint8_t { compute, communication, wait };
inline constexpr std::size_t trace_tracks = 3;

[[nodiscard]] constexpr std::string_view name_of(TraceTrack track) {
    switch (track) {
        case TraceTrack::compute:
            return "compute";
        case TraceTrack::communication:
            return "communication";
        case TraceTrack::wait:
            return "wait";
    }
    return "unknown";
}

/// Something that a rank did, from when to when. Texts live as long as the model.
///
/// Units  nanoseconds of the steady clock; numbers below 0 are not known
struct TraceEvent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    TraceTrack track = TraceTrack::compute;
    std::string_view name;
    /// The parameter that it is named by.
    std::string_view parameter;
    std::int32_t layer = -1;
    /// Of messages: the other rank, and the number among all that went this way between the two.
    std::int32_t peer = -1;
    std::int64_t message = -1;
    /// What an operation writes, and what communication takes from others or sends.
    std::int64_t bytes = -1;
    /// Of a step.
    std::int64_t tokens = -1;
    std::int64_t sequences = -1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
