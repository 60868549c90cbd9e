// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array monitor_table{
    Option{.flag = "--devices",
           .value = "LIST",
           .help = "only these: cuda:0,hip:1,GPU-3f2a,MIG-...,0; cpu is the host alone",
           .standard = "all that may be used",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--interval",
           .value = "S",
           .help = "seconds from one look to the next, from 0.01 to 3600",
           .standard = "1",
           .word = &Arguments::interval},
};

constexpr std::array monitor_output_table{
    Option{.flag = "--once", .help = "look once, print it and end", .is_set = &Arguments::once},
    Option{.flag = "--json", .help = "print a line of JSON for each look", .is_set = &Arguments::json},
    Option{.flag = "--csv",
           .value = "FILE",
           .help = "add a row for each look to this file; with a COMMAND one row of means at its end; - is the "
                   "standard output",
           .kind = ValueKind::file,
           .word = &Arguments::csv},
    Option{.flag = "--prometheus",
           .help = "print one look as Prometheus' text format",
           .is_set = &Arguments::prometheus},
    Option{.flag = "--listen",
           .value = "A:P",
           .help = "serve the Prometheus text at http://A:P/metrics until it is ended; without A to this machine only",
           .word = &Arguments::listen},
    Option{.flag = "--color",
           .value = "WHEN",
           .help = "colours",
           .standard = "auto, unless NO_COLOR is set",
           .choices = words_of<color_choices>,
           .word = &Arguments::color},
};

}  // namespace

OptionGroup monitor_options() {
    return {"Watching", monitor_table};
}
OptionGroup monitor_output_options() {
    return {"Output", monitor_output_table};
}

}  // namespace shardwise::cli
