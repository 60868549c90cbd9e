// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/message_rank.hpp>
#include <shardwise/comm/detail/mpi_lifetime.hpp>
#include <shardwise/comm/detail/pause.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Messages of MPI: nonblocking ones that are polled, because MPI's own waits know no deadline.
class MpiWire {
public:
    class Message {
    public:
        [[nodiscard]] MessageState state() const { return state_; }
        [[nodiscard]] std::string const& reason() const { return reason_; }
        [[nodiscard]] std::span<std::byte const> bytes() const { return bytes_; }
        [[nodiscard]] std::int32_t peer() const { return peer_; }

    private:
        friend class MpiWire;

        // Its memory stays where it is when the message is moved.
        std::vector<std::byte> bytes_;
        MPI_Request request_ = MPI_REQUEST_NULL;
        std::int32_t peer_ = 0;
        bool is_send_ = false;
        MessageState state_ = MessageState::pending;
        std::string reason_;
    };

    /// All processes of the job. Starts MPI where nobody did.
    ///
    /// Errors  backend_failure with MPI's own words; unsupported where MPI lets only one thread call; deadline_exceeded
    [[nodiscard]] static Result<std::shared_ptr<MpiWire>> create(std::chrono::nanoseconds timeout) {
        auto wire = std::shared_ptr<MpiWire>(new MpiWire);
        auto lifetime = MpiLifetime::share(timeout);
        if (!lifetime) return lifetime.error();
        wire->lifetime_ = *std::move(lifetime);
        int threads = MPI_THREAD_SINGLE;
        MPI_Query_thread(&threads);
        // The streams of a back end call from threads of their own.
        if (threads < MPI_THREAD_SERIALIZED) {
            return Error{ErrorCode::unsupported}
                .in("MPI")
                .because("was started for calls of one thread only")
                .fix("start it by MPI_Init_thread with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        // Messages of the including program and of other groups are not seen.
        std::vector<Message> messages(1);
        auto const status = MPI_Comm_idup(MPI_COMM_WORLD, &wire->comm_, &messages[0].request_);
        if (status != MPI_SUCCESS) return failure("MPI_Comm_idup", mpi_text(status));
        wire->wait(std::span<Message>(messages), timeout, [] { return false; });
        if (messages[0].state() != MessageState::done) {
            wire->has_unfinished_ = true;
            return Error{ErrorCode::deadline_exceeded}
                .in("MPI")
                .because("has ranks that never joined")
                .fix("let all ranks of the job join");
        }
        MPI_Comm_set_errhandler(wire->comm_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(wire->comm_, &wire->rank_);
        MPI_Comm_size(wire->comm_, &wire->size_);
        wire->is_crowded_ = static_cast<unsigned>(wire->size_) > std::thread::hardware_concurrency();
        return wire;
    }

    MpiWire(MpiWire const&) = delete;
    MpiWire& operator=(MpiWire const&) = delete;
    ~MpiWire() {
        for (auto& each : *kept_) {
            test(each);
            if (each.state_ == MessageState::pending && !each.is_send_) MPI_Cancel(&each.request_);
        }
        wait(std::span<Message>(*kept_), std::chrono::milliseconds(100), [] { return false; });
        for (auto const& each : *kept_) has_unfinished_ = has_unfinished_ || each.state_ != MessageState::done;
        // MPI may still write to what is unfinished, and to end it would wait for ranks that do not answer: mpirun ends the
        // job when this process ends without.
        if (has_unfinished_) {
            (void)kept_.release();
            if (lifetime_) lifetime_->leave_running();
            return;
        }
        if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    [[nodiscard]] Message start_send(std::int32_t to, std::uint32_t lane, std::vector<std::byte> bytes) {
        Message message;
        message.bytes_ = std::move(bytes);
        message.peer_ = to;
        message.is_send_ = true;
        check(message, "MPI_Isend",
              MPI_Isend(message.bytes_.data(), static_cast<int>(message.bytes_.size()), MPI_BYTE, to,
                        static_cast<int>(lane), comm_, &message.request_));
        return message;
    }
    [[nodiscard]] Message start_receive(std::int32_t from, std::uint32_t lane, std::size_t bytes) {
        Message message;
        message.bytes_.resize(bytes);
        message.peer_ = from;
        check(message, "MPI_Irecv",
              MPI_Irecv(message.bytes_.data(), static_cast<int>(bytes), MPI_BYTE, from, static_cast<int>(lane), comm_,
                        &message.request_));
        return message;
    }
    [[nodiscard]] bool has_come(Message& message) {
        test(message);
        return message.state_ == MessageState::done;
    }

    template <class Stop>
    void wait(std::span<Message> messages, std::chrono::nanoseconds timeout, Stop const& stop) {
        Waiter waiter(is_crowded_, timeout, false, is_gentle_);
        while (true) {
            bool is_pending = false;
            for (auto& each : messages) {
                test(each);
                if (each.state_ == MessageState::broken) return;
                is_pending = is_pending || each.state_ == MessageState::pending;
            }
            if (!is_pending) return;
            if (!waiter.rest() || !waiter.is_time_to_look()) continue;
            if (stop() || waiter.has_timed_out()) return;
        }
    }
    void keep(std::vector<Message> messages) {
        std::erase_if(*kept_, [](Message& each) {
            test(each);
            return each.state_ == MessageState::done;
        });
        for (auto& each : messages) {
            if (each.state_ == MessageState::pending) kept_->push_back(std::move(each));
        }
    }
    /// Has waits leave the core to others at once from now on, or not.
    void wait_gently(bool is_gentle) { is_gentle_ = is_gentle; }
    /// Other groups go on.
    void give_up(Error const&) {}

    std::optional<Error> ended_by;

    std::uint32_t next_channel = 1;

private:
    MpiWire() : kept_(std::make_unique<std::vector<Message>>()) {}

    [[nodiscard]] static Error failure(std::string_view call, std::string_view reason) {
        return Error{ErrorCode::backend_failure}.in(call).because(reason);
    }
    static void check(Message& message, std::string_view call, int status) {
        if (status == MPI_SUCCESS) return;
        message.state_ = MessageState::broken;
        message.reason_ = std::string(call) + " failed (" + mpi_text(status) + ")";
    }
    static void test(Message& message) {
        if (message.state_ != MessageState::pending) return;
        int is_done = 0;
        check(message, "MPI_Test", MPI_Test(&message.request_, &is_done, MPI_STATUS_IGNORE));
        if (is_done != 0 && message.state_ == MessageState::pending) message.state_ = MessageState::done;
    }

    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 1;
    bool is_crowded_ = true;
    bool is_gentle_ = false;
    bool has_unfinished_ = false;
    std::unique_ptr<std::vector<Message>> kept_;
    /// Where nobody else started MPI: all wires hold the one.
    std::shared_ptr<MpiLifetime> lifetime_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
