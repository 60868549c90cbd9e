// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The address of this machine that packets to a host leave from. Nothing is sent.
///
/// Errors  backend_failure with the system's words
[[nodiscard]] inline Result<std::string> own_address(std::string const& host, std::int32_t port) {
    Error error{ErrorCode::backend_failure};
    error.in("MASTER_ADDR").at(host);
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (auto const status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); status != 0)
        return error.because(gai_strerror(status)).fix("name a host that this machine can reach");
    auto const socket_number = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    socklen_t size = sizeof own;
    bool const is_known = socket_number >= 0 && connect(socket_number, found->ai_addr, found->ai_addrlen) == 0 &&
                          getsockname(socket_number, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    auto const problem = errno;
    if (socket_number >= 0) close(socket_number);
    freeaddrinfo(found);
    char text[INET_ADDRSTRLEN] = {};
    if (!is_known || inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) == nullptr)
        return error.because(std::strerror(problem)).fix("name a host that this machine can reach");
    return std::string(text);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
