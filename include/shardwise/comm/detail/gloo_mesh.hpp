// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/at_deadline.hpp>
#include <shardwise/core/deadline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <gloo/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Connections of Gloo with all other ranks, made by a deadline.
///
/// Gloo's own way to make them (rendezvous/context.cc, connectFullMesh) gives each connection a time of its own, five times the timeout
/// (transport/tcp/pair.h, waitUntil), and nobody can end it: its connections are out of reach until all are made. Here they have no
/// time of their own, and the deadline closes them; Gloo takes one that is closed for one that is made.
class GlooMesh : public gloo::Context {
public:
    GlooMesh(std::int32_t own, std::int32_t ranks) : Context(own, ranks) {}

    /// The ranks tell each other their addresses in files of the folder. `awaited` is the rank that is connected with, or waited for.
    ///
    /// Throws what Gloo throws, and std::runtime_error at the deadline
    void connect(std::string const& folder, std::shared_ptr<gloo::transport::Device> const& device,
                 Deadline const& deadline, std::string& awaited) {
        device_ = device;
        transportContext_ = device->createContext(rank, size);
        transportContext_->setTimeout(std::chrono::milliseconds::zero());
        std::vector<char> own;
        for (int peer = 0; peer < size; ++peer) {
            if (peer == rank) continue;
            auto const address = transportContext_->createPair(peer)->address().bytes();
            own.insert(own.end(), address.begin(), address.end());
        }
        Store store(folder, deadline);
        store.set(std::to_string(rank), own);
        AtDeadline closer(deadline, [this] { close(); });
        try {
            for (int peer = 0; peer < size; ++peer) {
                if (peer == rank) continue;
                awaited = std::to_string(peer);
                getPair(peer)->connect(part_for(rank, peer, store.get(awaited)));
            }
        } catch (std::exception const&) {
            // What it then says of a connection is that it is closed.
            if (closer.has_acted()) throw_late();
            throw;
        }
        if (closer.has_acted()) throw_late();
    }

    void close() {
        try {
            closeConnections();
        } catch (std::exception const&) {
            // They are closed already.
            return;
        }
    }

private:
    /// Files of Gloo's names; waits for them until the deadline: Gloo's own are whole seconds.
    class Store : public gloo::rendezvous::FileStore {
    public:
        Store(std::string const& folder, Deadline const& deadline) : FileStore(folder), deadline_(deadline) {}
        void wait(std::vector<std::string> const& keys) override {
            while (!check(keys)) {
                if (deadline_.has_passed()) throw_late();
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        void wait(std::vector<std::string> const& keys, std::chrono::milliseconds const&) override { wait(keys); }

    private:
        Deadline deadline_;
    };

    [[noreturn]] static void throw_late() { throw std::runtime_error("the deadline has passed"); }

    /// The address at which a peer expects this rank: it has one for each rank but itself.
    [[nodiscard]] std::vector<char> part_for(int own, int peer, std::vector<char> const& all) const {
        auto const bytes = static_cast<std::ptrdiff_t>(all.size()) / (size - 1);
        auto const first = all.begin() + bytes * (own > peer ? own - 1 : own);
        return {first, first + bytes};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
