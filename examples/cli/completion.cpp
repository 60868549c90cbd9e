// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include "commands.hpp"
#include "console.hpp"

namespace shardwise::cli {

ExitCode run_completion(Arguments const& arguments) {
    if (!arguments.shell) {
        return report(Error{ErrorCode::invalid_argument}
                          .in("SHELL")
                          .because("was not given")
                          .fix("name one: shardwise completion bash, zsh or fish"),
                      Stage::arguments, false);
    }
    auto const shell = choose<Shell>("SHELL", *arguments.shell, shell_choices);
    if (!shell) return report(shell.error(), Stage::arguments, false);
    switch (*shell) {
        case Shell::bash:
            print_text(bash_completion());
            break;
        case Shell::zsh:
            print_text(zsh_completion());
            break;
        case Shell::fish:
            print_text(fish_completion());
            break;
    }
    return ExitCode::done;
}

}  // namespace shardwise::cli
