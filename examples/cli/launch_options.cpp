// SPDX-License-Identifier: Apache-2.0
#include "launch_request.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array launch_table{
    Option{.flag = "--nproc",
           .value = "N",
           .help = "processes on this machine",
           .standard = "1",
           .word = &Arguments::nproc},
    Option{.flag = "--nnodes", .value = "N", .help = "machines", .standard = "1", .word = &Arguments::nnodes},
    Option{.flag = "--node-rank",
           .value = "R",
           .help = "which of the machines this is, from 0",
           .word = &Arguments::node_rank},
    Option{.flag = "--master-addr",
           .value = "A",
           .help = "where ranks meet: a name or address of the first machine",
           .standard = "127.0.0.1",
           .word = &Arguments::master_addr},
    Option{.flag = "--master-port",
           .value = "P",
           .help = "a port that is free there",
           .standard = "a free one on one machine, another for each restart",
           .word = &Arguments::master_port},
    Option{.flag = "--max-restarts",
           .value = "K",
           .help = "how often all are started anew after a failure",
           .standard = "0",
           .word = &Arguments::max_restarts},
    Option{.flag = "--mask-devices",
           .help = "show each process one GPU only, by its UUID",
           .is_set = &Arguments::mask_devices},
    Option{.flag = "--bind",
           .value = "WHERE",
           .help = "numa: each process runs on the processors near to its GPU",
           .standard = "none",
           .choices = words_of<bind_choices>,
           .word = &Arguments::bind},
    Option{.flag = "--grace",
           .value = "S",
           .help = "seconds from asking processes to end until they are killed, up to 86400",
           .standard = "10",
           .word = &Arguments::grace},
};

constexpr std::array launch_output_table{
    Option{.flag = "--prefix",
           .value = "WHICH",
           .help = "what stands before each line",
           .standard = "rank",
           .choices = words_of<prefix_choices>,
           .word = &Arguments::prefix},
    Option{.flag = "--log-dir",
           .value = "D",
           .help = "keep each rank's output in this folder, too: rank.N.out and rank.N.err",
           .kind = ValueKind::file,
           .word = &Arguments::log_dir},
};

}  // namespace

OptionGroup launch_options() {
    return {"Processes", launch_table};
}
OptionGroup launch_output_options() {
    return {"Output", launch_output_table};
}

}  // namespace shardwise::cli
