// expect: device_preset_is_unknown
// expect: A100-41GB
#include <shardwise/hardware/presets.hpp>

#ifdef SHARDWISE_FIXED
constexpr auto machine = shardwise::repeat_device<2>("A100-40GB").value();
#else
constexpr auto machine = shardwise::repeat_device<2>("A100-41GB").value();
#endif
