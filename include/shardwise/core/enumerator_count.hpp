// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

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

namespace detail {

template <class Enumeration, std::size_t... value>
[[nodiscard]] constexpr std::array<bool, sizeof...(value)> named_of(std::index_sequence<value...>) {
    return {is_enumerator<static_cast<Enumeration>(value)>()...};
}

}  // namespace detail

/// Which values below `count` have a name, of an enumeration that leaves some out.
template <class Enumeration, std::size_t count>
[[nodiscard]] constexpr std::array<bool, count> named_values() {
    return detail::named_of<Enumeration>(std::make_index_sequence<count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
