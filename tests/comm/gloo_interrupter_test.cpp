// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/gloo_interrupter.hpp>
#include <shardwise/core/deadline.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gloo/transport/unbound_buffer.h>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;

namespace {

/// Counts how often its waits are ended.
class CountingBuffer : public gloo::transport::UnboundBuffer {
public:
    CountingBuffer() : UnboundBuffer(nullptr, 0) {}
    bool waitRecv(int*, std::chrono::milliseconds) override { return false; }
    bool waitSend(int*, std::chrono::milliseconds) override { return false; }
    void abortWaitRecv() override { ++aborts; }
    void abortWaitSend() override { ++aborts; }
    void send(int, std::uint64_t, std::size_t, std::size_t) override {}
    void recv(int, std::uint64_t, std::size_t, std::size_t) override {}
    void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override {}

    std::atomic<int> aborts{0};
};

}  // namespace

TEST_CASE("Gloo: a wait is interrupted once, however long the waiter takes to leave it") {
    CountingBuffer buffer;
    detail::GlooInterrupter interrupter;
    for (int turn = 1; turn <= 3; ++turn) {
        interrupter.begin(&buffer, turn == 2, Deadline::after({}).moment());
        while (buffer.aborts < turn) std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(80ms);
        CHECK(buffer.aborts == turn);
        interrupter.end();
    }
}
