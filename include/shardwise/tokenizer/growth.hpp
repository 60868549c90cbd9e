// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long the steps of a tokenizer may make a text, so that those of a hostile file do not take all memory: 40 chained
/// replacements of "a" by "aa" make a million million of one.
///
/// Units  code points or bytes; 32 times the text and 64 Ki more, where no normalisation form takes more than 18 times
[[nodiscard]] constexpr std::size_t max_grown_size(std::size_t size) {
    constexpr std::size_t times = 32;
    constexpr std::size_t more = std::size_t{1} << 16U;
    return size > (SIZE_MAX - more) / times ? SIZE_MAX : size * times + more;
}

/// How many steps a tokenizer may have; those of known ones have a few dozen at most.
inline constexpr std::size_t max_tokenizer_steps = 128;

namespace detail {

[[nodiscard]] inline Error grows_too_long(std::string_view step, std::size_t limit) {
    return Error{ErrorCode::capacity_exceeded}
        .at(step)
        .because("a step of the tokenizer makes the text too many times longer")
        .at_most(static_cast<std::int64_t>(limit));
}

/// Such as "normalizer step 3, Replace".
[[nodiscard]] inline std::string step_place(std::string_view part, std::size_t index, std::string_view kind) {
    return std::string(part) + " step " + std::to_string(index + 1) + ", " + std::string(kind);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
