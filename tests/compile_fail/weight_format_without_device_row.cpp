// expect: device_format_table says of each format whether devices run it
// without: shardwise/backend/device_format.hpp: {WeightFormat::nf4,    4
#include <shardwise/backend/device_format.hpp>
