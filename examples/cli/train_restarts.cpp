// SPDX-License-Identifier: Apache-2.0
#include "train_restarts.hpp"

#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/launch/local_processes.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include "load_model.hpp"
#include "program_signals.hpp"
#include "run_ranks.hpp"
#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How long the other ranks have to tell what they know of a failure; the rank that is lost is named within 250 ms.
constexpr auto failure_grace = 400ms;
/// The same once the first rank has told of the end of a run.
constexpr auto end_grace = 30s;
constexpr auto max_pause = 60s;

void append_line(std::string const& path, std::string const& line) {
    auto const file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return;
    auto const text = line + "\n";
    (void)!::write(file, text.data(), text.size());
    ::close(file);
}

/// Calls `take(word, rest)` for each line, by its first word.
template <class Take>
void read_lines(std::string const& path, Take const& take) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        auto const end = std::min(line.find(' '), line.size());
        take(std::string_view(line).substr(0, end), line.substr(std::min(end + 1, line.size())));
    }
}

/// One start of the ranks, from its beginning to its end.
struct TrainStart {
    std::vector<std::optional<MemberEnd>> ends;
    /// When the first of them failed.
    std::optional<Clock::time_point> failed;

    [[nodiscard]] static bool is_stop(MemberEnd const& end) {
        return end.signal == 0 && (end.exit_code == 0 || end.exit_code > 128);
    }
    /// Ended by this program itself, with an error that another start would meet again.
    [[nodiscard]] static bool is_error(MemberEnd const& end) {
        return end.signal == 0 && end.exit_code > 0 && end.exit_code <= 4;
    }
    [[nodiscard]] static bool is_told(MemberEnd const& end) {
        return end.signal == 0 && end.exit_code == RestartRecord::lost;
    }
};

class TrainSupervisor {
public:
    TrainSupervisor(TrainRequest const& request, bool has_threads) : request_(request), has_threads_(has_threads) {
        record_.dp = request.dp;
        record_.tp = request.tp;
        record_.pp = request.pp;
    }
    TrainSupervisor(TrainSupervisor const&) = delete;
    TrainSupervisor& operator=(TrainSupervisor const&) = delete;
    ~TrainSupervisor() {
        if (file_ >= 0) ::close(file_);
    }

    [[nodiscard]] Result<ExitCode> run() {
        file_ = ::memfd_create("shardwise-train", MFD_CLOEXEC);
        if (file_ < 0) return Error{ErrorCode::backend_failure}.in("memfd_create").because(std::strerror(errno));
        record_.path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
        StopRequest const stop({SIGINT, SIGTERM, SIGHUP});
        auto pause = std::chrono::milliseconds(1s);
        while (true) {
            auto const start = start_once();
            if (!start) return start.error();
            auto const& first = start->ends.front();
            if (first && ((TrainStart::is_stop(*first) && is_done()) || TrainStart::is_error(*first)))
                return static_cast<ExitCode>(first->exit_code);
            if (StopRequest::signal() != 0) return stopped_by(StopRequest::signal());
            auto const cause = cause_of(*start);
            if (std::any_of(start->ends.begin(), start->ends.end(),
                            [](auto const& end) { return end && TrainStart::is_error(*end); }))
                return cause;
            if (record_.number >= request_.max_restarts) {
                auto given_up = cause;
                if (record_.number > 0)
                    given_up.because(std::string(cause.reason()) + ", after " + counted(record_.number, "restart"));
                return given_up;
            }
            if (auto const chosen = choose_degrees(*start, cause); !chosen) return chosen.error();
            record_.failed = start->failed.value_or(Clock::now());
            ++record_.number;
            auto const ranks = record_.ranks();
            auto const text = std::string(cause.subject()) + " " + std::string(cause.reason());
            append_line(record_.path, "restart " + std::to_string(ranks) + " " + text);
            std::fprintf(stderr, "shardwise: %s; starting again with %s (restart %lld of %lld)\n", text.c_str(),
                         counted(ranks, "rank").c_str(), static_cast<long long>(record_.number),
                         static_cast<long long>(request_.max_restarts));
            auto const end = Deadline::after(pause);
            while (!end.has_passed() && StopRequest::signal() == 0) std::this_thread::sleep_for(10ms);
            if (StopRequest::signal() != 0) return stopped_by(StopRequest::signal());
            pause = std::min<std::chrono::milliseconds>(2 * pause, max_pause);
        }
    }

private:
    [[nodiscard]] Result<std::vector<ProcessCommand>> commands() const {
        auto const command = own_command();
        if (!command) return command.error();
        auto const processes = has_threads_ ? 1 : record_.ranks();
        auto const run = std::to_string(::getpid()) + "-" + std::to_string(Clock::now().time_since_epoch().count());
        std::vector<ProcessCommand> out;
        for (std::int64_t rank = 0; rank < processes; ++rank) {
            out.push_back({*command,
                           {{own_rank_variable, "1"},
                            {RestartRecord::variable, record_.words()},
                            {"RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(processes)},
                            {"LOCAL_RANK", std::to_string(rank)},
                            {"LOCAL_WORLD_SIZE", std::to_string(processes)},
                            {"MASTER_ADDR", "train"},
                            {"MASTER_PORT", "1"},
                            {"TORCHELASTIC_RUN_ID", run},
                            {"TORCHELASTIC_RESTART_COUNT", std::to_string(record_.number)}},
                           rank > 0});
        }
        return out;
    }

    /// Starts the ranks and waits until none is left.
    [[nodiscard]] Result<TrainStart> start_once() const {
        auto const words = commands();
        if (!words) return words.error();
        auto processes = LocalProcesses::start(*words);
        if (!processes) return processes.error();
        TrainStart out;
        out.ends.resize(words->size());
        std::optional<Deadline> limit;
        bool is_passed_on = false;
        while (std::any_of(out.ends.begin(), out.ends.end(), [](auto const& end) { return !end; })) {
            if (auto const signal = StopRequest::signal(); signal != 0 && !std::exchange(is_passed_on, true))
                (void)::kill(processes->number(0), signal);
            if (limit && limit->has_passed()) break;
            auto const end = processes->wait(Deadline::after(20ms));
            if (!end) continue;
            out.ends[static_cast<std::size_t>(end->member)] = end;
            if (TrainStart::is_stop(*end)) {
                // Others end sooner than the first, which tells of the run.
                if (end->member == 0 && !limit) limit = Deadline::after(end_grace);
            } else if (!out.failed) {
                out.failed = Clock::now();
                limit = Deadline::after(failure_grace);
            }
        }
        processes->end_all(0s);
        return out;
    }

    /// Whether the first rank has told of the end of the run: one that ends in the midst of it may do so with any status.
    [[nodiscard]] bool is_done() const {
        bool out = false;
        read_lines(record_.path, [&](std::string_view word, std::string const&) { out = out || word == "done"; });
        return out;
    }
    /// What the ranks have told of their end: the first of them.
    [[nodiscard]] std::optional<Error> told() const {
        std::optional<Error> out;
        std::int64_t starts = 0;
        read_lines(record_.path, [&](std::string_view word, std::string const& rest) {
            if (word == "restart") {
                ++starts;
                out.reset();
            }
            if (word != "cause" || out) return;
            auto const code = std::atoi(rest.c_str());
            auto const tab = std::min(rest.find('\t'), rest.size());
            auto const begin = std::min(rest.find(' '), tab);
            out = Error{static_cast<ErrorCode>(code)}
                      .in(std::string_view(rest).substr(std::min(begin + 1, tab), tab - std::min(begin + 1, tab)))
                      .because(std::string_view(rest).substr(std::min(tab + 1, rest.size())));
        });
        return starts == record_.number ? out : std::nullopt;
    }

    [[nodiscard]] Error cause_of(TrainStart const& start) const {
        std::optional<MemberEnd> ended;
        for (auto const& end : start.ends) {
            if (!end || TrainStart::is_stop(*end) || TrainStart::is_told(*end)) continue;
            if (!ended || end->signal != 0) ended = ended && ended->signal != 0 ? ended : end;
        }
        auto const known = told();
        if (!ended && known) return Error{*known}.fix("look at its output");
        Error error{ErrorCode::rank_lost};
        error.in(has_threads_ || !ended ? std::string("the process") : "rank " + std::to_string(ended->member));
        return error.because(ended ? ended->text() : std::string("ended without a word")).fix("look at its output");
    }

    /// Which ranks go on: all where none or all of them died.
    ///
    /// Errors  rank_lost where they are fewer than --min-ranks
    [[nodiscard]] Result<> choose_degrees(TrainStart const& start, Error const& cause) {
        if (has_threads_) return {};
        auto const all = static_cast<std::int64_t>(start.ends.size());
        bool const is_late = cause.code() == ErrorCode::deadline_exceeded;
        auto const lost = std::count_if(start.ends.begin(), start.ends.end(),
                                        [&](auto const& end) { return end ? !TrainStart::is_told(*end) : is_late; });
        auto const alive = lost == all ? all : all - static_cast<std::int64_t>(lost);
        if (alive < record_.tp) {
            auto const loaded = load_known_model(request_.model);
            if (!loaded) return loaded.error();
            record_.tp = alive;
            while (record_.tp > 1 && !TrainingProgram::create(loaded->model, {record_.tp, 0}, request_.low_rank))
                --record_.tp;
        }
        // Fewer stages have more layers each.
        record_.pp = std::min(record_.pp, alive / record_.tp);
        record_.dp = std::min(alive / (record_.tp * record_.pp), request_.batch);
        auto const ranks = record_.ranks();
        if (ranks >= request_.min_ranks) return {};
        return Error{cause}
            .because(std::string(cause.reason()) + ", and fewer ranks are left to train than --min-ranks allows")
            .got(ranks)
            .at_least(request_.min_ranks);
    }

    TrainRequest const& request_;
    bool has_threads_;
    RestartRecord record_;
    int file_ = -1;
};

/// How often a launcher has started this run before; nothing where none did, or this program does that itself.
[[nodiscard]] std::optional<long long> starts_before() {
    if (std::getenv(RestartRecord::variable) != nullptr) return std::nullopt;
    for (auto const* const name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
        if (char const* const count = std::getenv(name); count != nullptr) return std::atoll(count);
    }
    // SLURM counts from the first restart on.
    return std::getenv("SLURM_JOB_ID") != nullptr ? std::optional(0LL) : std::nullopt;
}
[[nodiscard]] std::string mark_of(TrainRequest const& request) {
    return request.out + "/.begun";
}

}  // namespace

std::optional<RestartRecord> RestartRecord::find() {
    char const* const text = std::getenv(variable);
    if (text == nullptr) return std::nullopt;
    std::istringstream words(text);
    RestartRecord out;
    Clock::rep moment = 0;
    if (!(words >> out.number >> out.dp >> out.tp >> out.pp >> moment >> out.path)) return std::nullopt;
    out.failed = Clock::time_point(Clock::duration(moment));
    return out;
}

std::string RestartRecord::words() const {
    return std::to_string(number) + " " + std::to_string(dp) + " " + std::to_string(tp) + " " + std::to_string(pp) +
           " " + std::to_string(failed.time_since_epoch().count()) + " " + path;
}

void RestartRecord::apply(TrainRequest& request) const {
    request.dp = dp;
    request.tp = tp;
    request.pp = pp;
    request.pins.dp = dp;
    request.pins.tp = tp;
    request.pins.pp = pp;
    // Checkpoints that are there now are this run's own.
    if (number > 0 && !list_checkpoints(request.out).empty()) request.resume = "auto";
}

void RestartRecord::begin(std::int64_t step) const {
    if (number > 0) append_line(path, "begin " + std::to_string(step));
}

void RestartRecord::take_step() {
    if (number == 0 || std::exchange(has_step_, true)) return;
    auto const passed = std::chrono::duration<double>(Clock::now() - failed).count();
    append_line(path, "step " + std::to_string(passed));
}

void RestartRecord::finish() const {
    append_line(path, "done");
}

bool RestartRecord::take_failure(Error const& error) const {
    if (error.code() != ErrorCode::rank_lost && error.code() != ErrorCode::deadline_exceeded) return false;
    append_line(path, "cause " + std::to_string(static_cast<int>(error.code())) + " " + std::string(error.subject()) +
                          "\t" + std::string(error.reason()));
    return true;
}

std::vector<TrainRestart> RestartRecord::restarts() const {
    std::vector<TrainRestart> out;
    read_lines(path, [&](std::string_view word, std::string const& rest) {
        if (word == "restart") {
            auto const end = std::min(rest.find(' '), rest.size());
            out.push_back({{}, std::atoll(rest.c_str()), rest.substr(std::min(end + 1, rest.size())), {}});
        } else if (word == "begin" && !out.empty()) {
            out.back().step = std::atoll(rest.c_str());
        } else if (word == "step" && !out.empty()) {
            out.back().seconds = std::atof(rest.c_str());
        }
    });
    return out;
}

void resume_own_run(TrainRequest& request, bool is_first) {
    auto const starts = starts_before();
    if (!starts) return;
    auto const mark = mark_of(request);
    if (*starts == 0 && is_first) (void)::unlink(mark.c_str());
    if (*starts > 0 && ::access(mark.c_str(), F_OK) == 0 && !list_checkpoints(request.out).empty())
        request.resume = "auto";
}

void mark_own_run(TrainRequest const& request, bool is_running) {
    if (!starts_before()) return;
    auto const mark = mark_of(request);
    if (!is_running) {
        (void)::unlink(mark.c_str());
    } else if (request.resume && !equal_ignoring_case(*request.resume, "auto")) {
        // Without it a second start is refused, as the first would be.
        auto const file = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (file >= 0) ::close(file);
    }
}

Error with_way_on(Error error, TrainRequest const& request, bool has_launcher) {
    bool const is_late = error.code() == ErrorCode::deadline_exceeded;
    if (!is_late && error.code() != ErrorCode::rank_lost) return error;
    std::string advice = "look at that rank's own output";
    if (is_late) advice = "look at what that rank does, or allow more time (--timeout S)";
    advice += "; the same command goes on from the last checkpoint (--save-every N)";
    if (request.max_restarts > 0) return error.fix(advice);
    return error.fix(advice +
                     (has_launcher
                          ? ", by itself where the launcher starts it again (--max-restarts K of launch and torchrun)"
                          : ", by itself with --max-restarts K"));
}

Result<ExitCode> run_with_restarts(TrainRequest const& request, bool has_threads) {
    return TrainSupervisor(request, has_threads).run();
}

}  // namespace shardwise::cli
