// expect: Bytes
#include <shardwise/core/bytes.hpp>

#ifdef SHARDWISE_FIXED
shardwise::Bytes size = shardwise::Bytes{4096};
#else
shardwise::Bytes size = 4096;
#endif
