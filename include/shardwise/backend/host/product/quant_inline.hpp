// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the bodies of quantised products are inlined by: only a build that optimises gains from it, others would compile for long.
#if defined(__OPTIMIZE__)
#define SHARDWISE_ALWAYS_INLINE [[gnu::always_inline]] inline
#else
#define SHARDWISE_ALWAYS_INLINE inline
#endif
