// expect: weight_format_table has one row for each format
// without: shardwise/quant/weight_format.hpp: ggml_format<GgmlType::q4_k>(
#include <shardwise/quant/weight_format.hpp>
