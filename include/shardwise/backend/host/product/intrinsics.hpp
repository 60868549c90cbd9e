// SPDX-License-Identifier: Apache-2.0
#pragma once

// The processor's intrinsics and the regions in which they may be used. Only product and kernel headers include this one: it
// costs a translation unit a third of a second.
//
// Between SHARDWISE_TARGET_BEGIN_X and SHARDWISE_TARGET_END every function is compiled for level X, whatever the including
// program is compiled for. Rules for such a region: no lambda (it loses the target), no #include, only functions that the
// level's own namespace owns, reached from outside by a pointer.

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

#define SHARDWISE_PRAGMA(...) _Pragma(#__VA_ARGS__)
// Before a loop of at most 16 turns that becomes straight code, so that an array of sums becomes registers at -O2.
#if defined(__clang__)
#define SHARDWISE_UNROLL SHARDWISE_PRAGMA(unroll)
#else
#define SHARDWISE_UNROLL SHARDWISE_PRAGMA(GCC unroll 16)
#endif

// nvcc passes g++'s loop pragmas on to g++, but warns that it does not know them itself.
#if defined(__NVCC__)
#define SHARDWISE_TARGET_QUIET SHARDWISE_PRAGMA(nv_diagnostic push) SHARDWISE_PRAGMA(nv_diag_suppress 1675)
#define SHARDWISE_TARGET_LOUD SHARDWISE_PRAGMA(nv_diagnostic pop)
#else
#define SHARDWISE_TARGET_QUIET
#define SHARDWISE_TARGET_LOUD
#endif

#if defined(__clang__)
#define SHARDWISE_TARGET_BEGIN(features) \
    SHARDWISE_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define SHARDWISE_TARGET_END SHARDWISE_PRAGMA(clang attribute pop)
#else
#define SHARDWISE_TARGET_BEGIN(features) \
    SHARDWISE_TARGET_QUIET SHARDWISE_PRAGMA(GCC push_options) SHARDWISE_PRAGMA(GCC target(features))
#define SHARDWISE_TARGET_END SHARDWISE_PRAGMA(GCC pop_options) SHARDWISE_TARGET_LOUD
#endif

#define SHARDWISE_TARGET_BEGIN_AVX2 SHARDWISE_TARGET_BEGIN("avx2,fma,f16c")
#define SHARDWISE_TARGET_BEGIN_AVX2_VNNI SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avxvnni")
#define SHARDWISE_TARGET_BEGIN_AVX512 SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#define SHARDWISE_TARGET_BEGIN_AVX512_BF16 \
    SHARDWISE_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni")
#define SHARDWISE_TARGET_BEGIN_AMX \
    SHARDWISE_TARGET_BEGIN(        \
        "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,amx-tile,amx-int8,amx-bf16")

#endif
