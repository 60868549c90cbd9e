// expect: ggml_codec_table has one row for each GGUF type
// without: shardwise/quant/ggml_codec.hpp: {GgmlType::q4_k, &decode
#include <shardwise/quant/ggml_codec.hpp>
