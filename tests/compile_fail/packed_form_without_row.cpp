// expect: packed_form_table has one row for each form
// without: shardwise/executor/packed_forms.hpp: {PackedForm::fp8, &decode
#include <shardwise/executor/packed_forms.hpp>
