// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/launch/rank_environment.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The device of one rank of this machine.
struct LaunchedDevice {
    /// As reports name it: its UUID.
    std::string name;
    /// Variables that show the rank this device only, and those that are taken away for it.
    std::vector<std::pair<std::string, std::string>> variables{};
    std::vector<std::string> unset{};
    /// The processors that the rank is bound to; empty: it is not.
    std::vector<std::int64_t> processors{};
};

/// Ranks to launch on this machine, with torchrun's variables.
struct LaunchOptions {
    /// The program first; without a shell.
    std::vector<std::string> command;
    /// Ranks on each machine.
    std::int32_t processes = 1;
    /// Machines, each with a launcher of its own, and which of them this is.
    std::int32_t nodes = 1;
    std::int32_t node = 0;
    /// Where ranks meet: "" is this machine, 0 a free port, anew for each attempt.
    std::string address{};
    std::int32_t port = 0;
    /// What tells this job from others; "": made up, or on several machines of address and port.
    std::string run{};
    std::int32_t max_restarts = 0;
    /// Threads for all ranks of this machine: each has its share as OMP_NUM_THREADS, unless that is set.
    std::int32_t threads = 1;
    /// From asking ranks to end until they are killed.
    std::chrono::nanoseconds grace = std::chrono::seconds(10);
    bool has_prefix = true;
    /// "": no log files.
    std::string log_folder{};
    /// One for each rank of this machine, or none.
    std::vector<LaunchedDevice> devices{};
    /// This process has no other children: it takes in, and kills, what a guard leaves that was killed itself.
    bool takes_orphans = false;
    /// The signals that are blocked in the ranks; nothing: those that are blocked in this thread.
    std::optional<sigset_t> signals{};

    [[nodiscard]] std::int32_t ranks() const { return nodes * processes; }
    [[nodiscard]] std::int32_t first_rank() const { return node * processes; }
};

/// Whether ranks can be launched like that.
///
/// Errors  invalid_argument
[[nodiscard]] inline Result<> check_launch(LaunchOptions const& options) {
    Error error{ErrorCode::invalid_argument};
    if (options.command.empty()) return error.in("command").because("has no program");
    if (options.processes < 1 || options.processes > 4096)
        return error.in("processes").because("is no number of ranks").got(options.processes).between(1, 4096);
    if (options.nodes < 1 || options.nodes > detail::max_launched_ranks / options.processes)
        return error.in("nodes").because("is no number of machines").got(options.nodes).at_least(1);
    if (options.node < 0 || options.node >= options.nodes)
        return error.in("node").because("is none of the machines").got(options.node).between(0, options.nodes - 1);
    if (options.port < 0 || options.port > 65535)
        return error.in("port").because("is no port").got(options.port).between(1, 65535);
    if (options.max_restarts < 0) return error.in("max_restarts").because("is below zero").got(options.max_restarts);
    if (options.grace.count() < 0) return error.in("grace").because("is below zero");
    if (options.nodes > 1 && (options.address.empty() || options.port == 0)) {
        return error.in(options.address.empty() ? "address" : "port")
            .because("is missing: ranks on several machines must know where to meet")
            .fix("give the first machine's address, and a port that is free there");
    }
    if (options.nodes > 1 && options.max_restarts > 0) {
        return error.in("max_restarts")
            .because("is for one machine: no launcher knows when the others have ended their ranks")
            .got(options.max_restarts)
            .expected(0)
            .fix("restart the whole job");
    }
    if (!options.devices.empty() && options.devices.size() != static_cast<std::size_t>(options.processes))
        return error.in("devices")
            .because("are not as many as ranks")
            .got(static_cast<std::int64_t>(options.devices.size()));
    return {};
}

/// A port of this machine that nobody listens on now.
///
/// Errors  backend_failure with the system call
[[nodiscard]] inline Result<std::int32_t> find_free_port() {
    Error error{ErrorCode::backend_failure};
    // Both kinds of addresses, where there are both.
    for (int const family : {AF_INET6, AF_INET}) {
        int const listener = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listener < 0) {
            error.in("socket").because(std::strerror(errno));
            continue;
        }
        sockaddr_storage any{};
        any.ss_family = static_cast<sa_family_t>(family);
        socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
        bool const is_bound = ::bind(listener, reinterpret_cast<sockaddr*>(&any), size) == 0 &&
                              ::getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size) == 0;
        auto const problem = errno;
        ::close(listener);
        if (!is_bound) {
            error.in("bind").because(std::strerror(problem));
            continue;
        }
        std::uint16_t port = 0;
        if (family == AF_INET6)
            port = ntohs(reinterpret_cast<sockaddr_in6 const*>(&any)->sin6_port);
        else
            port = ntohs(reinterpret_cast<sockaddr_in const*>(&any)->sin_port);
        return std::int32_t{port};
    }
    return error;
}

/// The variables that one rank of this machine gets.
[[nodiscard]] inline std::vector<std::pair<std::string, std::string>> variables_of_rank(LaunchOptions const& options,
                                                                                        std::int32_t local_rank,
                                                                                        std::int32_t restarts) {
    auto const text = [](std::int32_t number) { return std::to_string(number); };
    auto const rank = text(options.first_rank() + local_rank);
    auto const ranks = text(options.ranks());
    std::vector<std::pair<std::string, std::string>> out{
        {"RANK", rank},
        {"WORLD_SIZE", ranks},
        {"LOCAL_RANK", text(local_rank)},
        {"LOCAL_WORLD_SIZE", text(options.processes)},
        {"GROUP_RANK", text(options.node)},
        {"GROUP_WORLD_SIZE", text(options.nodes)},
        {"ROLE_RANK", rank},
        {"ROLE_WORLD_SIZE", ranks},
        {"ROLE_NAME", "default"},
        {"MASTER_ADDR", options.address.empty() ? "127.0.0.1" : options.address},
        {"MASTER_PORT", text(options.port)},
        {"TORCHELASTIC_RUN_ID", options.run},
        {"TORCHELASTIC_RESTART_COUNT", text(restarts)},
        {"TORCHELASTIC_MAX_RESTARTS", text(options.max_restarts)},
        // Rank 0 makes the store where ranks meet; there is none of an agent.
        {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
    auto const find = process_environment();
    if (!find("OMP_NUM_THREADS"))
        out.emplace_back("OMP_NUM_THREADS", text(std::max(1, options.threads / options.processes)));
    if (!options.devices.empty()) {
        auto const& own = options.devices[static_cast<std::size_t>(local_rank)].variables;
        out.insert(out.end(), own.begin(), own.end());
    }
    return out;
}

/// "NAME=value" of this process, with the rank's own variables and without those that its device takes away.
[[nodiscard]] inline std::vector<std::string> environment_of_rank(LaunchOptions const& options, std::int32_t local_rank,
                                                                  std::int32_t restarts) {
    auto const own = variables_of_rank(options, local_rank, restarts);
    std::vector<std::string> unset;
    if (!options.devices.empty()) unset = options.devices[static_cast<std::size_t>(local_rank)].unset;
    std::vector<std::string> all;
    for (auto const& [name, value] : own) all.push_back(name + "=" + value);
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        std::string_view const text(*entry);
        auto const name = text.substr(0, text.find('='));
        bool const is_own = std::any_of(own.begin(), own.end(), [&](auto const& each) { return each.first == name; });
        bool const is_unset = std::find(unset.begin(), unset.end(), name) != unset.end();
        if (!is_own && !is_unset) all.emplace_back(text);
    }
    return all;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
