// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace shardwise::tests {

/// The built program on a terminal of its own, at which the test types.
class Terminal {
public:
    /// `locale` is the program's LC_ALL.
    explicit Terminal(std::vector<std::string> words, char const* locale = "C.UTF-8") {
        master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
        if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
        std::string const name = ::ptsname(master_);
        std::string program = SHARDWISE_PROGRAM;
        std::vector<char*> arguments{program.data()};
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        child_ = ::fork();
        if (child_ != 0) return;
        (void)::setsid();
        int const slave = ::open(name.c_str(), O_RDWR);
        (void)::ioctl(slave, TIOCSCTTY, 0);
        for (int const descriptor : {0, 1, 2}) (void)::dup2(slave, descriptor);
        ::setenv("NO_COLOR", "1", 1);
        ::setenv("LC_ALL", locale, 1);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    ~Terminal() {
        if (child_ > 0 && !has_ended_) {
            (void)::kill(child_, SIGKILL);
            (void)::waitpid(child_, nullptr, 0);
        }
        if (master_ >= 0) (void)::close(master_);
    }
    Terminal(Terminal const&) = delete;
    Terminal& operator=(Terminal const&) = delete;

    void type(std::string_view text) { (void)!::write(master_, text.data(), text.size()); }

    /// What was shown up to and with `end` since the last call; all there is where it does not come in time.
    std::string read_until(std::string_view end, std::chrono::seconds limit = std::chrono::seconds(60)) {
        auto const deadline = std::chrono::steady_clock::now() + limit;
        while (shown_.find(end) == std::string::npos && std::chrono::steady_clock::now() < deadline && read_some()) {
        }
        auto const found = shown_.find(end);
        auto const size = found == std::string::npos ? shown_.size() : found + end.size();
        auto text = shown_.substr(0, size);
        shown_.erase(0, size);
        return text;
    }

    /// The exit status, once all is read; -1 where a signal ended it.
    int wait() {
        while (read_some()) {
        }
        int status = 0;
        has_ended_ = ::waitpid(child_, &status, 0) == child_;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    /// False once the program has closed its side.
    bool read_some() {
        pollfd ready{master_, POLLIN, 0};
        if (::poll(&ready, 1, 1000) == 0) return true;
        char buffer[4096];
        auto const count = ::read(master_, buffer, sizeof buffer);
        if (count <= 0) return false;
        shown_.append(buffer, static_cast<std::size_t>(count));
        return true;
    }

    int master_ = -1;
    int child_ = -1;
    bool has_ended_ = false;
    std::string shown_;
};

}  // namespace shardwise::tests
