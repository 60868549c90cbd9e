// flags: -DNDEBUG
#include <shardwise/shardwise.hpp>

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

static_assert(SHARDWISE_ASSERTIONS == 0);
static_assert(!std::string_view{NAME_OF(SHARDWISE_NAMESPACE)}.ends_with("_assert"));
