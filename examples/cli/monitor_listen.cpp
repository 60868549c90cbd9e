// SPDX-License-Identifier: Apache-2.0
#include "monitor_listen.hpp"

#include "values.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

/// A scraper's request has a few hundred bytes.
constexpr std::size_t max_request = 8192;
/// Who has not asked, or not read its answer, by then is left.
constexpr std::chrono::seconds client_limit{5};

[[nodiscard]] Error failure(char const* call, std::string const& name, int code) {
    return Error{ErrorCode::backend_failure}.in(call).at(name).because(std::strerror(code)).fix(
        "choose another --listen address or port; 0 takes a free port");
}

[[nodiscard]] std::string response(std::string_view status, std::string_view type, std::string const& body, bool has_body) {
    return "HTTP/1.1 " + std::string(status) + "\r\nContent-Type: " + std::string(type) + "\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + (has_body ? body : "");
}

[[nodiscard]] std::string answer_to(std::string_view request, std::function<std::string()> const& text) {
    auto const line = request.substr(0, request.find_first_of("\r\n"));
    auto const first = line.find(' ');
    auto const second = first == std::string_view::npos ? first : line.find(' ', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1).substr(0, 5) != "HTTP/")
        return response("400 Bad Request", "text/plain", "no HTTP request\n", true);
    auto const method = line.substr(0, first);
    auto path = line.substr(first + 1, second - first - 1);
    path = path.substr(0, path.find('?'));
    if (method != "GET" && method != "HEAD") return response("405 Method Not Allowed", "text/plain", "only GET\n", true);
    if (path != "/metrics") return response("404 Not Found", "text/plain", "only /metrics is here\n", method == "GET");
    return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", text(), method == "GET");
}

}  // namespace

Result<ListenAddress> read_listen_address(std::string_view word) {
    ListenAddress address;
    auto const colon = word.rfind(':');
    auto const port = colon == std::string_view::npos ? word : word.substr(colon + 1);
    auto host = colon == std::string_view::npos ? std::string_view{} : word.substr(0, colon);
    bool const is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (is_bracketed) host = host.substr(1, host.size() - 2);
    bool const has_stray_colon = !is_bracketed && host.find(':') != std::string_view::npos;
    auto const number = read_number("--listen", port, 0, 65535);
    if (!number || has_stray_colon) {
        return Error{ErrorCode::invalid_argument}
            .in("--listen")
            .at(word.empty() ? std::string_view{"\"\""} : word)
            .because("is no ADDRESS:PORT")
            .fix("write for example --listen 127.0.0.1:9400, or [::1]:9400");
    }
    if (!host.empty()) address.host = host;
    address.port = static_cast<std::uint16_t>(*number);
    return address;
}

Result<MetricsListener> MetricsListener::open(ListenAddress const& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    auto const port = std::to_string(address.port);
    auto const code = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
    if (code != 0 || found == nullptr) {
        return Error{ErrorCode::invalid_argument}
            .in("--listen")
            .at(address.host)
            .because("is no address of this machine: " + std::string(::gai_strerror(code)))
            .fix("write for example 127.0.0.1:9400");
    }
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> const owner(found, ::freeaddrinfo);
    auto const asked = address.host + ":" + port;
    int const descriptor = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return failure("socket", asked, errno);
    MetricsListener listener(descriptor, asked);
    int const yes = 1;
    (void)::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(descriptor, found->ai_addr, found->ai_addrlen) != 0) return failure("bind", asked, errno);
    if (::listen(descriptor, 16) != 0) return failure("listen", asked, errno);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char host[NI_MAXHOST];
    char service[NI_MAXSERV];
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        bool const is_six = own.ss_family == AF_INET6;
        listener.name_ = (is_six ? "[" : "") + std::string(host) + (is_six ? "]" : "") + ":" + service;
    }
    return Result<MetricsListener>(std::move(listener));
}

MetricsListener::MetricsListener(MetricsListener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {
    std::swap(clients_, other.clients_);
}

MetricsListener::~MetricsListener() {
    for (auto& client : clients_) {
        if (client.descriptor >= 0) ::close(client.descriptor);
    }
    if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsListener::accept_clients() {
    while (true) {
        auto* place = std::find_if(clients_.begin(), clients_.end(), [](Client const& one) { return one.descriptor < 0; });
        if (place == clients_.end()) {
            // All places are taken: who has waited longest gives way.
            place = std::min_element(clients_.begin(), clients_.end(),
                                     [](Client const& a, Client const& b) { return a.since < b.since; });
        }
        int const descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor < 0) return;
        if (place->descriptor >= 0) ::close(place->descriptor);
        *place = Client{};
        place->descriptor = descriptor;
        place->since = std::chrono::steady_clock::now();
    }
}

bool MetricsListener::advance(Client& client, std::function<std::string()> const& text) {
    while (client.answer.empty()) {
        char block[2048];
        auto const got = ::recv(client.descriptor, block, sizeof block, 0);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        if (got == 0) return false;
        client.request.append(block, static_cast<std::size_t>(got));
        bool const is_whole =
            client.request.find("\r\n\r\n") != std::string::npos || client.request.find("\n\n") != std::string::npos;
        if (is_whole)
            client.answer = answer_to(client.request, text);
        else if (client.request.size() > max_request)
            client.answer = response("431 Request Header Fields Too Large", "text/plain", "too long\n", true);
    }
    while (client.sent < client.answer.size()) {
        auto const put = ::send(client.descriptor, client.answer.data() + client.sent, client.answer.size() - client.sent,
                                MSG_NOSIGNAL);
        if (put < 0) return errno == EAGAIN || errno == EINTR;
        client.sent += static_cast<std::size_t>(put);
    }
    (void)::shutdown(client.descriptor, SHUT_WR);
    return false;
}

void MetricsListener::serve(std::chrono::milliseconds limit, std::function<std::string()> const& text) {
    std::array<pollfd, 17> ready{};
    ready[0] = {descriptor_, POLLIN, 0};
    for (std::size_t i = 0; i < clients_.size(); ++i)
        ready[i + 1] = {clients_[i].descriptor, static_cast<short>(clients_[i].answer.empty() ? POLLIN : POLLOUT), 0};
    (void)::poll(ready.data(), ready.size(), static_cast<int>(limit.count()));
    auto const now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < clients_.size(); ++i) {
        auto& client = clients_[i];
        if (client.descriptor < 0) continue;
        bool const goes_on = (ready[i + 1].revents == 0 || advance(client, text)) && now - client.since < client_limit;
        if (goes_on) continue;
        ::close(client.descriptor);
        client = Client{};
    }
    if ((ready[0].revents & POLLIN) != 0) accept_clients();
}

}  // namespace shardwise::cli
