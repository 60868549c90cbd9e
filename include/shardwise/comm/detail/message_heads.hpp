// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Messages of one lane keep their order; lanes know nothing of each other.
enum class MessageLane : std::uint32_t { collectives, letters, notices, count };

/// What goes before a message from rank to rank.
struct LetterHead {
    std::int64_t count = 0;
    Dtype dtype = Dtype::u8;
};

/// What a rank tells the others when it leaves, all zero, or fails: then its error as it is.
struct MessageNotice {
    char has_failed = 0;
    std::byte error_bytes[sizeof(Error)]{};

    [[nodiscard]] static MessageNotice of(Error const& error) {
        MessageNotice notice;
        notice.has_failed = 1;
        std::memcpy(notice.error_bytes, &error, sizeof error);
        return notice;
    }
    [[nodiscard]] Error error() const {
        Error error{ErrorCode::rank_lost};
        std::memcpy(&error, error_bytes, sizeof error);
        return error;
    }
};
static_assert(std::is_trivially_copyable_v<Error>, "ranks tell each other their errors byte by byte");

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
