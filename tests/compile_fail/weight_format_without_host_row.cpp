// expect: host_format_table says of each format what the host makes of it
// without: shardwise/backend/host/product/host_format.hpp: {.format = WeightFormat::q6_k
// without: shardwise/backend/host/product/host_format.hpp: .scales = ScaleForm::q6_k, .offset
#include <shardwise/backend/host/product/host_format.hpp>
