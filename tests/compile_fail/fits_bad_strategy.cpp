// expect: strategy_gives_no_legal_placement
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets_llama.hpp>
#include <shardwise/placement/device_map.hpp>

using namespace shardwise;

struct Beyond {
    std::string_view name = "beyond";
    constexpr Result<Placement> operator()(ModuleSequence const& modules, Budgets const& budgets) const {
        Placement placement;
#ifdef SHARDWISE_FIXED
        placement.device_of.assign(modules.units.size(), static_cast<std::int32_t>(budgets.size() - 1));
#else
        placement.device_of.assign(modules.units.size(), static_cast<std::int32_t>(budgets.size()));
#endif
        return placement;
    }
};
static_assert(fits<Beyond>(presets::llama_3_8b, presets::four_a100_40gb));
