// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Copies characters at run time. Not inlined: where g++ 12 sees the text's memory, a std::string's 32 bytes, it warns of the bytes
/// that a longer text would have.
[[gnu::noinline]] inline void copy_characters(char* to, char const* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace detail

/// Text of at most N bytes held by value, so that its owner is a literal type; longer text ends in "...".
template <std::size_t N>
class FixedText {
    static_assert(N >= 4 && N < 65536, "FixedText holds 4 to 65535 bytes: its length is two bytes, and \"...\" must fit");
    using Size = std::conditional_t<(N < 256), unsigned char, unsigned short>;

public:
    constexpr FixedText() = default;
    constexpr FixedText(std::string_view text) { assign(text); }  // NOLINT: implicit on purpose, like string_view's
    // string_view's own search for the end calls a function for each character, which constant expressions pay for.
    constexpr FixedText(char const* text) { assign(std::string_view{text, __builtin_strlen(text)}); }

    constexpr void assign(std::string_view text) {
        bool const is_cut = text.size() > N;
        // Not by size_: g++ 12 takes what it can hold for the length of the text, and warns of shorter ones.
        std::size_t const count = is_cut ? N : text.size();
        size_ = static_cast<Size>(count);
        char const* const from = text.data();
        if (std::is_constant_evaluated()) {
            for (std::size_t i = 0; i < count; ++i) text_[i] = from[i];
        } else {
            detail::copy_characters(text_, from, count);
        }
        for (std::size_t i = N - 3; is_cut && i < N; ++i) text_[i] = '.';
    }

    [[nodiscard]] constexpr std::string_view view() const { return {text_, size_}; }
    [[nodiscard]] constexpr bool empty() const { return size_ == 0; }

    friend constexpr bool operator==(FixedText const& a, FixedText const& b) { return a.view() == b.view(); }

private:
    char text_[N]{};
    Size size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
