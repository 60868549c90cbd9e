// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime: executor and session, for generating and for embedding texts.
#define SHARDWISE_RUNTIME_RUN 1

#include <shardwise/session/embed.hpp>
#include <shardwise/session/run_in_group.hpp>
#include <shardwise/session/run_on_threads.hpp>
#include <shardwise/session/serve_on_threads.hpp>
