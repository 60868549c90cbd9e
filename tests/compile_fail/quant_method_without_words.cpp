// expect: quant_words_table has one row for each method
// without: shardwise/deploy/quant_words.hpp: {QuantMethod::awq, "awq"
#include <shardwise/deploy/quant_words.hpp>
