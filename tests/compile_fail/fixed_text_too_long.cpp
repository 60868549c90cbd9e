// expect: FixedText holds 4 to 65535 bytes
#include <shardwise/core/fixed_text.hpp>

#ifdef SHARDWISE_FIXED
shardwise::FixedText<65535> text;
#else
shardwise::FixedText<65536> text;
#endif
