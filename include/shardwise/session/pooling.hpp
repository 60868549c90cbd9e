#pragma once

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// What is made of the states of a text's tokens: their mean, the first one's (bert's [CLS]), or each of them.
enum class Pooling : std::uint8_t { mean, cls, none };

}  // namespace shardwise::inline v0_2_0
