// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Whether a value of an enumeration has a name: compilers write one without as a number behind a cast.
template <auto value>
[[nodiscard]] constexpr bool is_enumerator() {
    constexpr std::string_view text = __PRETTY_FUNCTION__;
    constexpr std::string_view argument = "value = ";
    return text[text.rfind(argument) + argument.size()] != '(';
}

}  // namespace detail

/// How many enumerators an enumeration has that counts them from 0, so that a table knows whether it has a row for each.
template <class Enumeration, std::size_t first = 0>
[[nodiscard]] constexpr std::size_t enumerator_count() {
    if constexpr (detail::is_enumerator<static_cast<Enumeration>(first)>()) {
        return enumerator_count<Enumeration, first + 1>();
    } else {
        return first;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
