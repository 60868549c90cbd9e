// SPDX-License-Identifier: Apache-2.0
#include "docker_start.hpp"

#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/deploy/docker_refusal.hpp>
#include <shardwise/deploy/formats/docker.hpp>

#include "child_command.hpp"
#include "console.hpp"
#include "health_request.hpp"
#include "program_signals.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Docker's client answers what it is asked at once; a daemon that does not in this time hangs.
constexpr auto question_limit = 30s;
constexpr auto health_limit = 3s;
constexpr auto health_interval = 200ms;
/// How often docker is asked whether the container still runs: the question costs it tens of milliseconds.
constexpr auto look_interval = 1s;
constexpr std::size_t longest_line = 500;

/// "12.3 s".
[[nodiscard]] std::string seconds_text(Clock::duration time) {
    auto const tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

/// The phases of a start, with what each has taken: "pulling 12.3 s, starting 0.4 s, loading 31.0 s". Drawn on a terminal.
class StartProgress {
public:
    StartProgress() : is_drawn_(may_animate(ColorMode::automatic)) {}
    StartProgress(StartProgress const&) = delete;
    StartProgress& operator=(StartProgress const&) = delete;
    ~StartProgress() { clear(); }

    void begin(std::string_view phase) {
        end();
        phase_ = phase;
        begun_ = Clock::now();
    }
    void end() {
        if (!phase_.empty()) done_ += (done_.empty() ? "" : ", ") + current();
        phase_.clear();
    }
    void draw() {
        if (!is_drawn_ || phase_.empty()) return;
        // \x1b[K clears what the line before had more.
        std::fprintf(stderr, "\r%s%s%s\x1b[K", done_.c_str(), done_.empty() ? "" : ", ", current().c_str());
        (void)std::fflush(stderr);
    }
    void clear() const {
        if (!is_drawn_) return;
        std::fputs("\r\x1b[K", stderr);
        (void)std::fflush(stderr);
    }
    [[nodiscard]] std::string const& done() const { return done_; }
    [[nodiscard]] std::string const& phase() const { return phase_; }
    [[nodiscard]] std::string current() const { return phase_ + " " + seconds_text(Clock::now() - begun_); }

private:
    bool is_drawn_;
    std::string done_;
    std::string phase_;
    Clock::time_point begun_{};
};

/// How a container's process stands.
struct ContainerState {
    bool is_running = false;
    std::string exit_code;
    bool is_out_of_memory = false;
};

class ContainerStart {
public:
    ContainerStart(Container const& container, std::chrono::seconds limit)
        : container_(container),
          limit_(limit),
          deadline_(Clock::now() + limit),
          label_("shardwise.start=" + std::to_string(::getpid()) + "-" +
                 std::to_string(std::chrono::system_clock::now().time_since_epoch().count())) {}

    [[nodiscard]] ExitCode run() {
        auto const started = start();
        auto const healthy = started ? wait_until_healthy() : started;
        progress_.end();
        progress_.clear();
        if (healthy && signal_ == 0) {
            std::fprintf(stderr, "shardwise: healthy: %s\n", progress_.done().c_str());
            print_text(http_address(container_.host_address, container_.host_port) + "\n");
            return ExitCode::done;
        }
        if (is_made_) remove();
        if (signal_ != 0) {
            std::fprintf(stderr, "shardwise: stopped by signal %d; %s\n", signal_,
                         is_left_ ? "the container may be left" : "nothing is left running");
            return stopped_by(signal_);
        }
        return report(healthy.error(), Stage::work, false);
    }

private:
    /// Runs docker; a signal that comes meanwhile is kept.
    [[nodiscard]] ChildAnswer ask(std::vector<std::string> words, Clock::time_point deadline, bool may_finish = false,
                                  bool has_one_output = false) {
        auto answer = run_child(std::move(words), {.deadline = std::min(deadline, deadline_),
                                                   .signals = &signals_,
                                                   .may_finish = may_finish,
                                                   .has_one_output = has_one_output,
                                                   .tick = [this] { progress_.draw(); }});
        if (signal_ == 0) signal_ = answer.signal;
        return answer;
    }
    [[nodiscard]] Error late() const {
        return Error{ErrorCode::deadline_exceeded}
            .in(container_.name)
            .because("is not healthy after " + std::to_string(limit_.count()) + " s: still " + progress_.phase())
            .fix(is_made_ ? "see its last lines, or give it more time by --timeout" : "give it more time by --timeout");
    }
    /// Errors  deadline_exceeded, or docker's refusal
    [[nodiscard]] Result<> as_result(ChildAnswer const& answer) const {
        if (signal_ != 0 || answer.status == 0) return {};
        if (answer.is_late && Clock::now() >= deadline_) return late();
        if (answer.is_late) {
            return Error{ErrorCode::deadline_exceeded}
                .in("docker")
                .because("did not answer within " + std::to_string(question_limit.count()) + " s")
                .fix("restart its daemon");
        }
        if (answer.status == 127 && answer.err.empty()) {
            return Error{ErrorCode::file_not_found}
                .in("docker")
                .because("is not installed")
                .fix("install it, or see what --dry-run prints for other runtimes");
        }
        return docker_refusal(hidden(answer.err));
    }

    /// From the image to a container that runs.
    [[nodiscard]] Result<> start() {
        progress_.begin("pulling");
        auto const daemon = as_result(ask({"docker", "version", "--format", "{{.Server.Version}}"}, soon()));
        if (!daemon || signal_ != 0) return daemon;
        auto const context = ask({"docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"}, soon());
        bool const is_elsewhere = context.status == 0 && context.out.find("://") != std::string::npos &&
                                  context.out.rfind("unix://", 0) != 0;
        if (is_elsewhere) {
            return Error{ErrorCode::unsupported}
                .in("docker")
                .because("has its daemon on another machine, whose devices and address are not looked at")
                .fix("run shardwise deploy there, or add --dry-run");
        }
        if (signal_ == 0 && ask({"docker", "image", "inspect", "--format", "{{.Id}}", container_.image}, soon()).status != 0 &&
            signal_ == 0) {
            auto const pulled = as_result(ask({"docker", "pull", "--quiet", container_.image}, deadline_));
            if (!pulled) return pulled;
        }
        if (signal_ != 0) return {};
        progress_.begin("starting");
        // Killed in the middle, it could leave a container that docker makes only then.
        is_made_ = true;
        auto const made = ask(docker_start_command(container_, label_), deadline_, true);
        id_ = made.out.substr(0, made.out.find('\n'));
        return as_result(made);
    }

    [[nodiscard]] Result<> wait_until_healthy() {
        progress_.begin("loading");
        auto next_look = Clock::now();
        while (signal_ == 0) {
            progress_.draw();
            if (http_status(container_.host_address, container_.host_port, health_path, health_limit) == 200) return {};
            if (Clock::now() >= next_look) {
                auto const state = look();
                if (signal_ != 0) break;
                if (state && !state->is_running) return ended(*state);
                next_look = Clock::now() + look_interval;
            }
            if (Clock::now() >= deadline_) {
                show_last_lines();
                return late();
            }
            auto const taken = signals_.wait(health_interval);
            if (taken && ProgramSignals::is_end(*taken)) signal_ = static_cast<int>(taken->ssi_signo);
        }
        return {};
    }

    /// Nothing where docker does not say: the next look may tell.
    [[nodiscard]] std::optional<ContainerState> look() {
        auto const answer = ask({"docker", "inspect", "--format",
                                 "{{.State.Running}} {{.State.ExitCode}} {{.State.OOMKilled}}", id_},
                                soon());
        if (answer.status != 0) {
            bool const is_gone = answer.err.find("No such") != std::string::npos;
            if (!is_gone) return std::nullopt;
            return ContainerState{};
        }
        auto const& text = answer.out;
        auto const first = text.find(' ');
        auto const second = text.find(' ', first + 1);
        if (first == std::string::npos || second == std::string::npos) return std::nullopt;
        return ContainerState{.is_running = text.substr(0, first) == "true",
                              .exit_code = text.substr(first + 1, second - first - 1),
                              .is_out_of_memory = text.compare(second + 1, 4, "true") == 0};
    }

    [[nodiscard]] Error ended(ContainerState const& state) {
        Error error{ErrorCode::backend_failure};
        error.in(container_.name);
        if (state.exit_code.empty())
            return error.because("was removed by somebody else while it loaded").fix("start it again");
        show_last_lines();
        auto const code = "ended with exit code " + state.exit_code + " while it loaded (out of memory: " +
                          (state.is_out_of_memory ? "yes)" : "no)");
        return error.because(code).fix(state.is_out_of_memory
                                           ? "free memory of this machine, lower --context or --sequences, or use --quant"
                                           : "its last lines, above, may say why");
    }

    /// What the container said last, on stderr.
    void show_last_lines() {
        progress_.clear();
        // The deadline may have passed already.
        auto const answer = run_child({"docker", "logs", "--tail", "30", id_},
                                      {.deadline = Clock::now() + question_limit, .has_one_output = true});
        auto const text = hidden(answer.out);
        if (text.empty()) {
            std::fprintf(stderr, "shardwise: %s has said nothing\n", container_.name.c_str());
            return;
        }
        std::fprintf(stderr, "shardwise: the last lines of %s:\n", container_.name.c_str());
        for (std::string_view rest = text; !rest.empty();) {
            auto const end = rest.find('\n');
            auto const line = rest.substr(0, std::min(end, longest_line));
            std::fprintf(stderr, "  %s\n", escaped(line).c_str());
            if (end == std::string_view::npos) break;
            rest.remove_prefix(end + 1);
        }
    }

    /// Removes what carries the label of this start, whatever has been told of it.
    void remove() {
        auto const in_time = [] { return ChildWatch{.deadline = Clock::now() + question_limit}; };
        auto const found = run_child({"docker", "ps", "--all", "--quiet", "--filter", "label=" + label_}, in_time());
        std::vector<std::string> words{"docker", "rm", "--force", "--volumes"};
        auto const before = words.size();
        for (std::string_view rest = found.out; !rest.empty();) {
            auto const end = rest.find('\n');
            if (end != 0) words.emplace_back(rest.substr(0, end));
            if (end == std::string_view::npos) break;
            rest.remove_prefix(end + 1);
        }
        is_left_ = found.status != 0;
        if (words.size() > before) is_left_ = run_child(words, in_time()).status != 0;
        if (!is_left_) return;
        std::fprintf(stderr, "shardwise: warning: %s may be left: docker rm --force %s\n", container_.name.c_str(),
                     container_.name.c_str());
    }

    /// The text with the names of variables in the place of the values that they were passed on with.
    [[nodiscard]] std::string hidden(std::string text) const {
        // Shorter ones hide nothing, and would tear words apart.
        constexpr std::size_t least = 4;
        for (auto const& entry : container_.environment) {
            char const* const value = entry.value ? nullptr : std::getenv(entry.name.c_str());
            if (value == nullptr || std::string_view{value}.size() < least) continue;
            auto const mark = "[" + entry.name + "]";
            for (auto at = text.find(value); at != std::string::npos; at = text.find(value, at + mark.size()))
                text.replace(at, std::string_view{value}.size(), mark);
        }
        return text;
    }
    [[nodiscard]] static Clock::time_point soon() { return Clock::now() + question_limit; }

    Container const& container_;
    std::chrono::seconds limit_;
    Clock::time_point deadline_;
    std::string label_;
    ProgramSignals signals_{false};
    StartProgress progress_;
    std::string id_;
    int signal_ = 0;
    bool is_made_ = false;
    bool is_left_ = false;
};

}  // namespace

ExitCode start_container(Container const& container, std::chrono::seconds limit) {
    return ContainerStart(container, limit).run();
}

}  // namespace shardwise::cli
