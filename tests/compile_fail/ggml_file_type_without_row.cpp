// expect: ggml_file_type_table has one row for each file type
// without: shardwise/quant/ggml_file_type.hpp: {GgmlFileType::q5_k_s, "Q5_K_S"
#include <shardwise/quant/ggml_file_type.hpp>
