// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"
#include "shell.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::tests {

/// A docker daemon of the test's own, in a network namespace and with mounts of its own: this machine's addresses, packet
/// filters and containers stay as they are. Ends with the object, and with the test.
class DockerDaemon {
public:
    DockerDaemon() {
        for (auto const* const tool : {"docker", "dockerd", "busybox", "ip", "nsenter", "unshare"}) {
            if (!is_installed(tool)) {
                missing_ = tool;
                return;
            }
        }
        missing_ = "a network namespace for docker (the right to make one)";
        if (!shell("ip netns add " + space_ + " && ip -n " + space_ + " link set lo up")) return;
        has_space_ = true;
        missing_ = "a docker daemon that starts here";
        start();
        for (int i = 0; i < 100 && !shell(client("version")); ++i) {
            if (::waitpid(daemon_, nullptr, WNOHANG) == daemon_) {
                daemon_ = -1;
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        if (shell(client("version")) && make_image()) missing_.clear();
    }
    DockerDaemon(DockerDaemon const&) = delete;
    DockerDaemon& operator=(DockerDaemon const&) = delete;
    ~DockerDaemon() {
        if (daemon_ > 0) {
            (void)shell("c=$(" + client("ps --all --quiet") + ") && [ -n \"$c\" ] && " + client("rm --force") + " $c");
            (void)::kill(daemon_, SIGTERM);
            for (int i = 0; i < 100 && ::waitpid(daemon_, nullptr, WNOHANG) != daemon_; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        if (has_space_) (void)shell("ip netns del " + space_);
    }

    /// What is missing here; "" where the daemon runs.
    [[nodiscard]] std::string const& missing() const { return missing_; }
    /// What a docker command prints.
    [[nodiscard]] std::string docker(std::string const& words) const { return run_in_shell(client(words)).out; }
    /// The program where the daemon's published ports are. `more` are variables.
    [[nodiscard]] Ran run(std::vector<std::string> const& words, std::vector<std::pair<std::string, std::string>> more = {},
                          std::function<void(pid_t)> const& meanwhile = {}) const {
        std::vector<std::string> all{"nsenter", "--net=/var/run/netns/" + space_, SHARDWISE_PROGRAM};
        all.insert(all.end(), words.begin(), words.end());
        more.emplace_back("DOCKER_HOST", host());
        more.emplace_back("HF_HUB_CACHE", folder_.path("hub"));
        more.emplace_back("PATH", folder_.path("wrapped") + ":" + std::getenv("PATH"));
        return run_command_line(std::move(all), more, meanwhile);
    }
    /// Puts lines of shell before each `docker run` of the program, in which $1 is "run"; "" takes them away.
    void before_run(std::string const& lines) const {
        auto const real = run_in_shell("command -v docker").out;
        auto const text = "#!/bin/sh\nreal=" + real + "\nif [ \"$1\" = run ]; then\nshift\n" +
                          (lines.empty() ? "set -- run \"$@\"" : lines) + "\nfi\nexec $real \"$@\"\n";
        auto const script = folder_.write("wrapped/docker", text);
        (void)::chmod(script.c_str(), 0700);
    }

    /// Plays an engine: what it is told by MODE, and a server whose /health says 200.
    static constexpr char const* image = "shardwise-engine:1";

private:
    static bool shell(std::string const& command) { return run_in_shell("{ " + command + "; }").status == 0; }
    [[nodiscard]] std::string host() const { return "unix://" + folder_.path("socket"); }
    [[nodiscard]] std::string client(std::string const& words) const {
        return "DOCKER_HOST=" + host() + " timeout 30 docker " + words;
    }

    void start() {
        std::vector<std::string> words{"nsenter", "--net=/var/run/netns/" + space_, "unshare", "--mount", "dockerd"};
        for (auto const& [flag, value] : std::vector<std::pair<std::string, std::string>>{
                 {"--data-root", folder_.path("data")}, {"--exec-root", folder_.path("exec")},
                 {"--pidfile", folder_.path("pid")}, {"--host", host()}, {"--storage-driver", "vfs"},
                 {"--exec-opt", "native.cgroupdriver=cgroupfs"}, {"--bip", "10.77.9.1/24"}}) {
            words.push_back(flag);
            words.push_back(value);
        }
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        auto const log = folder_.path("log");
        daemon_ = ::fork();
        if (daemon_ != 0) return;
        (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)::setsid();
        int const out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (int const descriptor : {1, 2}) (void)::dup2(out, descriptor);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }

    [[nodiscard]] bool make_image() const {
        folder_.write("image/www/health", "ok");
        folder_.write("image/tmp/empty", "");
        auto const engine = folder_.write("image/bin/engine", R"(#!/bin/sh
i=0
while [ $i -lt 40 ]; do i=$((i + 1)); echo "step $i"; done
# Docker copies the two outputs side by side.
sleep 0.5
echo "token $HF_TOKEN" >&2
case $MODE in
    fail) exit 7 ;;
    memory) exec dd if=/dev/zero of=/dev/null bs=200M count=1 ;;
    silent) exec sleep 1000 ;;
esac
sleep 0.5
exec httpd -f -p 80 -h /www
)");
        (void)::chmod(engine.c_str(), 0700);
        // A busybox that is linked with libraries needs them, too.
        return shell("cd " + folder_.path("image") +
                     " && cp -L $(command -v busybox) bin/busybox"
                     " && for a in sh echo sleep dd httpd; do ln -s busybox bin/$a; done"
                     " && for l in $(ldd bin/busybox | grep -o '/[^ )]*'); do cp -L --parents $l .; done; tar -c . | " +
                     client("import -c 'ENTRYPOINT [\"/bin/engine\"]' - ") + image);
    }

    TemporaryFolder folder_;
    std::string space_ = "swdk" + std::to_string(::getpid());
    std::string missing_;
    bool has_space_ = false;
    pid_t daemon_ = -1;
};

}  // namespace shardwise::tests
