// expect: PlacesModules
#include <shardwise/placement/device_map.hpp>

struct Overconfident {
    std::string_view name = "overconfident";
#ifdef SHARDWISE_FIXED
    using Answer = shardwise::Result<shardwise::Placement>;
#else
    using Answer = shardwise::Placement;
#endif
    Answer operator()(shardwise::ModuleSequence const&, shardwise::Budgets const&) const { return shardwise::Placement{}; }
};

shardwise::DeviceMap<Overconfident> map;
