// SPDX-License-Identifier: Apache-2.0
// A library of NCCL's interface for ranks that are processes, in place of libnccl.so.2: messages are files of a folder in memory, which
// appear whole, and tasks run in the streams of the fake vendor, which shardwise_fake_nccl_streams says how to reach. Settings:
//   SHARDWISE_FAKE_NCCL_FOLDER    where groups have their folders; whoever sets it removes it
//   SHARDWISE_FAKE_NCCL_DELAY_MS  every message comes so much later
//   SHARDWISE_FAKE_NCCL_ERROR     RANK:CALLS: after so many calls the rank's communicator says that it has failed
//   SHARDWISE_FAKE_NCCL_WINDOWS   none: it makes no windows; RANK: that rank's are refused
// What is summed in a window lies at the same offset of it on all ranks, or the communicator fails.
// A rank whose process has ended is found out while a message of it is waited for.
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/quant/half_types.hpp>

#include "nccl_comm.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using shardwise::testing::NcclCalls;
using shardwise::testing::NcclComm;
using shardwise::testing::NcclHeap;
using shardwise::testing::NcclPart;
using shardwise::testing::NcclRules;
using shardwise::testing::read_whole;
using shardwise::testing::setting;
using shardwise::testing::write_whole;

namespace {

constexpr int invalid_argument = NcclRules::invalid_argument;
constexpr int remote_error = NcclRules::remote_error;
constexpr int invalid_usage = NcclRules::invalid_usage;

NcclHeap heap;
std::atomic<int> broken_rules{0};

using PutInStream = void (*)(void* stream, void (*task)(void*), void* of);
PutInStream put_in_stream = nullptr;

using Shared = std::shared_ptr<NcclComm>;
Shared& of(NcclTable::Handle handle) {
    return *static_cast<Shared*>(handle);
}

using Task = NcclCalls::Task;

void put(void* stream, Task task) {
    put_in_stream(
        stream,
        [](void* kept) {
            std::unique_ptr<Task> const run(static_cast<Task*>(kept));
            (*run)();
        },
        new Task(std::move(task)));
}
void put(void* stream, Task task, bool is_send) {
    NcclCalls::of_thread().add(stream, std::move(task), is_send, [](void* to, Task one) { put(to, std::move(one)); });
}

void put_send(Shared const& comm, int to, void const* data, std::size_t bytes, void* stream) {
    put(
        stream,
        [comm, to, number = comm->sent[to]++, data, bytes] {
            std::this_thread::sleep_for(
                std::chrono::milliseconds(std::atoi(setting("SHARDWISE_FAKE_NCCL_DELAY_MS").c_str())));
            write_whole(comm->message(comm->rank, to, number), {static_cast<char const*>(data), bytes});
        },
        true);
}
void put_send(Shared const& comm, int to, std::shared_ptr<std::int64_t> const& word, void* stream) {
    put_send(comm, to, word.get(), sizeof *word, stream);
    // It lives until it is sent.
    put(
        stream, [word] {}, true);
}
template <class Take>
void put_receive(Shared const& comm, int from, void* stream, Take const& take) {
    put(
        stream,
        [comm, from, number = comm->received[from]++, take] {
            if (auto const message = comm->wait_for(from, number)) take(*message);
        },
        false);
}
void put_copy(Shared const& comm, int from, void* out, void* stream) {
    put_receive(comm, from, stream,
                [out](std::string const& message) { std::memcpy(out, message.data(), message.size()); });
}

/// Calls with(T) for the elements that have a sum; others are none of the library's here.
template <class With>
int with_element(int dtype, With const& with) {
    if (dtype == NcclTable::dtype_of(Dtype::f32)) return with(float{}), 0;
    if (dtype == NcclTable::dtype_of(Dtype::bf16)) return with(Bfloat16{}), 0;
    if (dtype == NcclTable::dtype_of(Dtype::f16)) return with(Float16{}), 0;
    return invalid_argument;
}
std::size_t size_of(int dtype) {
    if (dtype == NcclTable::dtype_of(Dtype::i8) || dtype == NcclTable::dtype_of(Dtype::u8)) return 1;
    if (dtype == NcclTable::dtype_of(Dtype::f16) || dtype == NcclTable::dtype_of(Dtype::bf16)) return 2;
    return dtype == NcclTable::dtype_of(Dtype::i64) || dtype == NcclTable::dtype_of(Dtype::f64) ? 8 : 4;
}

/// Every rank's part for `root` (-1: for all) summed in float in the order of ranks, and rounded once.
template <class T>
void put_sum(Shared const& comm, T const* in, T* out, std::size_t count, int root, void* stream) {
    for (int to = 0; to < comm->ranks; ++to) {
        if (root < 0 || to == root) put_send(comm, to, in, count * sizeof(T), stream);
    }
    if (root >= 0 && comm->rank != root) return;
    auto const sums = std::make_shared<std::vector<float>>(count);
    for (int from = 0; from < comm->ranks; ++from) {
        put_receive(comm, from, stream, [=, ranks = comm->ranks](std::string const& message) {
            for (std::size_t i = 0; i < count; ++i) {
                T value;
                std::memcpy(&value, message.data() + i * sizeof(T), sizeof(T));
                (*sums)[i] = from == 0 ? static_cast<float>(value) : (*sums)[i] + static_cast<float>(value);
                if (from == ranks - 1) out[i] = static_cast<T>((*sums)[i]);
            }
        });
    }
}

/// Ranks that sum in windows do so at one offset.
void compare_offsets(Shared const& comm, void const* at, void* stream) {
    auto const own = std::make_shared<std::int64_t>(comm->known.offset(at));
    for (int to = 0; to < comm->ranks; ++to) put_send(comm, to, own, stream);
    for (int from = 0; from < comm->ranks; ++from) {
        put_receive(comm, from, stream, [comm, own](std::string const& message) {
            std::int64_t other = 0;
            std::memcpy(&other, message.data(), sizeof other);
            if (other != *own) comm->status = invalid_usage, ++broken_rules;
        });
    }
}

/// What a call says: that it has begun, or that the communicator has failed.
int called(Shared const& comm) {
    auto const error = setting("SHARDWISE_FAKE_NCCL_ERROR");
    auto const colon = error.find(':');
    ++comm->calls;
    if (colon != std::string::npos && std::atoi(error.c_str()) == comm->rank &&
        comm->calls > std::atoi(error.c_str() + colon + 1))
        comm->status = remote_error;
    return NcclTable::in_progress;
}

int open(NcclTable::Handle* to, std::string folder, int rank, int ranks) {
    auto comm = std::make_shared<NcclComm>();
    comm->folder = std::move(folder);
    comm->rank = rank;
    comm->ranks = ranks;
    comm->come();
    *to = new Shared(std::move(comm));
    return NcclTable::in_progress;
}

void close(NcclTable::Handle handle) {
    of(handle)->known.clear(heap);
    delete static_cast<Shared*>(handle);
}

}  // namespace

extern "C" {

/// How tasks are put into a stream of the program's.
void shardwise_fake_nccl_streams(PutInStream put_task) {
    put_in_stream = put_task;
}
/// Windows that were made since this was last asked; -1 where a rule was broken or memory is left.
int shardwise_fake_nccl_windows() {
    auto const made = NcclComm::windows_made.exchange(0);
    return broken_rules.exchange(0) != 0 || heap.blocks() != 0 ? -1 : made;
}

int ncclGetVersion(int* version) {
    *version = NcclRules::version;
    return 0;
}
int ncclGetUniqueId(NcclTable::UniqueId* id) {
    auto folder = setting("SHARDWISE_FAKE_NCCL_FOLDER") + "/group-XXXXXX";
    if (folder.size() >= sizeof id->internal || ::mkdtemp(folder.data()) == nullptr) return invalid_argument;
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, folder.data(), folder.size());
    return 0;
}
int ncclCommInitRankConfig(NcclTable::Handle* to, int ranks, NcclTable::UniqueId id, int rank,
                           NcclTable::Config* config) {
    if (!NcclRules::accepts(*config) || put_in_stream == nullptr) return invalid_argument;
    return open(to, id.internal, rank, ranks);
}
int ncclCommSplit(NcclTable::Handle parent, int color, int key, NcclTable::Handle* to, NcclTable::Config* config) {
    if (!NcclRules::accepts(*config)) return invalid_argument;
    auto const& whole = of(parent);
    auto const split = whole->folder + "/split." + std::to_string(whole->splits++) + ".";
    write_whole(split + std::to_string(whole->rank), std::to_string(color) + " " + std::to_string(key));
    NcclPart part{color, key};
    for (int each = 0; each < whole->ranks; ++each) {
        std::optional<std::string> place;
        while (!(place = read_whole(split + std::to_string(each)))) {
            if (whole->is_gone(each)) return remote_error;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        part.meet(std::atoi(place->c_str()), std::atoi(place->c_str() + place->find(' ')));
    }
    auto const folder = split + "part." + std::to_string(color);
    std::error_code ignored;
    std::filesystem::create_directory(folder, ignored);
    return open(to, folder, part.rank, part.ranks);
}
int ncclCommFinalize(NcclTable::Handle comm) {
    if (of(comm)->known.ranges.empty()) return 0;
    return ++broken_rules, invalid_usage;
}
int ncclCommDestroy(NcclTable::Handle comm) {
    close(comm);
    return 0;
}
int ncclCommAbort(NcclTable::Handle comm) {
    of(comm)->is_aborted = true;
    close(comm);
    return 0;
}
char const* ncclGetErrorString(int status) {
    return status == remote_error ? "remote process exited or there was a network error" : "invalid argument";
}
int ncclCommGetAsyncError(NcclTable::Handle comm, int* status) {
    auto const& own = of(comm);
    *status = own->status != 0                                   ? own->status.load()
              : own->have_all_come() && !own->waits_for_window() ? own->status.load()
                                                                 : NcclTable::in_progress;
    return 0;
}
int ncclAllReduce(void const* in, void* out, std::size_t count, int dtype, int, NcclTable::Handle comm, void* stream) {
    if (!of(comm)->known.ranges.empty()) compare_offsets(of(comm), in, stream);
    auto const put_all = [&]<class T>(T) {
        put_sum(of(comm), static_cast<T const*>(in), static_cast<T*>(out), count, -1, stream);
    };
    auto const known = with_element(dtype, put_all);
    return known == 0 ? called(of(comm)) : known;
}
int ncclReduce(void const* in, void* out, std::size_t count, int dtype, int, int root, NcclTable::Handle comm,
               void* stream) {
    auto const put_one = [&]<class T>(T) {
        put_sum(of(comm), static_cast<T const*>(in), static_cast<T*>(out), count, root, stream);
    };
    auto const known = with_element(dtype, put_one);
    return known == 0 ? called(of(comm)) : known;
}
int ncclReduceScatter(void const* in, void* out, std::size_t count, int dtype, int, NcclTable::Handle comm,
                      void* stream) {
    auto const put_each = [&]<class T>(T) {
        for (int to = 0; to < of(comm)->ranks; ++to) {
            auto const* const part = static_cast<T const*>(in) + static_cast<std::size_t>(to) * count;
            put_sum(of(comm), part, static_cast<T*>(out), count, to, stream);
        }
    };
    auto const known = with_element(dtype, put_each);
    return known == 0 ? called(of(comm)) : known;
}
int ncclBroadcast(void const* in, void* out, std::size_t count, int dtype, int root, NcclTable::Handle comm,
                  void* stream) {
    auto const& own = of(comm);
    for (int to = 0; to < own->ranks && own->rank == root; ++to) put_send(own, to, in, count * size_of(dtype), stream);
    put_copy(own, root, out, stream);
    return called(own);
}
int ncclAllGather(void const* in, void* out, std::size_t count, int dtype, NcclTable::Handle comm, void* stream) {
    auto const& own = of(comm);
    auto const bytes = count * size_of(dtype);
    for (int to = 0; to < own->ranks; ++to) put_send(own, to, in, bytes, stream);
    for (int from = 0; from < own->ranks; ++from)
        put_copy(own, from, static_cast<char*>(out) + static_cast<std::size_t>(from) * bytes, stream);
    return called(own);
}
int ncclMemAlloc(void** to, std::size_t bytes) {
    *to = heap.allocate(bytes);
    return 0;
}
int ncclMemFree(void* memory) {
    if (!heap.release(memory)) ++broken_rules;
    return 0;
}
int ncclCommRegister(NcclTable::Handle comm, void* begin, std::size_t bytes, void** buffer) {
    auto* const range = heap.add(begin, bytes, false);
    if (range == nullptr) return invalid_argument;
    of(comm)->known.ranges.push_back(range);
    *buffer = range;
    return 0;
}
int ncclCommDeregister(NcclTable::Handle comm, void* buffer) {
    return of(comm)->known.remove(heap, buffer) ? 0 : invalid_usage;
}
int ncclCommWindowRegister(NcclTable::Handle comm, void* begin, std::size_t bytes, NcclTable::Window* window,
                           int flags) {
    auto const& own = of(comm);
    auto const how = setting("SHARDWISE_FAKE_NCCL_WINDOWS");
    if (how == "none") return *window = nullptr, 0;
    if (how == std::to_string(own->rank)) return own->status = invalid_usage, invalid_usage;
    auto* const range = heap.add(begin, bytes, true);
    if (range == nullptr) return invalid_argument;
    own->known.ranges.push_back(range);
    own->known.asked = range;
    own->known.to = window;
    ++own->windows;
    write_whole(own->window_file(own->rank), std::to_string(bytes) + " " + std::to_string(flags));
    return NcclTable::in_progress;
}
int ncclCommWindowDeregister(NcclTable::Handle comm, NcclTable::Window window) {
    return of(comm)->known.remove(heap, window) ? 0 : invalid_usage;
}
int ncclSend(void const* in, std::size_t count, int dtype, int peer, NcclTable::Handle comm, void* stream) {
    put_send(of(comm), peer, in, count * size_of(dtype), stream);
    return called(of(comm));
}
int ncclRecv(void* out, std::size_t, int, int peer, NcclTable::Handle comm, void* stream) {
    put_copy(of(comm), peer, out, stream);
    return called(of(comm));
}
int ncclGroupStart() {
    NcclCalls::of_thread().begin_group();
    return 0;
}
int ncclGroupEnd() {
    NcclCalls::of_thread().end_group([](void* to, Task one) { put(to, std::move(one)); });
    return 0;
}
}
