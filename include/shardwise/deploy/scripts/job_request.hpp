// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/deploy/scripts/job_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A job to be started by somebody else's launcher.
struct JobRequest {
    /// Of the job: check_job_name.
    std::string name = "shardwise";
    JobLayout layout;
    /// What every rank runs.
    std::vector<std::string> command;
    /// The command is `shardwise run` as planned_run makes it: ranks of several machines meet without MPI.
    bool is_run = false;
    /// Cores of each rank.
    std::optional<std::int32_t> cpus;
    /// The scheduler's own word for the devices ("h100"); "" where any will do.
    std::string device_type;
    /// The machines by name, in the order of the plan's nodes; empty where the launcher knows them.
    std::vector<std::string> hosts;
    /// Where ranks of several machines meet.
    std::int32_t port = 29500;
    /// Of Kubernetes.
    std::string image;
    /// A folder or file of the host that every pod of Kubernetes sees; "" for none.
    std::string mount;
};

namespace detail {

[[nodiscard]] constexpr bool is_name_letter(char letter) {
    auto const low = to_lower(letter);
    return (low >= 'a' && low <= 'z') || (letter >= '0' && letter <= '9');
}

}  // namespace detail

/// True for what SLURM takes as a job's name or type and Kubernetes as an object's name: small letters, digits, inner
/// dashes, at most 50 (a pod's number follows).
///
/// Source  Kubernetes: object names, RFC 1123 labels of at most 63 characters
[[nodiscard]] constexpr bool is_job_name(std::string_view name) {
    constexpr std::size_t most = 50;
    if (name.empty() || name.size() > most || name.front() == '-' || name.back() == '-') return false;
    for (char const letter : name) {
        if (letter != '-' && (letter != to_lower(letter) || !detail::is_name_letter(letter))) return false;
    }
    // A service's name starts with a letter.
    return name.front() < '0' || name.front() > '9';
}

/// A name for the job that runs a model: "org/Name-7B" is "shardwise-org-name-7b".
[[nodiscard]] inline std::string job_name_for(std::string_view model) {
    constexpr std::size_t most = 50;
    std::string name = "shardwise";
    bool is_gap = true;
    for (char const letter : model) {
        if (!detail::is_name_letter(letter)) {
            is_gap = true;
            continue;
        }
        if (name.size() + 2 > most) break;
        if (is_gap) name += '-';
        is_gap = false;
        name += to_lower(letter);
    }
    return name;
}

/// Checks what every launcher needs: a command, and hosts that are as many as the nodes and names.
///
/// Errors  invalid_argument with the field
[[nodiscard]] inline Result<> check_job(JobRequest const& request) {
    Error error{ErrorCode::invalid_argument};
    if (request.command.empty() || request.command.front().empty())
        return error.in("command").because("is empty").fix("give one");
    if (!is_job_name(request.name)) {
        return error.in("name").at(request.name).because("is no name of a job").fix(
            "write at most 50 small letters, digits and dashes, a letter first");
    }
    for (auto const& word : request.command) {
        if (word.find('\0') == std::string::npos) continue;
        return error.in("command").because("has a zero byte, which no command line can hold").fix("leave it out");
    }
    auto const is_plain = [](std::string const& word) {
        for (char const letter : word) {
            if (!detail::is_name_letter(letter) && letter != '.' && letter != '-' && letter != '_') return false;
        }
        return !word.empty() && word.front() != '-';
    };
    if (!request.device_type.empty() && !is_plain(request.device_type))
        return error.in("device_type").at(request.device_type).because("is no type of devices").fix("write it like h100");
    for (auto const& host : request.hosts) {
        if (!is_plain(host))
            return error.in("hosts").at(host).because("is no name of a machine").fix("write names or IPv4 addresses");
    }
    auto const hosts = static_cast<std::int64_t>(request.hosts.size());
    if (hosts != 0 && hosts != request.layout.nodes()) {
        return error.in("hosts").because("are not as many as the plan's nodes").got(hosts).expected(request.layout.nodes());
    }
    return {};
}

/// Checks that all nodes get the same, for launchers that ask for nothing else.
///
/// Errors  unsupported with the numbers of ranks, or for devices of several kinds
[[nodiscard]] inline Result<> check_alike(JobRequest const& request, std::string_view launcher) {
    Error error{ErrorCode::unsupported};
    error.in(launcher);
    if (!request.layout.is_even()) {
        std::string all;
        for (auto const count : request.layout.ranks) all += (all.empty() ? "" : ", ") + std::to_string(count);
        return error.because("gives every node the same, and the plan's nodes have " + all.substr(0, 80) + " ranks")
            .fix("plan for nodes that are alike, or use mpirun");
    }
    if (!request.layout.is_mixed) return {};
    return error.because("gives every rank a device of the same kind, and the plan's ranks have several")
        .fix("plan for devices that are alike, or use mpirun");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
