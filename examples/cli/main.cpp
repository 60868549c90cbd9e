#include "arguments.hpp"
#include "commands.hpp"
#include "console.hpp"

#include <cstdio>
#include <new>

int main(int argc, char** argv) {
    using namespace shardwise;
    cli::Arguments arguments;
    auto status = cli::ExitCode::done;
    try {
        if (auto const answered = cli::read_arguments(argc, argv, arguments)) {
            status = *answered;
        } else {
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
