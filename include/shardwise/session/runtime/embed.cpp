// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime: embedding texts.
#define SHARDWISE_RUNTIME_EMBED 1

#include <shardwise/session/embed.hpp>
