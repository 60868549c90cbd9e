// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"
#include "deploy_choices.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array engine_table{
    Option{.flag = "ENGINE",
           .value = "ENGINE",
           .help = "the server that runs the model",
           .choices = words_of<engine_choices>,
           .word = &Arguments::engine},
};

constexpr std::array deploy_table{
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "exactly these devices: 4xA100-40GB, counted from 0; 0,1, cuda:0, UUIDs of this machine; cpu",
           .standard = "auto",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--prefer",
           .value = "KIND",
           .help = "of this machine's devices those of this kind",
           .choices = words_of<deploy_prefer_choices>,
           .word = &Arguments::prefer},
    Option{.flag = "--auto-select",
           .help = "of the devices only the fewest on which it fits, the best joined of them",
           .is_set = &Arguments::auto_select},
    Option{.flag = "--dtype",
           .value = "D",
           .help = "element type of the weights: bf16, float16, ...",
           .standard = "as stored",
           .word = &Arguments::dtype},
    Option{.flag = "--quant",
           .value = "Q",
           .help = "quantisation of the weights: awq, gptq, fp8, nf4, ...; tgi also takes eetq, marlin and exl2",
           .suggestions = quant_words,
           .word = &Arguments::quant},
    Option{.flag = "--context",
           .value = "S",
           .help = "tokens of each sequence: 8192, or 8k",
           .standard = "the model's maximum, at most 4096",
           .word = &Arguments::context},
    Option{.flag = "--sequences",
           .value = "N",
           .help = "sequences at a time, for each of which the key-value cache has the whole context",
           .standard = "1",
           .word = &Arguments::sequences},
};

constexpr std::array container_table{
    Option{.flag = "--image", .value = "I", .help = "an image of your own", .word = &Arguments::image},
    Option{.flag = "--port",
           .value = "P",
           .help = "the port on the host",
           .standard = "8000, 30000 for sglang, 8080 for the others",
           .word = &Arguments::port},
    Option{.flag = "--host-address",
           .value = "A",
           .help = "the address on the host that the port is published on",
           .standard = "127.0.0.1",
           .word = &Arguments::host_address},
    Option{.flag = "--env",
           .value = "K[=V]",
           .help = "a variable for the container: by its name, or with a value that is no secret; may be repeated",
           .words = &Arguments::environment},
    Option{.flag = "--cdi",
           .help = "give devices by the container device interface (docker 25 and later)",
           .is_set = &Arguments::cdi},
    Option{.flag = "--format",
           .value = "FORMAT",
           .help = "for what",
           .standard = "docker",
           .choices = words_of<format_choices>,
           .word = &Arguments::format},
    Option{.flag = "--claims",
           .help = "kubernetes: ask for devices by a ResourceClaimTemplate",
           .is_set = &Arguments::claims},
    Option{.flag = "--timeout",
           .value = "S",
           .help = "seconds within which the server must be healthy, from the pull of its image on",
           .standard = "1800",
           .word = &Arguments::timeout},
    Option{.flag = "--dry-run",
           .help = "print the command line or file; needs neither docker nor the devices, and starts nothing",
           .is_set = &Arguments::dry_run},
    Option{.flag = "--detect-only",
           .help = "print the devices, what docker there is, and with a MODEL what would be chosen; starts nothing",
           .is_set = &Arguments::detect_only},
};

}  // namespace

OptionGroup engine_argument() {
    return {"Arguments", engine_table};
}
OptionGroup deploy_options() {
    return {"Plan", deploy_table};
}
OptionGroup container_options() {
    return {"Container", container_table};
}

}  // namespace shardwise::cli
