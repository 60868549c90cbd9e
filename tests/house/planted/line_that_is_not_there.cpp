// expect: anything
// without: shardwise/core/version.hpp: a line that no header has
// refused: not one line of
#include <shardwise/core/version.hpp>
