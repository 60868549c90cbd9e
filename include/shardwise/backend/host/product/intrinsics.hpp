// SPDX-License-Identifier: Apache-2.0
#pragma once

// The processor's intrinsics and the regions in which they may be used. Only product and kernel headers include this one: it
// costs a translation unit a third of a second.
//
// Between SHARDWISE_TARGET_BEGIN_X and SHARDWISE_TARGET_END every function is compiled for level X, whatever the including
// program is compiled for. No product is fused with the addition after it unless an intrinsic says so: the bits are those of the
// written operations at every level of optimisation and by every compiler. Rules for such a region: no lambda (it loses the
// target), no #include, only functions that the level's own namespace owns, reached from outside by a pointer.

#include <shardwise/core/unfused.hpp>

#if defined(__x86_64__)
#define SHARDWISE_HAS_X86_LEVELS 1

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// g++ 12 warns of its own _mm512_undefined_*().
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#define SHARDWISE_HAS_ARM_LEVELS 1

#include <arm_neon.h>
#endif

// Before a loop of at most 16 turns that becomes straight code, so that an array of sums becomes registers at -O2.
#if defined(__clang__)
#define SHARDWISE_UNROLL SHARDWISE_PRAGMA(unroll)
#else
#define SHARDWISE_UNROLL SHARDWISE_PRAGMA(GCC unroll 16)
#endif

#if defined(__clang__)
#define SHARDWISE_TARGET_BEGIN(features)                                                           \
    SHARDWISE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function)) \
    SHARDWISE_CLANG_UNFUSED_BEGIN
#define SHARDWISE_TARGET_END SHARDWISE_CLANG_UNFUSED_END SHARDWISE_PRAGMA(clang attribute pop)
#else
#define SHARDWISE_TARGET_BEGIN(features)                                                             \
    SHARDWISE_TARGET_QUIET SHARDWISE_PRAGMA(GCC push_options) SHARDWISE_PRAGMA(GCC target(features)) \
        SHARDWISE_PRAGMA(GCC optimize("fp-contract=off"))
#define SHARDWISE_TARGET_END SHARDWISE_PRAGMA(GCC pop_options) SHARDWISE_TARGET_LOUD
#endif

#if defined(SHARDWISE_HAS_X86_LEVELS)
#define SHARDWISE_TARGET_BEGIN_AVX2 SHARDWISE_TARGET_BEGIN("avx2,fma,f16c")
#define SHARDWISE_TARGET_BEGIN_AVX2_VNNI SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avxvnni")
#define SHARDWISE_TARGET_BEGIN_AVX512 SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define SHARDWISE_TARGET_BEGIN_AVX512_BF16 \
    SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni")
#define SHARDWISE_TARGET_BEGIN_AMX \
    SHARDWISE_TARGET_BEGIN(        \
        "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,amx-tile,amx-int8,amx-bf16")
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
#if defined(__clang__)
#define SHARDWISE_TARGET_BEGIN_NEON SHARDWISE_TARGET_BEGIN("neon")
#define SHARDWISE_TARGET_BEGIN_NEON_I8MM SHARDWISE_TARGET_BEGIN("neon,i8mm")
#else
#define SHARDWISE_TARGET_BEGIN_NEON SHARDWISE_TARGET_BEGIN("+simd")
#define SHARDWISE_TARGET_BEGIN_NEON_I8MM SHARDWISE_TARGET_BEGIN("arch=armv8.2-a+i8mm")
#endif
#endif
