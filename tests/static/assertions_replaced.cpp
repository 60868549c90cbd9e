// flags: -DNDEBUG
// An assertion of the user's own, a statement: on whatever NDEBUG says, and usable in constant expressions.
constexpr void count_check(bool condition, int& checks) {
    if (!condition) throw "replaced";
    ++checks;
}
#define SHARDWISE_ASSERT(condition)                            \
    do {                                                       \
        int checks = 0;                                        \
        count_check(static_cast<bool>(condition), checks);     \
        if (checks != 1) throw "not evaluated once";           \
    } while (false)
#include <shardwise/shardwise.hpp>

#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

static_assert(SHARDWISE_ASSERTIONS == 1);
static_assert(std::string_view{NAME_OF(SHARDWISE_NAMESPACE)}.ends_with("_own_assert"));
static_assert(shardwise::Result<int>{3}.value() == 3);
static_assert(shardwise::fits<shardwise::Sequential>(shardwise::presets::llama_3_8b, shardwise::presets::two_rtx4090));
