// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/launch/detail/slurm_tasks.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Who started the ranks.
enum class RankLauncher : std::uint8_t { none, torchrun, open_mpi, pmi, slurm };

[[nodiscard]] constexpr std::string_view name_of(RankLauncher launcher) {
    switch (launcher) {
        case RankLauncher::none:
            return "none";
        case RankLauncher::torchrun:
            return "torchrun";
        case RankLauncher::open_mpi:
            return "Open MPI";
        case RankLauncher::pmi:
            return "PMI";
        case RankLauncher::slurm:
            return "SLURM";
    }
    return "unknown";
}

/// Reads a variable of the environment; nothing where it is not set.
using FindVariable = std::function<std::optional<std::string>(char const* name)>;

/// The variables of this process.
[[nodiscard]] inline FindVariable process_environment() {
    return [](char const* name) -> std::optional<std::string> {
        char const* const value = std::getenv(name);
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
}

/// Which of how many ranks this process is, as its launcher's variables say.
struct RankEnvironment {
    RankLauncher launcher = RankLauncher::none;
    std::int32_t rank = 0;
    std::int32_t ranks = 1;
    /// On this machine; as many as there are ranks where the launcher does not say.
    std::int32_t local_rank = 0;
    std::int32_t local_ranks = 1;
    /// The number of this machine among those of the job; nothing where the launcher does not say.
    std::optional<std::int32_t> node{};
    /// The launcher serves MPI: its own variables or those of PMIx are set.
    bool has_mpi = false;
    /// Where ranks of several machines meet: torchrun's MASTER_ADDR and MASTER_PORT, or the host of
    /// SLURM's srun.
    std::string address{};
    std::int32_t port = 0;
    /// What tells this job from others at the same address: TORCHELASTIC_RUN_ID and its restarts; SLURM's job and step.
    std::string run{};
    /// A folder of this job step where ranks of several machines may meet: below the folder that SLURM's job was
    /// submitted from. Nobody has made it yet.
    std::string folder{};

    [[nodiscard]] bool is_one_machine() const { return local_ranks == ranks; }
};

namespace detail {

/// Reads the numbers of one launcher.
class RankVariables {
public:
    RankVariables(FindVariable const& find, RankLauncher launcher) : find_(find), launcher_(launcher) {}

    /// True where all are set; those that are not are kept for an error.
    [[nodiscard]] bool has_all(std::initializer_list<char const*> names) {
        for (auto const* name : names) {
            if (find_(name))
                found_ = name;
            else
                missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
        }
        return missing_.empty();
    }
    [[nodiscard]] bool has_some() const { return !found_.empty(); }
    [[nodiscard]] Error half_set() const {
        return Error{ErrorCode::invalid_argument}
            .in(name_of(launcher_))
            .at(found_)
            .because("is set, and these are not: " + missing_)
            .fix("set all of them or none; a launcher sets them itself");
    }

    /// A number in [least, most].
    [[nodiscard]] Result<std::int32_t> number(char const* name, std::int32_t least, std::int32_t most,
                                              std::string_view rule) const {
        auto const word = find_(name).value_or("");
        std::int32_t value = 0;
        auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
        Error error{ErrorCode::invalid_argument};
        error.in(name);
        if (problem != std::errc{} || end != word.data() + word.size())
            return error.at(word.empty() ? std::string_view("\"\"") : std::string_view(word))
                .because("is not a whole number")
                .fix("let the launcher set it");
        if (value < least || value > most) return error.because(rule).got(value).between(least, most);
        return value;
    }

private:
    FindVariable const& find_;
    RankLauncher launcher_;
    std::string found_;
    std::string missing_;
};

inline constexpr std::int32_t max_launched_ranks = 1 << 20;

/// Reads rank, ranks, local rank and local ranks; names that are null are not asked for.
[[nodiscard]] inline Result<RankEnvironment> read_ranks(RankVariables const& variables, RankLauncher launcher,
                                                        std::array<char const*, 4> const& names) {
    RankEnvironment out;
    out.launcher = launcher;
    auto const ranks = variables.number(names[1], 1, max_launched_ranks, "is no number of ranks");
    if (!ranks) return ranks.error();
    out.ranks = *ranks;
    auto const rank = variables.number(names[0], 0, out.ranks - 1, "is no rank of the job");
    if (!rank) return rank.error();
    out.rank = *rank;
    out.local_rank = out.rank;
    out.local_ranks = out.ranks;
    if (names[3] != nullptr) {
        auto const local_ranks =
            variables.number(names[3], 1, out.ranks, "is not a number of this machine's ranks among all ranks");
        if (!local_ranks) return local_ranks.error();
        out.local_ranks = *local_ranks;
    }
    if (names[2] != nullptr) {
        auto const local_rank = variables.number(names[2], 0, std::min(out.local_ranks - 1, out.rank),
                                                 "is no rank of this machine, or comes after the rank itself");
        if (!local_rank) return local_rank.error();
        out.local_rank = *local_rank;
    }
    return out;
}

inline constexpr std::array<char const*, 4> torchrun_names{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
inline constexpr std::array<char const*, 4> open_mpi_names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};

[[nodiscard]] inline Result<RankEnvironment> read_torchrun(FindVariable const& find) {
    auto out = read_ranks(RankVariables(find, RankLauncher::torchrun), RankLauncher::torchrun, torchrun_names);
    if (!out) return out.error();
    RankVariables place(find, RankLauncher::torchrun);
    if (!place.has_all({"MASTER_ADDR", "MASTER_PORT", "RANK"})) return place.half_set();
    out->address = *find("MASTER_ADDR");
    auto const port = place.number("MASTER_PORT", 1, 65535, "is no port");
    if (!port) return port.error();
    out->port = *port;
    out->run = find("TORCHELASTIC_RUN_ID").value_or("");
    if (auto const restarts = find("TORCHELASTIC_RESTART_COUNT")) out->run += "-" + *restarts;
    if (find("GROUP_RANK")) {
        auto const node = place.number("GROUP_RANK", 0, out->ranks - 1, "is no machine of the job");
        if (!node) return node.error();
        out->node = *node;
    }
    return out;
}

/// Reads the variables of one of SLURM's tasks; they are all set.
[[nodiscard]] inline Result<RankEnvironment> read_slurm(FindVariable const& find) {
    RankVariables const variables(find, RankLauncher::slurm);
    auto out = read_ranks(variables, RankLauncher::slurm, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr});
    if (!out) return out.error();
    auto const node = variables.number("SLURM_NODEID", 0, out->ranks - 1, "is no node of the step");
    if (!node) return node.error();
    // The step's own beats the job's: a step may have fewer tasks.
    char const* const name = find("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
    auto const tasks = slurm_tasks(find(name).value_or(""), name, *node, out->ranks);
    if (!tasks) return tasks.error();
    if (out->local_rank >= *tasks)
        return Error{ErrorCode::invalid_argument}
            .in("SLURM_LOCALID")
            .because("is no task of this node as " + std::string(name) + " has it")
            .got(out->local_rank)
            .between(0, *tasks - 1);
    out->local_ranks = *tasks;
    out->node = *node;
    out->has_mpi = find("PMIX_RANK").has_value();
    out->address = find("SLURM_LAUNCH_NODE_IPADDR").value_or("");
    auto const job = *find("SLURM_JOB_ID") + "." + *find("SLURM_STEP_ID");
    // A job that is queued again keeps its number.
    out->run = "slurm-" + job + "-" + find("SLURM_RESTART_COUNT").value_or("0");
    if (auto const submitted = find("SLURM_SUBMIT_DIR"); submitted && !submitted->empty())
        out->folder = *submitted + "/.shardwise-" + out->run;
    return out;
}

/// Two complete sets agree where they say the same, or where the outer launcher started one launcher on each machine,
/// as `srun torchrun` does.
[[nodiscard]] inline bool do_agree(RankEnvironment const& inner, RankEnvironment const& outer) {
    if (inner.rank == outer.rank && inner.ranks == outer.ranks) return true;
    return outer.local_ranks == 1 && outer.ranks <= inner.ranks;
}

[[nodiscard]] inline std::string rank_text(RankEnvironment const& ranks) {
    return std::string(name_of(ranks.launcher)) + "'s rank " + std::to_string(ranks.rank) + " of " +
           std::to_string(ranks.ranks);
}

}  // namespace detail

/// Finds out which rank this process is: torchrun's variables, Open MPI's, those of PMI (MPICH), and inside a job step
/// SLURM's; the first complete set wins. Without any of them this is the only rank.
///
/// Errors  invalid_argument for a set that is not complete where none is, for what is no number, for numbers that
///         contradict each other, and for two complete sets that contradict each other
[[nodiscard]] inline Result<RankEnvironment> read_rank_environment(FindVariable const& find = process_environment()) {
    std::optional<Error> half_set;
    std::optional<RankEnvironment> chosen;
    std::optional<Error> refused;
    auto const is_complete = [&](RankLauncher launcher, std::initializer_list<char const*> names) {
        detail::RankVariables variables(find, launcher);
        if (variables.has_all(names)) return true;
        if (variables.has_some() && !half_set) half_set = variables.half_set();
        return false;
    };
    auto const take = [&](Result<RankEnvironment> const& read) {
        if (refused) return;
        if (!chosen) {
            if (read)
                chosen = *read;
            else
                refused = read.error();
        } else if (read && !detail::do_agree(*chosen, *read)) {
            refused = Error{ErrorCode::invalid_argument}
                          .in(detail::rank_text(*chosen))
                          .because("contradicts " + detail::rank_text(*read))
                          .fix("unset the variables of one of them");
        }
    };
    if (is_complete(RankLauncher::torchrun, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}))
        take(detail::read_torchrun(find));
    auto const with_mpi = [](Result<RankEnvironment> read) {
        if (read) read->has_mpi = true;
        return read;
    };
    if (is_complete(RankLauncher::open_mpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"})) {
        take(with_mpi(detail::read_ranks(detail::RankVariables(find, RankLauncher::open_mpi), RankLauncher::open_mpi,
                                         detail::open_mpi_names)));
    }
    if (is_complete(RankLauncher::pmi, {"PMI_RANK", "PMI_SIZE"})) {
        char const* const local = find("MPI_LOCALRANKID") ? "MPI_LOCALRANKID" : nullptr;
        take(with_mpi(detail::read_ranks(detail::RankVariables(find, RankLauncher::pmi), RankLauncher::pmi,
                                         {"PMI_RANK", "PMI_SIZE", local, nullptr})));
    }
    // The variables of a batch script look like those of a step; only a step has ranks.
    if ((find("SLURM_STEP_GPUS") || find("SLURM_LAUNCH_NODE_IPADDR")) &&
        is_complete(RankLauncher::slurm, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID",
                                          "SLURM_TASKS_PER_NODE", "SLURM_JOB_ID", "SLURM_STEP_ID"})) {
        take(detail::read_slurm(find));
    }
    if (refused) return *refused;
    if (chosen) return *chosen;
    if (half_set) return *half_set;
    return RankEnvironment{};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
