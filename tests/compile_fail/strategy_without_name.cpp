// expect: HasName
#include <shardwise/placement/device_map.hpp>

struct Nameless {
#ifdef SHARDWISE_FIXED
    std::string_view name = "nameless";
#endif
    shardwise::Result<shardwise::Placement> operator()(shardwise::ModuleSequence const&, shardwise::Budgets const&) const {
        return shardwise::Placement{};
    }
};

shardwise::DeviceMap<Nameless> map;
