// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/nccl_library.hpp>

#include "../fakes/nccl_rules.hpp"
#include "fake_vendor.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// A library of NCCL's interface for the fake vendor, of floats: ranks of a group meet in their streams. It fails where it is told to,
/// stays in progress for a while after each call, and notices ranks that have been aborted.
class FakeNccl {
public:
    /// The call of that name fails on that rank.
    void fail(std::string call, int rank = -1) {
        failing_ = std::move(call);
        failing_rank_ = rank;
    }
    /// How often a communicator says after a call that it is still in progress; -1: always.
    std::atomic<int> asks_in_progress{0};
    /// A status that asking a communicator of a rank finds from now on.
    std::atomic<int> async_status{0};
    std::atomic<int> async_rank{-1};
    /// Whether it makes windows of its memory; where it does not it takes the call.
    std::atomic<bool> makes_windows{true};
    /// Communicators that are alive, and blocks of memory.
    std::atomic<int> alive{0};
    NcclHeap heap;
    /// How often a communicator was to end, and memory to go, that was registered still.
    std::atomic<int> broken_rules{0};

    static FakeNccl& get() {
        static FakeNccl library;
        return library;
    }
    void mend() {
        fail("");
        asks_in_progress = 0;
        async_status = 0;
        async_rank = -1;
        makes_windows = true;
    }

    [[nodiscard]] static NcclTable table();

private:
    /// What ranks of one id have in common: messages by sender, receiver and number.
    struct Group {
        std::mutex mutex;
        std::condition_variable changed;
        std::map<std::pair<std::pair<int, int>, int>, std::vector<float>> messages;
        /// By the number of a split: of each rank that has come its color and key, and the groups that come of it, by color.
        struct Split {
            std::map<int, std::pair<int, int>> ranks;
            std::map<int, std::shared_ptr<Group>> parts;
        };
        std::map<int, Split> splits;
        /// By the number of a window, what each rank asks for: bytes and flags.
        std::map<int, std::map<int, std::pair<std::size_t, int>>> windows;
    };
    struct Comm {
        std::shared_ptr<Group> group;
        int rank = 0;
        int ranks = 0;
        int left = 0;
        std::shared_ptr<std::atomic<bool>> is_aborted = std::make_shared<std::atomic<bool>>(false);
        /// By the other rank.
        std::map<int, int> sent{};
        std::map<int, int> received{};
        int splits = 0;
        int windows = 0;
        NcclKnown known{};
        bool has_failed = false;
    };
    using Task = NcclCalls::Task;

    static Comm& of(NcclTable::Handle handle) { return *static_cast<Comm*>(handle); }
    static int enter(char const* call, Comm* comm) {
        auto& library = get();
        bool const fails = library.failing_ == call &&
                           (library.failing_rank_ < 0 || comm == nullptr || comm->rank == library.failing_rank_);
        if (fails) return NcclRules::internal_error;
        if (comm == nullptr) return 0;
        comm->left = library.asks_in_progress;
        return comm->left == 0 ? 0 : NcclTable::in_progress;
    }
    static void end(Comm& comm) {
        comm.known.clear(get().heap);
        delete &comm;
        --get().alive;
    }
    /// Whether other ranks are waited for that a window is made with. Windows are alike on all ranks.
    static bool waits_for_window(Comm& comm) {
        if (comm.known.asked == nullptr) return false;
        std::lock_guard const lock(comm.group->mutex);
        auto const& ranks = comm.group->windows[comm.windows];
        if (static_cast<int>(ranks.size()) < comm.ranks) return true;
        for (auto const& [rank, asked] : ranks) comm.has_failed = comm.has_failed || asked != ranks.begin()->second;
        auto* const range = std::exchange(comm.known.asked, nullptr);
        if (!comm.has_failed) *comm.known.to = range;
        return false;
    }
    static void put_in_stream(void* stream, Task task) { static_cast<FakeStream*>(stream)->put(std::move(task)); }
    static void put(void* stream, Task task, bool is_send) {
        NcclCalls::of_thread().add(stream, std::move(task), is_send, put_in_stream);
    }
    static void put_send(Comm& comm, int to, float const* data, std::size_t count, void* stream) {
        auto const key = std::pair{std::pair{comm.rank, to}, comm.sent[to]++};
        put(
            stream,
            [group = comm.group, key, data, count] {
                std::lock_guard const lock(group->mutex);
                group->messages[key].assign(data, data + count);
                group->changed.notify_all();
            },
            true);
    }
    /// take(message) once it is there.
    template <class Take>
    static void put_receive(Comm& comm, int from, void* stream, Take const& take) {
        auto const key = std::pair{std::pair{from, comm.rank}, comm.received[from]++};
        put(
            stream,
            [group = comm.group, is_aborted = comm.is_aborted, key, take] {
                std::unique_lock lock(group->mutex);
                auto const is_there = [&] { return *is_aborted || group->messages.contains(key); };
                while (!group->changed.wait_for(lock, std::chrono::milliseconds(5), is_there)) {
                }
                if (*is_aborted) return;
                take(group->messages.at(key));
                group->messages.erase(key);
            },
            false);
    }
    /// Every rank's part for `root` (-1: for all) summed in the order of ranks.
    static void put_sum(Comm& comm, float const* in, float* out, std::size_t count, int root, void* stream) {
        for (int to = 0; to < comm.ranks; ++to) {
            if (root < 0 || to == root) put_send(comm, to, in, count, stream);
        }
        if (root >= 0 && comm.rank != root) return;
        for (int from = 0; from < comm.ranks; ++from) {
            put_receive(comm, from, stream, [out, from](std::vector<float> const& part) {
                for (std::size_t i = 0; i < part.size(); ++i) out[i] = from == 0 ? part[i] : out[i] + part[i];
            });
        }
    }

    std::mutex mutex_;
    std::map<int, std::weak_ptr<Group>> groups_;
    int ids_ = 0;
    std::string failing_;
    int failing_rank_ = -1;
};

inline NcclTable FakeNccl::table() {
    NcclTable made;
    made.get_version = [](int* version) {
        *version = NcclRules::version;
        return enter("ncclGetVersion", nullptr);
    };
    made.get_unique_id = [](NcclTable::UniqueId* id) {
        std::lock_guard const lock(get().mutex_);
        auto const number = ++get().ids_;
        std::memcpy(id->internal, &number, sizeof number);
        return enter("ncclGetUniqueId", nullptr);
    };
    made.init_rank = [](NcclTable::Handle* to, int ranks, NcclTable::UniqueId id, int rank, NcclTable::Config* config) {
        if (!NcclRules::accepts(*config)) return NcclRules::invalid_argument;
        int number = 0;
        std::memcpy(&number, id.internal, sizeof number);
        auto comm = std::make_unique<Comm>();
        comm->rank = rank;
        comm->ranks = ranks;
        {
            std::lock_guard const lock(get().mutex_);
            comm->group = get().groups_[number].lock();
            if (!comm->group) get().groups_[number] = comm->group = std::make_shared<Group>();
        }
        auto const status = enter("ncclCommInitRankConfig", comm.get());
        if (status != 0 && status != NcclTable::in_progress) return status;
        ++get().alive;
        *to = comm.release();
        return status;
    };
    made.split = [](NcclTable::Handle parent, int color, int key, NcclTable::Handle* to, NcclTable::Config* config) {
        auto& from = of(parent);
        auto const status = enter("ncclCommSplit", &from);
        if (!NcclRules::accepts(*config)) return NcclRules::invalid_argument;
        auto comm = std::make_unique<Comm>();
        std::unique_lock lock(from.group->mutex);
        auto& split = from.group->splits[from.splits++];
        split.ranks[from.rank] = {color, key};
        from.group->changed.notify_all();
        auto const all_came = [&] { return static_cast<int>(split.ranks.size()) == from.ranks; };
        if (!from.group->changed.wait_for(lock, std::chrono::seconds(10), all_came)) return NcclRules::remote_error;
        if (status != 0 && status != NcclTable::in_progress) return status;
        NcclPart place{color, key};
        for (auto const& [rank, other] : split.ranks) place.meet(other.first, other.second);
        comm->rank = place.rank;
        comm->ranks = place.ranks;
        auto& part = split.parts[color];
        if (!part) part = std::make_shared<Group>();
        comm->group = part;
        comm->left = from.left;
        ++get().alive;
        *to = comm.release();
        return status;
    };
    made.finalize = [](NcclTable::Handle comm) {
        if (!of(comm).known.ranges.empty()) return ++get().broken_rules, NcclRules::invalid_usage;
        return enter("ncclCommFinalize", &of(comm));
    };
    made.destroy = [](NcclTable::Handle comm) {
        end(of(comm));
        return 0;
    };
    made.abort = [](NcclTable::Handle comm) {
        *of(comm).is_aborted = true;
        end(of(comm));
        return 0;
    };
    made.error_string = [](int) -> char const* { return "was told to fail"; };
    made.async_error = [](NcclTable::Handle comm, int* status) {
        auto& own = of(comm);
        auto const left = own.left != 0 ? own.left : waits_for_window(own) ? 1 : 0;
        if (own.left > 0) --own.left;
        if (own.has_failed) return *status = NcclRules::invalid_usage, 0;
        *status = left != 0 ? NcclTable::in_progress : get().async_rank == own.rank ? get().async_status.load() : 0;
        return get().failing_ == "ncclCommGetAsyncError" ? NcclRules::internal_error : 0;
    };
    made.all_reduce = [](void const* in, void* out, std::size_t count, int, int, NcclTable::Handle comm, void* stream) {
        put_sum(of(comm), static_cast<float const*>(in), static_cast<float*>(out), count, -1, stream);
        return enter("ncclAllReduce", &of(comm));
    };
    made.reduce = [](void const* in, void* out, std::size_t count, int, int, int root, NcclTable::Handle comm,
                     void* stream) {
        put_sum(of(comm), static_cast<float const*>(in), static_cast<float*>(out), count, root, stream);
        return enter("ncclReduce", &of(comm));
    };
    made.reduce_scatter = [](void const* in, void* out, std::size_t count, int, int, NcclTable::Handle comm,
                             void* stream) {
        for (int to = 0; to < of(comm).ranks; ++to) {
            auto const* const part = static_cast<float const*>(in) + static_cast<std::size_t>(to) * count;
            put_sum(of(comm), part, static_cast<float*>(out), count, to, stream);
        }
        return enter("ncclReduceScatter", &of(comm));
    };
    made.broadcast = [](void const* in, void* out, std::size_t count, int, int root, NcclTable::Handle comm,
                        void* stream) {
        auto& own = of(comm);
        for (int to = 0; to < own.ranks && own.rank == root; ++to)
            put_send(own, to, static_cast<float const*>(in), count, stream);
        put_receive(own, root, stream, [out](std::vector<float> const& part) {
            if (!part.empty()) std::memcpy(out, part.data(), part.size() * sizeof(float));
        });
        return enter("ncclBroadcast", &own);
    };
    made.all_gather = [](void const* in, void* out, std::size_t count, int, NcclTable::Handle comm, void* stream) {
        auto& own = of(comm);
        for (int to = 0; to < own.ranks; ++to) put_send(own, to, static_cast<float const*>(in), count, stream);
        for (int from = 0; from < own.ranks; ++from) {
            auto* const part = static_cast<float*>(out) + static_cast<std::size_t>(from) * count;
            put_receive(own, from, stream, [part](std::vector<float> const& values) {
                if (!values.empty()) std::memcpy(part, values.data(), values.size() * sizeof(float));
            });
        }
        return enter("ncclAllGather", &own);
    };
    made.send = [](void const* in, std::size_t count, int, int peer, NcclTable::Handle comm, void* stream) {
        put_send(of(comm), peer, static_cast<float const*>(in), count, stream);
        return enter("ncclSend", &of(comm));
    };
    made.receive = [](void* out, std::size_t, int, int peer, NcclTable::Handle comm, void* stream) {
        put_receive(of(comm), peer, stream, [out](std::vector<float> const& part) {
            if (!part.empty()) std::memcpy(out, part.data(), part.size() * sizeof(float));
        });
        return enter("ncclRecv", &of(comm));
    };
    made.group_start = [] {
        auto const status = enter("ncclGroupStart", nullptr);
        if (status == 0) NcclCalls::of_thread().begin_group();
        return status;
    };
    made.group_end = [] {
        NcclCalls::of_thread().end_group(put_in_stream);
        return enter("ncclGroupEnd", nullptr);
    };
    made.allocate = [](void** to, std::size_t bytes) {
        auto const status = enter("ncclMemAlloc", nullptr);
        if (status == 0) *to = get().heap.allocate(bytes);
        return status;
    };
    made.release = [](void* memory) {
        if (!get().heap.release(memory)) ++get().broken_rules;
        return 0;
    };
    made.add_buffer = [](NcclTable::Handle comm, void* begin, std::size_t bytes, void** buffer) {
        // That of one rank is no work of the communicator's.
        auto const status = enter("ncclCommRegister", &of(comm));
        if (status != 0 && status != NcclTable::in_progress) return status;
        auto* const range = get().heap.add(begin, bytes, false);
        if (range == nullptr) return NcclRules::invalid_argument;
        of(comm).known.ranges.push_back(range);
        return *buffer = range, 0;
    };
    made.remove_buffer = [](NcclTable::Handle comm, void* buffer) {
        if (auto const status = enter("ncclCommDeregister", &of(comm)); status == NcclRules::internal_error)
            return status;
        return of(comm).known.remove(get().heap, buffer) ? 0 : NcclRules::invalid_usage;
    };
    made.add_window = [](NcclTable::Handle comm, void* begin, std::size_t bytes, NcclTable::Window* window, int flags) {
        auto& own = of(comm);
        auto const status = enter("ncclCommWindowRegister", &own);
        if (status != 0 && status != NcclTable::in_progress) return own.has_failed = true, status;
        if (!get().makes_windows) return *window = nullptr, 0;
        auto* const range = get().heap.add(begin, bytes, true);
        if (range == nullptr) return NcclRules::invalid_argument;
        own.known.ranges.push_back(range);
        own.known.asked = range;
        own.known.to = window;
        std::lock_guard const lock(own.group->mutex);
        own.group->windows[++own.windows][own.rank] = {bytes, flags};
        return NcclTable::in_progress;
    };
    made.remove_window = [](NcclTable::Handle comm, NcclTable::Window window) {
        auto const status = enter("ncclCommWindowDeregister", &of(comm));
        if (status == NcclRules::internal_error) return status;
        return of(comm).known.remove(get().heap, window) ? 0 : NcclRules::invalid_usage;
    };
    return made;
}

}  // namespace shardwise::testing
