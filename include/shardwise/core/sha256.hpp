// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The hash SHA-256 of bytes that come in parts: what names contents in caches and reports.
///
/// Source  NIST FIPS 180-4
class Sha256 {
public:
    using Digest = std::array<std::uint8_t, 32>;

    constexpr Sha256& add(std::string_view bytes) {
        length_ += bytes.size();
        for (std::size_t i = 0; i < bytes.size();) {
            if (used_ == 0 && bytes.size() - i >= block_bytes) {
                take_block(bytes.substr(i, block_bytes));
                i += block_bytes;
                continue;
            }
            block_[used_++] = bytes[i++];
            if (used_ == block_bytes) {
                take_block({block_.data(), block_bytes});
                used_ = 0;
            }
        }
        return *this;
    }

    /// The hash of all bytes so far; more may be added afterwards.
    [[nodiscard]] constexpr Digest digest() const {
        auto rest = *this;
        auto const bits = length_ * 8;
        rest.add({"\x80", 1});
        while (rest.used_ != block_bytes - 8) rest.add({"\0", 1});
        std::array<char, 8> length{};
        for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((bits >> (56U - 8U * i)) & 0xFFU);
        rest.add({length.data(), length.size()});
        Digest out{};
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<std::uint8_t>(rest.state_[i / 4] >> (24U - 8U * (i % 4)));
        return out;
    }
    /// The same as 64 digits.
    [[nodiscard]] std::string hex() const {
        constexpr std::string_view digits = "0123456789abcdef";
        std::string out;
        for (auto const byte : digest()) {
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        }
        return out;
    }

private:
    static constexpr std::size_t block_bytes = 64;

    [[nodiscard]] static constexpr std::uint32_t rotate(std::uint32_t word, unsigned count) {
        return (word >> count) | (word << (32U - count));
    }

    constexpr void take_block(std::string_view block) {
        std::array<std::uint32_t, 64> words{};
        for (std::size_t i = 0; i < 64; ++i) {
            auto& word = words[i / 4];
            word = (word << 8U) | static_cast<std::uint32_t>(static_cast<unsigned char>(block[i]));
        }
        for (std::size_t i = 16; i < 64; ++i) {
            auto const before = words[i - 15];
            auto const near = words[i - 2];
            auto const low = rotate(before, 7) ^ rotate(before, 18) ^ (before >> 3U);
            auto const high = rotate(near, 17) ^ rotate(near, 19) ^ (near >> 10U);
            words[i] = words[i - 16] + low + words[i - 7] + high;
        }
        auto s = state_;
        for (std::size_t i = 0; i < 64; ++i) {
            auto const mixed = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
            auto const chosen = (s[4] & s[5]) ^ (~s[4] & s[6]);
            auto const first = s[7] + mixed + chosen + constants[i] + words[i];
            auto const rotated = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
            auto const second = rotated + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
        }
        for (std::size_t i = 0; i < 8; ++i) state_[i] += s[i];
    }

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    static constexpr std::array<std::uint32_t, 64> constants{
        0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
        0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
        0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
        0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
        0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
        0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
        0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
        0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};

    /// Of the square roots of the first eight primes.
    std::array<std::uint32_t, 8> state_{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                        0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
    std::array<char, block_bytes> block_{};
    std::size_t used_ = 0;
    std::uint64_t length_ = 0;
};

/// The SHA-256 of bytes, as 64 digits.
[[nodiscard]] inline std::string sha256_hex(std::string_view bytes) {
    return Sha256().add(bytes).hex();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
