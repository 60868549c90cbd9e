// SPDX-License-Identifier: Apache-2.0
#include "child_command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t max_kept = std::size_t{1} << 20U;
constexpr auto tick_length = 100ms;
/// For a command that has closed its outputs and is about to end.
constexpr auto end_length = 5ms;
/// From SIGTERM to SIGKILL, and from there to giving up on a process that the system does not end.
constexpr auto end_grace = 2s;
constexpr auto kill_grace = 5s;
constexpr auto finish_grace = 15s;

/// One of a command's outputs.
struct Outlet {
    int descriptor = -1;
    std::string* text = nullptr;

    /// Reads what is there; false at the end.
    [[nodiscard]] bool read_some() const {
        std::array<char, 4096> buffer{};
        auto const count = ::read(descriptor, buffer.data(), buffer.size());
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        auto const kept = std::min(static_cast<std::size_t>(count), max_kept - text->size());
        text->append(buffer.data(), kept);
        return count > 0;
    }
};

/// A command that runs.
class Child {
public:
    Child(std::vector<std::string>& words, ChildWatch const& watch, ChildAnswer& answer) : answer_(answer) {
        std::array<int, 2> out{-1, -1};
        std::array<int, 2> err{-1, -1};
        if (::pipe2(out.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
        bool const has_err = !watch.has_one_output && ::pipe2(err.data(), O_CLOEXEC | O_NONBLOCK) == 0;
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        process_ = ::fork();
        if (process_ == 0) become(arguments, out[1], has_err ? err[1] : out[1], watch.signals);
        // Whoever of the two is first.
        if (process_ > 0) (void)::setpgid(process_, process_);
        ::close(out[1]);
        if (has_err) ::close(err[1]);
        outlets_[0] = {out[0], &answer.out};
        if (has_err) outlets_[1] = {err[0], &answer.err};
    }
    Child(Child const&) = delete;
    Child& operator=(Child const&) = delete;
    ~Child() {
        for (auto const& outlet : outlets_) {
            if (outlet.descriptor >= 0) ::close(outlet.descriptor);
        }
    }

    [[nodiscard]] bool is_running() const { return process_ > 0; }
    void signal(int number) const { (void)::kill(-process_, number); }

    /// Waits for output, a signal or a tick, and takes what has come.
    void wait(ProgramSignals const* signals) {
        std::array<pollfd, 3> waited{{{outlets_[0].descriptor, POLLIN, 0},
                                      {outlets_[1].descriptor, POLLIN, 0},
                                      {signals == nullptr ? -1 : signals->descriptor(), POLLIN, 0}}};
        bool const is_silent = outlets_[0].descriptor < 0 && outlets_[1].descriptor < 0;
        (void)::poll(waited.data(), waited.size(), static_cast<int>((is_silent ? end_length : tick_length).count()));
        for (std::size_t i = 0; i < outlets_.size(); ++i) {
            if (waited[i].revents == 0 || outlets_[i].read_some()) continue;
            ::close(outlets_[i].descriptor);
            outlets_[i].descriptor = -1;
        }
        if (waited[2].revents != 0) {
            while (auto const taken = signals->next()) {
                if (ProgramSignals::is_end(*taken) && answer_.signal == 0)
                    answer_.signal = static_cast<int>(taken->ssi_signo);
            }
        }
        reap();
    }

private:
    [[noreturn]] static void become(std::vector<char*> const& arguments, int out, int err, ProgramSignals const* signals) {
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)::setpgid(0, 0);
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, signals != nullptr ? &signals->before() : &none, nullptr);
        int const nothing = ::open("/dev/null", O_RDONLY);
        if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0) ::_exit(126);
        for (int const plain : {1, 2}) (void)::fcntl(plain, F_SETFL, 0);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }

    void reap() {
        int status = 0;
        if (::waitpid(process_, &status, WNOHANG) != process_) return;
        process_ = -1;
        if (WIFEXITED(status)) answer_.status = WEXITSTATUS(status);
        // What it wrote last; processes that it has left may hold the other ends open.
        for (auto const& outlet : outlets_) {
            if (outlet.descriptor < 0) continue;
            for (auto before = outlet.text->size(); outlet.read_some() && outlet.text->size() > before;)
                before = outlet.text->size();
        }
    }

    ChildAnswer& answer_;
    pid_t process_ = -1;
    std::array<Outlet, 2> outlets_{};
};

}  // namespace

ChildAnswer run_child(std::vector<std::string> words, ChildWatch const& watch) {
    ChildAnswer answer;
    Child child(words, watch, answer);
    auto limit = watch.deadline;
    bool is_asked = false;
    std::array<int, 2> const ends{SIGTERM, SIGKILL};
    std::size_t sent = 0;
    while (child.is_running()) {
        child.wait(watch.signals);
        if (watch.tick) watch.tick();
        auto const now = Clock::now();
        if (answer.signal != 0 && !is_asked) {
            is_asked = true;
            limit = std::min<Clock::time_point>(limit, watch.may_finish ? now + finish_grace : now);
        }
        if (!child.is_running() || now < limit) continue;
        if (sent == ends.size()) break;
        if (sent == 0) answer.is_late = answer.signal == 0;
        child.signal(ends[sent]);
        limit = now + (sent == 0 ? Clock::duration(end_grace) : Clock::duration(kill_grace));
        ++sent;
    }
    if (sent > 0) answer.status = -1;
    return answer;
}

}  // namespace shardwise::cli
