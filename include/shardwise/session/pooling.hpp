// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What is made of the states of a text's tokens: their mean, the first one's (bert's [CLS]), the last one's (decoders
/// that were trained to embed), or each of them.
enum class Pooling : std::uint8_t { mean, cls, last, none };

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
