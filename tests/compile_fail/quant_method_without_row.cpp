// expect: quant_method_table has one row for each method
// without: shardwise/quant/quant_method_table.hpp: {.method = QuantMethod::ggml_pure
#include <shardwise/quant/quant_method_table.hpp>
