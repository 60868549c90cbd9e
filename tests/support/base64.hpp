// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shardwise::testing {

/// The bytes of a base64 text (RFC 4648), as golden files hold them.
[[nodiscard]] inline std::string from_base64(std::string_view text) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    unsigned bits = 0;
    unsigned held = 0;
    for (char const letter : text) {
        auto const value = letters.find(letter);
        if (value == letters.npos) break;
        held = held << 6U | static_cast<unsigned>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out += static_cast<char>(static_cast<unsigned char>(held >> bits & 0xFFU));
    }
    return out;
}

}  // namespace shardwise::testing
