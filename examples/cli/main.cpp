// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"
#include "commands.hpp"
#include "console.hpp"

#include <cstdio>
#include <new>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

/// Lists that grow leave blocks behind: glibc gives large ones back only as long as its threshold stays where it is.
void give_blocks_back() {
#ifdef __GLIBC__
    ::mallopt(M_MMAP_THRESHOLD, 1 << 18);
#endif
}

}  // namespace

int main(int argc, char** argv) {
    using namespace shardwise;
    cli::Arguments arguments;
    auto status = cli::ExitCode::done;
    try {
        if (auto const answered = cli::read_arguments(argc, argv, arguments)) {
            status = *answered;
        } else {
            if (arguments.command == "map" || arguments.command == "estimate") give_blocks_back();
            status = cli::find_command(arguments.command)->run(arguments);
        }
    } catch (std::bad_alloc const&) {
        status = cli::report(
            Error{ErrorCode::capacity_exceeded}.because("this machine has not enough memory for the answer"),
            cli::Stage::work, arguments.json);
    }
    if (!cli::flush_output()) {
        std::fputs("shardwise: the output could not be written\n", stderr);
        if (status == cli::ExitCode::done) status = cli::ExitCode::failure;
    }
    return static_cast<int>(status);
}
