// SPDX-License-Identifier: Apache-2.0
#include <shardwise/calibrate/detail/read_lines.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

using namespace shardwise;

TEST_CASE("read_lines: what it gives depends on every byte, at every level and in any number of streams") {
    struct alignas(64) Lines {
        std::array<std::byte, 1024> bytes{};
    };
    Lines lines;
    for (std::size_t i = 0; i < lines.bytes.size(); ++i) lines.bytes[i] = static_cast<std::byte>(i * 37 % 251);
    for (auto const level : isa_level_list) {
        if (!has_isa(level)) continue;
        for (int const streams : {1, 2, 4}) {
            auto const read = [&] { return detail::read_lines(lines.bytes.data(), 1024, streams, level); };
            auto const before = read();
            int unread = 0;
            for (auto& byte : lines.bytes) {
                byte ^= std::byte{16};
                unread += read() == before ? 1 : 0;
                byte ^= std::byte{16};
            }
            INFO(name_of(level), " ", streams);
            CHECK(unread == 0);
            CHECK(read() == before);
        }
    }
}
