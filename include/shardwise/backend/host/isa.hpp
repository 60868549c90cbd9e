// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The instruction sets for which host products exist; each level includes those before it.
enum class IsaLevel : std::uint8_t {
    portable,     // what the including program is compiled for
    avx2,         // AVX2, FMA, F16C
    avx512,       // AVX-512 F, BW, DQ, VL
    avx512_bf16,  // AVX-512 BF16 and VNNI
};

[[nodiscard]] constexpr std::string_view name_of(IsaLevel level) {
    switch (level) {
        case IsaLevel::portable:
            return "portable";
        case IsaLevel::avx2:
            return "avx2";
        case IsaLevel::avx512:
            return "avx512";
        case IsaLevel::avx512_bf16:
            return "avx512_bf16";
    }
    return "unknown";
}

/// The highest level that this machine's processor and system offer.
[[nodiscard]] inline IsaLevel detect_isa() {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return IsaLevel::portable;
    bool const has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!has_avx512) return IsaLevel::avx2;
    bool const has_bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
    return has_bf16 ? IsaLevel::avx512_bf16 : IsaLevel::avx512;
#else
    return IsaLevel::portable;
#endif
}

/// A level by its name.
///
/// Errors  invalid_argument, which lists the names
[[nodiscard]] constexpr Result<IsaLevel> parse_isa(std::string_view name) {
    for (auto const level : {IsaLevel::portable, IsaLevel::avx2, IsaLevel::avx512, IsaLevel::avx512_bf16}) {
        if (name == name_of(level)) return level;
    }
    return Error{ErrorCode::invalid_argument}
        .in("SHARDWISE_ISA")
        .because("is not an instruction set level")
        .fix("use portable, avx2, avx512 or avx512_bf16");
}

/// A level that products can use here.
///
/// Errors  invalid_argument for one that the machine lacks
[[nodiscard]] inline Result<IsaLevel> check_isa(IsaLevel level) {
    if (level <= detect_isa()) return level;
    return Error{ErrorCode::invalid_argument}
        .in("instruction set")
        .at(name_of(level))
        .because("is a level that this machine lacks")
        .fix("ask for a lower one");
}

/// The level that a context uses: the machine's, or a lower one that the variable SHARDWISE_ISA asks for.
///
/// Errors  invalid_argument for another value of the variable, or for a level that the machine lacks
[[nodiscard]] inline Result<IsaLevel> choose_isa(char const* asked = std::getenv("SHARDWISE_ISA")) {
    if (asked == nullptr || *asked == '\0') return detect_isa();
    auto const level = parse_isa(asked);
    if (!level) return level;
    auto const checked = check_isa(*level);
    if (checked) return checked;
    auto error = checked.error();
    return error.in("SHARDWISE_ISA");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
