// expect: nodiscard
#include <shardwise/core/result.hpp>

shardwise::Result<int> measure();

void use() {
#ifdef SHARDWISE_FIXED
    (void)measure();
#else
    measure();
#endif
}
