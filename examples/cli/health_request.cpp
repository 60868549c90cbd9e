// SPDX-License-Identifier: Apache-2.0
#include "health_request.hpp"

#include <algorithm>
#include <array>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

using Clock = std::chrono::steady_clock;

[[nodiscard]] std::string reachable(std::string const& address) {
    if (address == "0.0.0.0") return "127.0.0.1";
    return address == "::" ? "::1" : address;
}

/// A socket that waits for no longer than until its deadline.
class TimedSocket {
public:
    TimedSocket(int family, Clock::time_point deadline)
        : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {}
    TimedSocket(TimedSocket const&) = delete;
    TimedSocket& operator=(TimedSocket const&) = delete;
    ~TimedSocket() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    [[nodiscard]] bool connect(sockaddr const* address, socklen_t size) const {
        if (descriptor_ < 0) return false;
        if (::connect(descriptor_, address, size) == 0) return true;
        int problem = 0;
        socklen_t length = sizeof problem;
        return errno == EINPROGRESS && is_ready(POLLOUT) &&
               ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0;
    }
    /// The request is short: a new connection takes it whole.
    [[nodiscard]] bool send(std::string_view text) const {
        return ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
    }
    /// What comes first, up to the end of a line.
    [[nodiscard]] std::string line() const {
        constexpr std::size_t longest = 1024;
        std::string text;
        while (text.find('\n') == std::string::npos && text.size() < longest && is_ready(POLLIN)) {
            std::array<char, 256> buffer{};
            auto const count = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
            if (count <= 0) break;
            text.append(buffer.data(), static_cast<std::size_t>(count));
        }
        return text;
    }

private:
    [[nodiscard]] bool is_ready(short event) const {
        auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
        pollfd waited{descriptor_, event, 0};
        return left > 0 && ::poll(&waited, 1, static_cast<int>(left)) > 0;
    }

    int descriptor_;
    Clock::time_point deadline_;
};

}  // namespace

int http_status(std::string const& address, std::int32_t port, std::string const& path, std::chrono::milliseconds limit) {
    auto const host = reachable(address);
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    bool const is_v4 = ::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1;
    if (!is_v4 && ::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return 0;
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    TimedSocket const socket(is_v4 ? AF_INET : AF_INET6, Clock::now() + limit);
    auto const* const target = is_v4 ? reinterpret_cast<sockaddr const*>(&v4) : reinterpret_cast<sockaddr const*>(&v6);
    if (!socket.connect(target, static_cast<socklen_t>(is_v4 ? sizeof v4 : sizeof v6))) return 0;
    if (!socket.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")) return 0;
    auto const line = socket.line();
    // "HTTP/1.1 200 OK"
    auto const space = line.find(' ');
    if (line.rfind("HTTP/", 0) != 0 || space == std::string::npos) return 0;
    int status = 0;
    auto const* const first = line.data() + space + 1;
    auto const [end, problem] = std::from_chars(first, line.data() + line.size(), status);
    return problem == std::errc{} && end - first == 3 ? status : 0;
}

std::string http_address(std::string const& address, std::int32_t port) {
    auto const host = reachable(address);
    bool const is_v6 = host.find(':') != std::string::npos;
    return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace shardwise::cli
