// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Whether a value of an enum class has a name: compilers end with "Colour::red" or with a number after a cast, "(Colour)7".
template <auto value>
[[nodiscard]] constexpr bool is_enumerator() {
    auto i = sizeof __PRETTY_FUNCTION__ - 1;
    while (__PRETTY_FUNCTION__[i] != ':' && __PRETTY_FUNCTION__[i] != ')') --i;
    return __PRETTY_FUNCTION__[i] == ':';
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
