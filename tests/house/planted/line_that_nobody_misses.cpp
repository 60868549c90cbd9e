// expect: anything
// without: shardwise/core/enumerator_count.hpp: /// How many enumerators an enumeration has
// refused: compiles, but must not
#include <shardwise/core/enumerator_count.hpp>
