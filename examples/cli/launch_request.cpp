// SPDX-License-Identifier: Apache-2.0
#include "launch_request.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<std::chrono::nanoseconds> read_grace(std::string const& word) {
    double seconds = 0.0;
    auto const* const end = word.data() + word.size();
    auto const got = std::from_chars(word.data(), end, seconds);
    if (got.ec == std::errc{} && got.ptr == end && seconds >= 0.0 && seconds <= 86400.0)
        return std::chrono::nanoseconds(std::llround(seconds * 1e9));
    return Error{ErrorCode::invalid_argument}
        .in("--grace")
        .at(word.empty() ? std::string("\"\"") : word)
        .because("is no number of seconds from 0 to 86400")
        .fix("write for example --grace 2.5");
}

[[nodiscard]] Error missing_flag(char const* flag, char const* why) {
    return Error{ErrorCode::invalid_argument}.in(flag).because(std::string("is missing: ") + why);
}

/// What several machines need, and one does not.
[[nodiscard]] Result<> check_nodes(Arguments const& arguments, LaunchOptions const& options) {
    if (options.node >= options.nodes) {
        return Error{ErrorCode::invalid_argument}
            .in("--node-rank")
            .because("is none of --nnodes")
            .got(options.node)
            .between(0, options.nodes - 1);
    }
    if (options.nodes == 1) return {};
    if (!arguments.node_rank) return missing_flag("--node-rank", "which of the machines this is").fix("count from 0");
    if (!arguments.master_addr)
        return missing_flag("--master-addr", "ranks on several machines must know where to meet")
            .fix("give the first machine's address");
    if (!arguments.master_port) {
        return missing_flag("--master-port", "ranks on several machines must know where to meet")
            .fix("give a port that is free on the first machine");
    }
    if (options.max_restarts > 0) {
        return Error{ErrorCode::invalid_argument}
            .in("--max-restarts")
            .because("is for one machine: no launcher knows when the others have ended their ranks")
            .got(options.max_restarts)
            .expected(0)
            .fix("restart the whole job");
    }
    return {};
}

}  // namespace

Result<LaunchRequest> read_launch_request(Arguments const& arguments) {
    LaunchRequest request;
    auto& options = request.options;
    if (arguments.command_line.empty()) {
        return Error{ErrorCode::invalid_argument}
            .because("no command to launch")
            .fix("write -- and the command: shardwise launch --nproc 2 -- COMMAND");
    }
    options.command = arguments.command_line;
    if (auto const read = read_count("--nproc", arguments.nproc, 4096, options.processes); !read) return read.error();
    auto const max_nodes = detail::max_launched_ranks / options.processes;
    if (auto const read = read_count("--nnodes", arguments.nnodes, max_nodes, options.nodes); !read)
        return read.error();
    if (auto const read = read_count("--node-rank", arguments.node_rank, max_nodes, options.node, 0); !read)
        return read.error();
    if (auto const read = read_count("--master-port", arguments.master_port, 65535, options.port); !read)
        return read.error();
    if (auto const read = read_count("--max-restarts", arguments.max_restarts, 1000000, options.max_restarts, 0); !read)
        return read.error();
    if (arguments.master_addr) {
        if (arguments.master_addr->empty())
            return Error{ErrorCode::invalid_argument}.in("--master-addr").because("an empty name is no machine's");
        options.address = *arguments.master_addr;
    }
    if (auto const checked = check_nodes(arguments, options); !checked) return checked.error();
    if (arguments.grace) {
        auto const grace = read_grace(*arguments.grace);
        if (!grace) return grace.error();
        options.grace = *grace;
    }
    if (arguments.log_dir) {
        if (arguments.log_dir->empty())
            return Error{ErrorCode::invalid_argument}.in("--log-dir").because("an empty name is no folder's");
        options.log_folder = *arguments.log_dir;
    }
    if (arguments.prefix) {
        auto const chosen = choose<bool>("--prefix", *arguments.prefix, prefix_choices);
        if (!chosen) return chosen.error();
        options.has_prefix = *chosen;
    }
    if (arguments.bind) {
        auto const chosen = choose<bool>("--bind", *arguments.bind, bind_choices);
        if (!chosen) return chosen.error();
        request.is_bound = *chosen;
    }
    request.is_masked = arguments.mask_devices;
    return request;
}

}  // namespace shardwise::cli
