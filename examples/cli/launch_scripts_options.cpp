// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"
#include "launch_scripts_choices.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array launcher_table{
    Option{.flag = "LAUNCHER",
           .value = "LAUNCHER",
           .help = "who starts the ranks of a plan",
           .choices = words_of<script_launcher_choices>,
           .word = &Arguments::launcher},
};

constexpr std::array launch_script_table{
    Option{.flag = "--plan",
           .value = "FILE",
           .help = "a plan as `shardwise plan --json` writes it",
           .kind = ValueKind::file,
           .word = &Arguments::plan},
    Option{.flag = "--hosts",
           .value = "A,B",
           .help = "the machines by name, in the order of the plan's nodes",
           .standard = "the launcher's own",
           .word = &Arguments::hosts,
           .is_list = true},
    Option{.flag = "--name",
           .value = "NAME",
           .help = "the job's name: small letters, digits, dashes",
           .standard = "made of the model's",
           .word = &Arguments::name},
    Option{.flag = "--cpus-per-task", .value = "N", .help = "cores of each rank", .word = &Arguments::cpus_per_task},
    Option{.flag = "--gpu-type",
           .value = "TYPE",
           .help = "what SLURM calls the devices: h100",
           .standard = "any",
           .word = &Arguments::gpu_type},
    Option{.flag = "--image",
           .value = "I",
           .help = "for kubernetes: an image that holds shardwise and the command",
           .standard = "shardwise:VERSION",
           .word = &Arguments::image},
};

}  // namespace

OptionGroup launcher_argument() {
    return {"Launcher", launcher_table};
}
OptionGroup launch_script_options() {
    return {"Plan", launch_script_table};
}

}  // namespace shardwise::cli
