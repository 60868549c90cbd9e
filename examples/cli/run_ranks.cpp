// SPDX-License-Identifier: Apache-2.0
#include "run_ranks.hpp"

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/broadcast.hpp>

#include "choices.hpp"
#include "run_placement.hpp"
#include "values.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

Result<std::vector<std::string>> own_command() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    // Not what PATH finds by its name: this very program.
    char program[4096];
    auto const size = readlink("/proc/self/exe", program, sizeof program);
    if (words.empty() || size < 1 || size == static_cast<ssize_t>(sizeof program)) {
        return Error{ErrorCode::backend_failure}
            .in("/proc/self")
            .because("does not say how this program was started")
            .fix("start the ranks by mpirun or torchrun, or use --ranks threads");
    }
    words[0].assign(program, static_cast<std::size_t>(size));
    return words;
}

Result<RunRanks> RunRanks::find(Arguments const& arguments) {
    RunRanks out;
    std::optional<RankKind> kind;
    if (arguments.ranks) {
        auto const chosen = choose<RankKind>("--ranks", *arguments.ranks, rank_kind_choices);
        if (!chosen) return chosen.error();
        kind = *chosen;
    }
    if (kind == RankKind::threads) return Result<RunRanks>(std::move(out));
    bool const is_started_by_run = std::getenv(own_rank_variable) != nullptr;
    out.is_own_ = kind == RankKind::processes || is_started_by_run;
    out.is_mpi_ = kind == RankKind::mpi;
    if (kind == RankKind::processes && !is_started_by_run) {
        out.is_group_ = out.is_starter_ = true;
        return Result<RunRanks>(std::move(out));
    }
    // Processes of `run` look at torchrun's variables only, which it set.
    auto const find = [&, all = process_environment()](char const* name) -> std::optional<std::string> {
        std::string_view const word(name);
        bool const is_other =
            word.find("MPI_") != word.npos || word.find("PMI") != word.npos || word.substr(0, 6) == "SLURM_";
        return is_started_by_run && is_other ? std::nullopt : all(name);
    };
    auto environment = read_rank_environment(find);
    if (!environment) return environment.error();
    // One rank by itself is no group: its ranks are threads.
    out.is_group_ = environment->ranks > 1 || out.is_mpi_;
    if (out.is_group_) out.environment_ = *std::move(environment);
    // torchrun's agent that is killed tells its ranks nothing: they end with it.
    if (out.is_group_ && std::getenv("TORCHELASTIC_RUN_ID") != nullptr) (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return Result<RunRanks>(std::move(out));
}

Result<> RunRanks::fit(Arguments const& arguments, RunOptions& options) {
    if (!is_group_) return {};
    if (is_starter_) {
        become_starter(options.ranks());
        return {};
    }
    options.local_ranks = environment_.local_ranks;
    auto const ranks = environment_.ranks;
    auto const others = options.pp * options.ep;
    // Ranks that a placement has put on devices are as many as it says.
    bool const is_placed = has_placement(arguments) && !options.devices.empty();
    if (!arguments.tp && !is_placed && ranks % others == 0) options.tp = ranks / others;
    // One that this program started learns the first one's placement, and is refused there where its own is another.
    if (options.ranks() == ranks || (is_started() && has_placement(arguments))) return {};
    if (has_placement(arguments) && !arguments.pp && !arguments.tp) {
        return Error{ErrorCode::invalid_argument}
            .in(placement_flag(arguments))
            .because("places the model in another number of stages than " + launcher() + " started ranks for")
            .got(options.ranks())
            .expected(ranks)
            .fix("start " + std::to_string(options.ranks()) + ", or name other devices");
    }
    return Error{ErrorCode::invalid_argument}
        .in(arguments.tp ? "--tp" : "--pp")
        .because("asks for another number of ranks, tp * pp * ep, than " + launcher() + " started")
        .got(options.ranks())
        .expected(ranks)
        .fix("start tp * pp * ep ranks, or leave out --tp");
}

Result<> RunRanks::fit(Arguments const& arguments, TrainRequest& request) {
    if (!is_group_) return {};
    if (is_starter_) {
        become_starter(request.ranks());
        return {};
    }
    auto const ranks = environment_.ranks;
    auto const replica = request.tp * request.pp;
    if (request.is_auto && !is_own_ && ranks % request.ranks() == 0) {
        request.free_ranks = ranks;
        return {};
    }
    if (!arguments.dp && !is_own_ && ranks % replica == 0) request.dp = ranks / replica;
    if (request.ranks() == ranks) return {};
    return Error{ErrorCode::invalid_argument}
        .in(arguments.dp ? "--dp" : "--tp")
        .because("asks for another number of ranks, dp * tp * pp, than " + launcher() + " started")
        .got(request.ranks())
        .expected(ranks)
        .fix("start dp * tp * pp ranks, or leave out --dp");
}

void RunRanks::leave() {
    context_.reset();
    environment_ = {};
    is_group_ = is_mpi_ = is_own_ = is_starter_ = false;
}

RankKind RunRanks::kind() const {
    if (!is_group_) return RankKind::threads;
    return is_mpi_ || environment_.has_mpi ? RankKind::mpi : RankKind::processes;
}

void RunRanks::become_starter(std::int64_t ranks) {
    environment_.launcher = RankLauncher::torchrun;
    environment_.ranks = environment_.local_ranks = static_cast<std::int32_t>(ranks);
    environment_.address = "run";
    environment_.port = 1;
    environment_.run =
        std::to_string(getpid()) + "-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::string RunRanks::launcher() const {
    return std::string(environment_.launcher == RankLauncher::none ? std::string_view("mpirun")
                                                                   : name_of(environment_.launcher));
}

Result<> RunRanks::join(std::chrono::nanoseconds timeout) {
    if (!is_group_) return {};
    DistributedOptions how;
    how.timeout = timeout;
    how.is_mpi = is_mpi_;
    if (char const* const folder = std::getenv("SHARDWISE_RENDEZVOUS")) how.folder = folder;
    if (is_starter_ && environment_.ranks > 1) {
        auto const command = own_command();
        if (!command) return command.error();
        std::vector<ProcessCommand> commands;
        for (std::int32_t rank = 1; rank < environment_.ranks; ++rank) {
            auto const number = std::to_string(rank);
            auto const ranks = std::to_string(environment_.ranks);
            commands.push_back({*command,
                                {{own_rank_variable, "1"},
                                 {"RANK", number},
                                 {"WORLD_SIZE", ranks},
                                 {"LOCAL_RANK", number},
                                 {"LOCAL_WORLD_SIZE", ranks},
                                 {"MASTER_ADDR", environment_.address},
                                 {"MASTER_PORT", std::to_string(environment_.port)},
                                 {"TORCHELASTIC_RUN_ID", environment_.run}},
                                true});
        }
        auto started = LocalProcesses::start(commands);
        if (!started) return started.error();
        *started_ = std::move(*started);
        how.gives_up = [processes = started_.get()]() -> std::optional<Error> {
            auto const end = processes->wait(Deadline::after(std::chrono::nanoseconds(0)));
            if (!end) return std::nullopt;
            return Error{ErrorCode::rank_lost}
                .in("rank " + std::to_string(end->member + 1))
                .because(end->text() + " before it joined")
                .fix("look at its output");
        };
    }
    auto joined = DistributedContext::join(environment_, how);
    if (!joined) return joined.error();
    context_.emplace(std::move(*joined));
    return {};
}

Result<> RunRanks::finish() {
    // Who started nothing waits for nobody.
    while (auto const end = started_->wait(Deadline::after(std::chrono::seconds(30)))) {
        if (end->is_success()) continue;
        return Error{ErrorCode::rank_lost}
            .in("rank " + std::to_string(end->member + 1))
            .because(end->text())
            .fix("look at its output");
    }
    return {};
}

Result<> share_ids(HostCommunicator& world, std::vector<std::int32_t>& ids) {
    auto count = static_cast<std::int64_t>(ids.size());
    if (auto const told = broadcast(world, TensorView<std::int64_t, 1, Host>(&count, {1}), 0); !told) return told;
    ids.resize(static_cast<std::size_t>(count));
    return broadcast(world, TensorView<std::int32_t, 1, Host>(ids.data(), {count}), 0);
}

ExitCode report_of_rank(Error const& error, Stage stage, RunRanks& ranks, bool is_json) {
    if (ranks.is_first()) return report(error, stage, is_json);
    // A launcher ends all ranks once one has ended: rank 0 is to speak before.
    if (ranks.has_launcher()) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (ranks.world() == nullptr) {
        auto const message = name_rank(error, ranks.rank()).message();
        std::fprintf(stderr, "shardwise: %s\n", message.c_str());
    }
    return exit_code_of(error.code(), stage);
}

}  // namespace shardwise::cli
