// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The instruction sets for which host products exist: those of ARM's processors (AArch64), then those of x86's, faster ones later.
/// A level includes those before it of its processors, but for avx2_vnni, which those with AVX-512 may lack: what has no code of its
/// own for a level runs as at the last one before it that has.
enum class IsaLevel : std::uint8_t {
    portable,     // what the including program is compiled for
    neon,         // Advanced SIMD, which every AArch64 processor has
    neon_i8mm,    // the same with FEAT_I8MM's products of bytes: of vectors and of small matrices
    avx2,         // AVX2, FMA, F16C
    avx2_vnni,    // the same with AVX-VNNI
    avx512,       // AVX-512 F, BW, DQ, VL
    avx512_bf16,  // AVX-512 BF16 and VNNI
    amx,          // the same with AMX's tiles of bytes and of bf16
};

[[nodiscard]] constexpr std::string_view name_of(IsaLevel level) {
    switch (level) {
        case IsaLevel::portable:
            return "portable";
        case IsaLevel::neon:
            return "neon";
        case IsaLevel::neon_i8mm:
            return "neon_i8mm";
        case IsaLevel::avx2:
            return "avx2";
        case IsaLevel::avx2_vnni:
            return "avx2_vnni";
        case IsaLevel::avx512:
            return "avx512";
        case IsaLevel::avx512_bf16:
            return "avx512_bf16";
        case IsaLevel::amx:
            return "amx";
    }
    return "unknown";
}

/// All levels in their order.
inline constexpr std::array isa_level_list{IsaLevel::portable,  IsaLevel::neon,   IsaLevel::neon_i8mm,   IsaLevel::avx2,
                                           IsaLevel::avx2_vnni, IsaLevel::avx512, IsaLevel::avx512_bf16, IsaLevel::amx};

namespace detail {

/// Whether the processor has AVX-VNNI: g++ 12's __builtin_cpu_supports does not know its name.
[[nodiscard]] inline bool ask_avx_vnni() {
#if defined(__x86_64__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    // CPUID leaf 7, subleaf 1, EAX bit 4 (Intel SDM, volume 2A).
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4U & 1U) != 0;
#else
    return false;
#endif
}

/// Whether the processor has AMX's tiles of bytes and of bf16, and the system lets this process use them: it is asked, once and for
/// all threads to come.
[[nodiscard]] inline bool ask_amx() {
#if defined(__x86_64__) && defined(__linux__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    // CPUID leaf 7, EDX bits 22 (bf16), 24 (tiles) and 25 (bytes) (Intel SDM, volume 2A).
    constexpr unsigned tiles = 1U << 22U | 1U << 24U | 1U << 25U;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & tiles) != tiles) return false;
    // Documentation/arch/x86/xstate.rst of Linux: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA.
    constexpr long request_permission = 0x1023;
    constexpr long tile_data = 18;
    return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

/// Whether the processor has ARM's products of bytes, and the system says so.
[[nodiscard]] inline bool ask_arm_i8mm() {
#if defined(__aarch64__) && defined(__linux__)
    // Documentation/arm64/elf_hwcaps.rst of Linux: HWCAP2_I8MM.
    constexpr unsigned long i8mm = 1UL << 13U;
    return (::getauxval(AT_HWCAP2) & i8mm) != 0;
#else
    return false;
#endif
}

// Asked once: under a hypervisor CPUID takes microseconds, and sums ask for the level each time.
[[nodiscard]] inline bool has_avx_vnni() {
    static bool const has = ask_avx_vnni();
    return has;
}
[[nodiscard]] inline bool has_amx() {
    static bool const has = ask_amx();
    return has;
}

}  // namespace detail

/// Whether this machine's processor and system offer a level.
[[nodiscard]] inline bool has_isa(IsaLevel level) {
#if defined(__x86_64__)
    bool const has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool const has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    switch (level) {
        case IsaLevel::portable:
            return true;
        case IsaLevel::neon:
        case IsaLevel::neon_i8mm:
            return false;
        case IsaLevel::avx2:
            return has_avx2;
        case IsaLevel::avx2_vnni:
            return has_avx2 && detail::has_avx_vnni();
        case IsaLevel::avx512:
            return has_avx512;
        case IsaLevel::avx512_bf16:
            return has_avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
        case IsaLevel::amx:
            return has_isa(IsaLevel::avx512_bf16) && detail::has_amx();
    }
    return false;
#elif defined(__aarch64__)
    switch (level) {
        case IsaLevel::portable:
        case IsaLevel::neon:
            return true;
        case IsaLevel::neon_i8mm:
            return detail::ask_arm_i8mm();
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
        case IsaLevel::avx512:
        case IsaLevel::avx512_bf16:
        case IsaLevel::amx:
            return false;
    }
    return false;
#else
    return level == IsaLevel::portable;
#endif
}

/// Whether a level's products were run on processors that have it, not by an emulation of its instructions alone.
[[nodiscard]] constexpr bool is_executed_on_hardware(IsaLevel level) {
    switch (level) {
        case IsaLevel::portable:
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
        case IsaLevel::avx512:
        case IsaLevel::avx512_bf16:
        case IsaLevel::amx:
            return true;
        case IsaLevel::neon:
        case IsaLevel::neon_i8mm:
            return false;
    }
    return false;
}

/// The highest level that this machine's processor and system offer.
[[nodiscard]] inline IsaLevel detect_isa() {
    for (auto level = isa_level_list.size(); level > 1; --level) {
        if (has_isa(isa_level_list[level - 1])) return isa_level_list[level - 1];
    }
    return IsaLevel::portable;
}

/// A level by its name.
///
/// Errors  invalid_argument, which lists the names
[[nodiscard]] constexpr Result<IsaLevel> parse_isa(std::string_view name) {
    for (auto const level : isa_level_list) {
        if (name == name_of(level)) return level;
    }
    return Error{ErrorCode::invalid_argument}
        .in("SHARDWISE_ISA")
        .because("is not an instruction set level")
        .fix("use portable, neon, neon_i8mm, avx2, avx2_vnni, avx512, avx512_bf16 or amx");
}

/// Whether a level has a unit that multiplies bf16 several times as fast as floats, by which GemmOptions::rounds_to_bf16 gains.
[[nodiscard]] constexpr bool has_bf16_unit(IsaLevel level) {
    return level == IsaLevel::amx;
}

/// A level that products can use here.
///
/// Errors  invalid_argument for one that the machine lacks
[[nodiscard]] inline Result<IsaLevel> check_isa(IsaLevel level) {
    if (has_isa(level)) return level;
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
