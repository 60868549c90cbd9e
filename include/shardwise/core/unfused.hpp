// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between SHARDWISE_UNFUSED_BEGIN and SHARDWISE_UNFUSED_END no product is fused with the addition after it, whatever processor the
// program is compiled for: results have the bits of the written operations. Without it g++ fuses wherever the target can (AArch64,
// x86 with -march=native), and clang within an expression; clang's -ffp-contract=fast fuses all the same. No lambda and no #include
// stands in such a region.

#define SHARDWISE_PRAGMA(...) _Pragma(#__VA_ARGS__)

// nvcc passes g++'s pragmas on to g++, but warns that it does not know them itself.
#if defined(__NVCC__)
#define SHARDWISE_TARGET_QUIET SHARDWISE_PRAGMA(nv_diagnostic push) SHARDWISE_PRAGMA(nv_diag_suppress 1675)
#define SHARDWISE_TARGET_LOUD SHARDWISE_PRAGMA(nv_diagnostic pop)
#else
#define SHARDWISE_TARGET_QUIET
#define SHARDWISE_TARGET_LOUD
#endif

#if defined(__clang__)
#if defined(__x86_64__)
#define SHARDWISE_CLANG_UNFUSED_BEGIN SHARDWISE_PRAGMA(float_control(push)) SHARDWISE_PRAGMA(clang fp contract(off))
#define SHARDWISE_CLANG_UNFUSED_END SHARDWISE_PRAGMA(float_control(pop))
#else
// clang 14 knows float_control for x86 alone; afterwards what the command line says holds again.
#define SHARDWISE_CLANG_UNFUSED_BEGIN SHARDWISE_PRAGMA(clang fp contract(off))
#define SHARDWISE_CLANG_UNFUSED_END SHARDWISE_PRAGMA(STDC FP_CONTRACT DEFAULT)
#endif
#endif

// NVRTC compiles device code alone, which says by intrinsics what is not fused, and knows none of the pragmas.
#if defined(__CUDACC_RTC__) || (defined(__x86_64__) && !defined(__FMA__))
#define SHARDWISE_UNFUSED_BEGIN
#define SHARDWISE_UNFUSED_END
#elif defined(__clang__)
#define SHARDWISE_UNFUSED_BEGIN SHARDWISE_CLANG_UNFUSED_BEGIN
#define SHARDWISE_UNFUSED_END SHARDWISE_CLANG_UNFUSED_END
#else
#define SHARDWISE_UNFUSED_BEGIN \
    SHARDWISE_TARGET_QUIET SHARDWISE_PRAGMA(GCC push_options) SHARDWISE_PRAGMA(GCC optimize("fp-contract=off"))
#define SHARDWISE_UNFUSED_END SHARDWISE_PRAGMA(GCC pop_options) SHARDWISE_TARGET_LOUD
#endif
