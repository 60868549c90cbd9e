// expect: the reason given here
// refused: must compile with -DSHARDWISE_FIXED
#ifndef SHARDWISE_FIXED
static_assert(sizeof(int) == 1, "the reason given here");
#endif
int x = "broken in any case";
