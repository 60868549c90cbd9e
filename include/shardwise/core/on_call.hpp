// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

/// What stands before the functions at the library's edge, whose bodies are most of its code.
///
/// Header-only, the default, they are templates without parameters to give, so that a program compiles those that it calls. In a
/// program that links `shardwise::runtime`, which defines SHARDWISE_HAS_RUNTIME, they are plain functions of that library, and
/// headers have their declarations alone. Callers are the same.
///
/// SHARDWISE_ON_CALL stands before a declaration, which has the default arguments, SHARDWISE_ON_CALL_BODY before the definition;
/// `#if SHARDWISE_HAS_BODY(UNIT)` keeps the definition and all that it includes from programs that link the library. The library's
/// own unit, session/runtime/unit.cpp, defines SHARDWISE_RUNTIME_UNIT as 1.
#if defined(SHARDWISE_HAS_RUNTIME)
#define SHARDWISE_ON_CALL
#define SHARDWISE_ON_CALL_BODY
#define SHARDWISE_HAS_BODY(unit) SHARDWISE_RUNTIME_##unit
#else
#define SHARDWISE_ON_CALL template <int = 0>
#define SHARDWISE_ON_CALL_BODY template <int>
#define SHARDWISE_HAS_BODY(unit) 1
#endif
