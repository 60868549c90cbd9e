#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array calibration_table{
    Option{.flag = "--out",
           .value = "FILE",
           .help = "write the description file here; --devices takes it",
           .kind = ValueKind::file,
           .word = &Arguments::out},
    Option{.flag = "--tp",
           .value = "N",
           .help = "ranks that are threads: their sums are measured, and without accelerators each is a device",
           .standard = "2, on a single core 1",
           .word = &Arguments::tp},
    Option{.flag = "--threads",
           .value = "N",
           .help = "threads of all ranks together",
           .standard = "the machine's cores",
           .word = &Arguments::threads},
    Option{.flag = "--quick",
           .help = "a few seconds with probes that fit in caches: a first look, too good to plan with",
           .is_set = &Arguments::quick},
};

}  // namespace

OptionGroup calibration_options() {
    return {"Measuring", calibration_table};
}

}  // namespace shardwise::cli
