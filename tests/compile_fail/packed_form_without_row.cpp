// expect: packed_form_table has one row for each form
// without: shardwise/executor/packed_weight.hpp: {PackedForm::fp8, &decode
#include <shardwise/executor/packed_weight.hpp>
