// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/tensor_sum.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

using namespace shardwise;

namespace {

std::vector<std::byte> some_bytes(std::size_t count) {
    std::vector<std::byte> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(i * i / 7 + i));
    return out;
}

}  // namespace

TEST_CASE("tensor_sum: the sums of any ranges add up to that of the tensor") {
    auto const bytes = some_bytes(240);
    for (std::int64_t const width : {1, 2, 4, 8}) {
        CAPTURE(width);
        auto const whole = tensor_sum(0, width, bytes);
        auto const elements = 240 / width;
        for (std::int64_t cut = 0; cut <= elements; ++cut) {
            auto const at = static_cast<std::size_t>(cut * width);
            auto const first = tensor_sum(0, width, {bytes.data(), at});
            auto const rest = tensor_sum(cut, width, {bytes.data() + at, bytes.size() - at});
            CHECK(first + rest == whole);
        }
    }
}

TEST_CASE("tensor_sum: the machine's vectors have the sum of one element after another") {
    auto const bytes = some_bytes(8 * 67);
    auto const data = bytes.data();
    constexpr std::uint64_t first = 0xFFFF'FFFF'FFFF'FFF0U;
    for (std::size_t count = 0; count < 67; ++count) {
        CHECK(detail::sum_terms_fast<std::uint8_t>(first, data, count) ==
              detail::sum_terms<std::uint8_t>(first, data, count));
        CHECK(detail::sum_terms_fast<std::uint16_t>(first, data, count) ==
              detail::sum_terms<std::uint16_t>(first, data, count));
        CHECK(detail::sum_terms_fast<std::uint32_t>(first, data, count) ==
              detail::sum_terms<std::uint32_t>(first, data, count));
        CHECK(detail::sum_terms_fast<std::uint64_t>(first, data, count) ==
              detail::sum_terms<std::uint64_t>(first, data, count));
    }
}

TEST_CASE("tensor_sum: every flipped bit, and two elements that change places, make another sum") {
    auto bytes = some_bytes(240);
    for (std::int64_t const width : {1, 2, 4, 8}) {
        std::set<std::uint64_t> sums{tensor_sum(0, width, bytes)};
        for (auto& byte : bytes) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                byte ^= static_cast<std::byte>(1U << bit);
                sums.insert(tensor_sum(0, width, bytes));
                byte ^= static_cast<std::byte>(1U << bit);
            }
        }
        CHECK(sums.size() == 1 + 240 * 8);
    }
    std::vector<std::byte> const one{std::byte{1}, std::byte{2}};
    std::vector<std::byte> const other{std::byte{2}, std::byte{1}};
    CHECK(tensor_sum(0, 1, one) != tensor_sum(0, 1, other));
    // Zeros in the place of a tensor's data are seen, and so is where they are.
    std::vector<std::byte> const zeros(8);
    CHECK(tensor_sum(0, 4, zeros) != tensor_sum(1, 4, zeros));
    CHECK(tensor_sum(0, 4, zeros) != 0);
}
