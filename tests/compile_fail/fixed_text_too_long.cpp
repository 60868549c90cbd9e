// expect: FixedText holds 4 to 255 bytes
#include <shardwise/core/fixed_text.hpp>

#ifdef SHARDWISE_FIXED
shardwise::FixedText<255> text;
#else
shardwise::FixedText<256> text;
#endif
