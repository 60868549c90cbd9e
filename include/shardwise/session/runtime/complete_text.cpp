// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime: the readers for all families, and the tokenizers.
#define SHARDWISE_RUNTIME_COMPLETE_TEXT 1

#include <shardwise/session/complete_text.hpp>
