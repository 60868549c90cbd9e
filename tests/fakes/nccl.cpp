// SPDX-License-Identifier: Apache-2.0
// A library of NCCL's interface for ranks that are processes, in place of libnccl.so.2: messages are files of a folder in memory, which
// appear whole, and tasks run in the streams of the fake vendor, which shardwise_fake_nccl_streams says how to reach. Settings:
//   SHARDWISE_FAKE_NCCL_FOLDER    where groups have their folders; whoever sets it removes it
//   SHARDWISE_FAKE_NCCL_DELAY_MS  every message comes so much later
//   SHARDWISE_FAKE_NCCL_ERROR     RANK:CALLS: after so many calls the rank's communicator says that it has failed
// A rank whose process has ended is found out while a message of it is waited for.
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/quant/half_types.hpp>

#include "nccl_rules.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using shardwise::testing::NcclCalls;
using shardwise::testing::NcclPart;
using shardwise::testing::NcclRules;

namespace {

constexpr int invalid_argument = NcclRules::invalid_argument;
constexpr int remote_error = NcclRules::remote_error;

using PutInStream = void (*)(void* stream, void (*task)(void*), void* of);
PutInStream put_in_stream = nullptr;

std::string setting(char const* name) {
    auto const* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

void write_whole(std::string const& path, std::string_view bytes) {
    auto const part = path + ".part";
    std::ofstream(part, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    (void)std::rename(part.c_str(), path.c_str());
}
std::optional<std::string> read_whole(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Comm {
    std::string folder;
    int rank = 0;
    int ranks = 0;
    bool has_met = false;
    int calls = 0;
    int splits = 0;
    /// By the other rank.
    std::map<int, int> sent{};
    std::map<int, int> received{};
    std::atomic<bool> is_aborted{false};
    std::atomic<int> status{0};

    std::string process_file(int of) const { return folder + "/process." + std::to_string(of); }
    std::string message(int from, int to, int number) const {
        return folder + "/message." + std::to_string(from) + "." + std::to_string(to) + "." + std::to_string(number);
    }
    void come() { write_whole(process_file(rank), std::to_string(getpid())); }
    bool have_all_come() {
        for (int of = 0; of < ranks && !has_met; ++of) {
            if (!std::filesystem::exists(process_file(of))) return false;
        }
        return has_met = true;
    }
    bool is_gone(int of) const {
        auto const process = read_whole(process_file(of));
        auto const state = process ? read_whole("/proc/" + *process + "/stat") : std::nullopt;
        // "(name) Z": a zombie, which has ended and was not waited for.
        return !state || state->find(") Z") != std::string::npos;
    }
    /// A message, once it is there; none of a rank that is gone, or after this one's end.
    std::optional<std::string> wait_for(int from, int number) {
        auto const path = message(from, rank, number);
        while (!is_aborted && status == 0) {
            if (auto found = read_whole(path)) {
                (void)std::remove(path.c_str());
                return found;
            }
            if (is_gone(from) && !std::filesystem::exists(path)) status = remote_error;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return std::nullopt;
    }
};

using Shared = std::shared_ptr<Comm>;
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
    auto comm = std::make_shared<Comm>();
    comm->folder = std::move(folder);
    comm->rank = rank;
    comm->ranks = ranks;
    comm->come();
    *to = new Shared(std::move(comm));
    return NcclTable::in_progress;
}

void close(NcclTable::Handle handle) {
    delete static_cast<Shared*>(handle);
}

}  // namespace

extern "C" {

/// How tasks are put into a stream of the program's.
void shardwise_fake_nccl_streams(PutInStream put_task) {
    put_in_stream = put_task;
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
int ncclCommFinalize(NcclTable::Handle) {
    return 0;
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
    *status = own->status != 0 ? own->status.load() : own->have_all_come() ? 0 : NcclTable::in_progress;
    return 0;
}
int ncclAllReduce(void const* in, void* out, std::size_t count, int dtype, int, NcclTable::Handle comm, void* stream) {
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
