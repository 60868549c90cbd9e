// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <iterator>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sorts [first, last); equal elements keep their order. That of GCC 12's library calls what C++17 deprecates, of which
/// clang 19 warns its users.
///
/// Memory  half of the elements beside them
template <class Iterator, class Less>
void stable_sort(Iterator first, Iterator last, Less const& is_less) {
    auto const count = last - first;
    if (count < 2) return;
    auto const middle = first + count / 2;
    detail::stable_sort(first, middle, is_less);
    detail::stable_sort(middle, last, is_less);
    if (!is_less(*middle, *(middle - 1))) return;
    std::vector<typename std::iterator_traits<Iterator>::value_type> lower(std::make_move_iterator(first),
                                                                           std::make_move_iterator(middle));
    auto left = lower.begin();
    for (auto right = middle; left != lower.end(); ++first) {
        bool const takes_right = right != last && is_less(*right, *left);
        *first = std::move(takes_right ? *right++ : *left++);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
