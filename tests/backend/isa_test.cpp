// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("Instruction sets: every name is parsed back, and includes those before it") {
    for (auto const level : isa_level_list) {
        auto const parsed = parse_isa(name_of(level));
        REQUIRE(parsed);
        CHECK(*parsed == level);
    }
    static_assert(IsaLevel::portable < IsaLevel::avx2 && IsaLevel::avx2 < IsaLevel::avx512);
    static_assert(IsaLevel::portable < IsaLevel::neon && IsaLevel::neon < IsaLevel::neon_i8mm);
    // What asks whether a level has AVX2 asks in this way, on every processor.
    static_assert(IsaLevel::neon_i8mm < IsaLevel::avx2);
    static_assert(IsaLevel::avx512 < IsaLevel::avx512_bf16 && IsaLevel::avx512_bf16 < IsaLevel::amx);
}

TEST_CASE("SHARDWISE_ISA: unset or empty is the machine's own, portable is always to be had") {
    CHECK(*choose_isa(nullptr) == detect_isa());
    CHECK(*choose_isa("") == detect_isa());
    CHECK(*choose_isa("portable") == IsaLevel::portable);
}

TEST_CASE(
    "SHARDWISE_ISA: another word is refused with the words that are known, a level that the machine lacks with its "
    "name") {
    for (auto const* const word : {"sse2", "AVX2", "avx512 ", "4"}) {
        auto const refused = choose_isa(word);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
        CHECK(refused.error().message() ==
              "SHARDWISE_ISA: is not an instruction set level; use portable, neon, neon_i8mm, avx2, avx2_vnni, avx512, avx512_bf16 or amx");
    }
    for (auto const level : isa_level_list) {
        auto const chosen = choose_isa(name_of(level).data());
        CHECK(chosen.has_value() == (has_isa(level)));
        if (chosen) CHECK(*chosen == level);
    }
}
