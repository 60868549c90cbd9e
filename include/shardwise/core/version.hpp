// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every header includes this one before it declares anything, so a unit that cannot be compiled ends here with one message:
// clang stops at a fatal warning; g++ has none, and stops at a header that does not exist.
#if __cplusplus < 202002L
#if defined(__clang__)
#pragma clang diagnostic fatal "-W#warnings"
#warning "shardwise needs C++20: compile with -std=c++20"
#else
#error "shardwise needs C++20: compile with -std=c++20"
#include <shardwise needs C++20>
#endif
#elif defined(SHARDWISE_SINGLE_HEADER)
#if defined(__clang__)
#pragma clang diagnostic fatal "-W#warnings"
#warning "the single header and include/ of shardwise are in one unit: include one of them"
#else
#error "the single header and include/ of shardwise are in one unit: include one of them"
#include <one of the two shardwise>
#endif
#endif

/// The version of this copy of shardwise. CMake, Conan and vcpkg read it from these three lines.
#define SHARDWISE_VERSION_MAJOR 0
#define SHARDWISE_VERSION_MINOR 3
#define SHARDWISE_VERSION_PATCH 0

/// 1 where SHARDWISE_ASSERT (core/assert.hpp) checks, 0 where it does nothing: without and with NDEBUG, if nobody says otherwise.
#ifndef SHARDWISE_ASSERTIONS
#if defined(SHARDWISE_ASSERT) || !defined(NDEBUG)
#define SHARDWISE_ASSERTIONS 1
#else
#define SHARDWISE_ASSERTIONS 0
#endif
#endif

#if defined(SHARDWISE_ASSERT)
#define SHARDWISE_ASSERT_SUFFIX _own_assert
#elif SHARDWISE_ASSERTIONS
#define SHARDWISE_ASSERT_SUFFIX _assert
#else
#define SHARDWISE_ASSERT_SUFFIX
#endif

/// SHARDWISE_NO_TRACE leaves out what a trace (core/trace_ring.hpp) asks at every operation and collective.
#if defined(SHARDWISE_NO_TRACE)
#define SHARDWISE_TRACE_SUFFIX _no_trace
#else
#define SHARDWISE_TRACE_SUFFIX
#endif

#define SHARDWISE_JOIN_VERSION(major, minor, patch, suffix, trace) v##major##_##minor##_##patch##suffix##trace
#define SHARDWISE_NAMESPACE_OF(major, minor, patch, suffix, trace) \
    SHARDWISE_JOIN_VERSION(major, minor, patch, suffix, trace)
/// The inline namespace, v0_3_0 of version 0.3.0, v0_3_0_assert with assertions: inline functions of two versions, or with and
/// without assertions, differ. They are different functions, so that two libraries of one program can each hold their own.
#define SHARDWISE_NAMESPACE \
    SHARDWISE_NAMESPACE_OF(SHARDWISE_VERSION_MAJOR, SHARDWISE_VERSION_MINOR, SHARDWISE_VERSION_PATCH, \
                           SHARDWISE_ASSERT_SUFFIX, SHARDWISE_TRACE_SUFFIX)

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A released version, ordered by its three numbers.
struct Version {
    int major_number;
    int minor_number;
    int patch_number;
};

/// The version that the including translation unit was compiled with.
inline constexpr Version library_version{SHARDWISE_VERSION_MAJOR, SHARDWISE_VERSION_MINOR, SHARDWISE_VERSION_PATCH};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
