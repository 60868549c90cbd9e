// expect: assertion_failed
#include <shardwise/core/result.hpp>

constexpr shardwise::Result<int> halve(int value) {
    if (value % 2 != 0) return shardwise::Error{shardwise::ErrorCode::invalid_argument};
    return value / 2;
}
#ifdef SHARDWISE_FIXED
static_assert(*halve(8) == 4);
#else
static_assert(*halve(7) == 3);
#endif
