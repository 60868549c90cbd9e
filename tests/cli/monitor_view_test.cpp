// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "fake_machine.hpp"
#include "program.hpp"
#include "skip.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace shardwise::tests;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

void set_environment(FakeMachine& machine) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    ::setenv("SHARDWISE_NVML", machine.options().nvml_library.c_str(), 1);
    ::setenv("SHARDWISE_SYSTEM_ROOT", machine.options().root.c_str(), 1);
    ::setenv("TERM", "xterm", 1);
}
void unset_environment() {
    ::unsetenv("SHARDWISE_NVML");
    ::unsetenv("SHARDWISE_SYSTEM_ROOT");
}

std::string eight_gpus() {
    std::string rows = machines::dgx();
    for (int i = 0; i < 8; ++i)
        rows += "series device=" + std::to_string(i) + " key=utilization values=" + std::to_string(11 * i + 3) + "\n";
    return rows;
}

/// A tmux server with one window that runs a shell line.
class Screen {
public:
    Screen(std::string const& line, int columns, int rows) {
        tmux("new-session -d -x " + std::to_string(columns) + " -y " + std::to_string(rows) + " " + quoted(line));
    }
    ~Screen() { tmux("kill-server"); }
    Screen(Screen const&) = delete;
    Screen& operator=(Screen const&) = delete;

    void resize(int columns, int rows) {
        tmux("resize-window -x " + std::to_string(columns) + " -y " + std::to_string(rows));
    }
    void type(std::string const& key) { tmux("send-keys " + key); }
    /// What is on the screen once it holds a text and lacks another; the last state where that does not come.
    std::string wait(std::string const& text, std::string const& gone = "") {
        std::string shown;
        for (int i = 0; i < 200; ++i) {
            tmux("capture-pane -p > " + folder_.path() + "/shown");
            shown = read_text(folder_.path() + "/shown");
            bool const is_gone = gone.empty() || shown.find(gone) == std::string::npos;
            if (shown.find(text) != std::string::npos && is_gone) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        return shown;
    }

private:
    static std::string quoted(std::string const& text) { return "'" + text + "'"; }
    void tmux(std::string const& words) {
        (void)!std::system(("LC_ALL=C.UTF-8 tmux -S " + folder_.path() + "/socket -f /dev/null " + words).c_str());
    }

    TemporaryFolder folder_;
};

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

/// Sends bytes to a port of this machine and reads until the other side closes, or for two seconds.
std::string ask(int port, std::string const& request) {
    int const client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval const limit{2, 0};
    (void)::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        (void)!::send(client, request.data(), request.size(), MSG_NOSIGNAL);
        char block[4096];
        for (ssize_t got = 0; (got = ::recv(client, block, sizeof block, 0)) > 0;)
            answer.append(block, static_cast<std::size_t>(got));
    }
    ::close(client);
    return answer;
}

/// The port after "listening on http://127.0.0.1:" in what a process wrote to its error output.
int port_of(pid_t process) {
    constexpr std::string_view before = "listening on http://127.0.0.1:";
    for (int i = 0; i < 400; ++i) {
        auto const file = "/proc/" + std::to_string(process) + "/fd/2";
        // Before the program has begun it is this test's own, maybe a pipe, which would not end.
        std::error_code problem;
        auto const text = std::filesystem::is_regular_file(file, problem) ? read_text(file) : std::string();
        auto const at = text.find(before);
        if (at != std::string::npos && text.find('\n', at) != std::string::npos) return std::atoi(text.c_str() + at + before.size());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return 0;
}

}  // namespace

TEST_CASE("monitor: the live view fits screens of 80x24 and 40x10, follows their size, pauses, and leaves the screen as it was") {
    if (std::system("command -v tmux > /dev/null 2>&1") != 0) {
        shardwise::testing::note_absent_tool("tmux");
        return;
    }
    FakeMachine machine;
    machine.nvidia(eight_gpus());
    set_environment(machine);
    Screen screen("echo before; " SHARDWISE_PROGRAM " monitor --interval 0.1 2> /dev/null; echo code $?; exec sleep 60", 80, 24);
    auto const wide = screen.wait("cuda:7");
    CHECK_MESSAGE(has(wide, "cuda:0  busy 3 %"), wide);
    CHECK_MESSAGE(has(wide, "cuda:7  busy 80 %  mem 0 B of 80.00 GiB"), wide);
    CHECK_MESSAGE(has(wide, "\u2587"), wide);
    CHECK_FALSE(has(wide, "before"));
    screen.resize(40, 10);
    auto const small = screen.wait("cuda:7", "\u2587");
    // Host, eight devices and the title: no line is left for histories.
    CHECK_MESSAGE(has(small, "cuda:7  busy 80 %"), small);
    CHECK_FALSE(has(small, "\u2587"));
    screen.resize(40, 5);
    CHECK(has(screen.wait("more devices"), "6 more devices"));
    screen.resize(80, 24);
    CHECK(has(screen.wait("\u2587"), "cuda:7"));
    screen.type("p");
    CHECK(has(screen.wait("paused"), "paused"));
    screen.type("p");
    CHECK_FALSE(has(screen.wait("p pause", "paused"), "paused"));
    screen.type("q");
    auto const after = screen.wait("code");
    CHECK_MESSAGE(has(after, "before"), after);
    CHECK_MESSAGE(has(after, "code 0"), after);
    CHECK_FALSE(has(after, "cuda"));
    unset_environment();
}

TEST_CASE("monitor: the live view gives the terminal back after Ctrl-C, and NO_COLOR keeps colours out") {
    FakeMachine machine;
    set_environment(machine);
    Terminal terminal({"monitor", "--interval", "0.05"});
    auto const shown = terminal.read_until("0 s watched");
    CHECK(has(shown, "\x1b[?1049h"));
    CHECK(has(shown, "\x1b[?25l"));
    CHECK_FALSE(has(shown, "\x1b[1m"));
    CHECK_FALSE(has(shown, "\x1b[32m"));
    terminal.type("\x03");
    CHECK(has(terminal.read_until("\x1b[?25h\x1b[?1049l"), "\x1b[?25h\x1b[?1049l"));
    CHECK(terminal.wait() == 130);
    unset_environment();
}

TEST_CASE("monitor -- COMMAND: Ctrl-C reaches the command once, from the terminal, and its own end counts") {
    FakeMachine machine;
    set_environment(machine);
    Terminal terminal({"monitor", "--", "sh", "-c", "trap \"echo got it; n=1$n\" INT; echo ready; sleep 5; sleep 0.3; exit 9$n"});
    (void)terminal.read_until("ready");
    terminal.type("\x03");
    auto const shown = terminal.read_until("sh ended with exit code 91 ");
    CHECK_MESSAGE(has(shown, "got it"), shown);
    CHECK_MESSAGE(has(shown, "sh ended with exit code 91 "), shown);
    CHECK(terminal.wait() == 91);
    unset_environment();
}

TEST_CASE("monitor: --csv with the live view adds a row for each look") {
    FakeMachine machine;
    set_environment(machine);
    TemporaryFolder const folder;
    auto const file = folder.path() + "/rows.csv";
    Terminal terminal({"monitor", "--interval", "0.05", "--csv", file});
    (void)terminal.read_until("1 s watched");
    terminal.type("q");
    CHECK(terminal.wait() == 0);
    auto const text = read_text(file);
    CHECK(text.rfind("timestamp,", 0) == 0);
    CHECK(std::count(text.begin(), text.end(), '\n') >= 5);
    unset_environment();
}

TEST_CASE("monitor --listen: metrics over HTTP; silent, strange and many clients hold up nobody") {
    FakeMachine machine;
    machine.nvidia(eight_gpus());
    set_environment(machine);
    auto const ran = run_command_line({SHARDWISE_PROGRAM, "monitor", "--listen", "0", "--interval", "0.1"}, {}, [](pid_t process) {
        auto const port = port_of(process);
        REQUIRE(port > 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        std::vector<int> silent;
        for (int i = 0; i < 30; ++i) {
            int const client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_port = htons(static_cast<std::uint16_t>(port));
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            (void)::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address);
            silent.push_back(client);
        }
        auto const answer = ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        CHECK(answer.rfind("HTTP/1.1 200 OK\r\n", 0) == 0);
        CHECK(has(answer, "Content-Type: text/plain; version=0.0.4"));
        CHECK(has(answer, "shardwise_device_utilization_ratio{device=\"cuda:7\",uuid=\"GPU-80000007\""));
        CHECK(ask(port, "GET / HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 404", 0) == 0);
        CHECK(ask(port, "POST /metrics HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 405", 0) == 0);
        CHECK(ask(port, "\x16\x03\x01 rubbish\n\n").rfind("HTTP/1.1 400", 0) == 0);
        (void)ask(port, std::string(20000, 'a'));
        CHECK(ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n").find("shardwise") == std::string::npos);
        for (int const client : silent) ::close(client);
        ::kill(process, SIGTERM);
    });
    CHECK(ran.status == 143);
    CHECK(ran.out.empty());
    auto const refused = run({"monitor", "--listen", "127.0.0.1:70000"});
    CHECK(refused.status == 2);
    CHECK(refused.says("--listen: 127.0.0.1:70000"));
    CHECK(run({"monitor", "--listen", "192.0.2.1:0"}).status == 1);
    unset_environment();
}
