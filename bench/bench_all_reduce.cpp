// SPDX-License-Identifier: Apache-2.0
// All-reduce of floats between ranks of one machine, beside Open MPI's. The checks of calls are on.
//
// The program starts itself under mpirun: the same processes run Open MPI's all-reduce, SharedMemory's, and (in the first of
// them, while the others sleep) Threads', batch by batch in turns, so that whatever the machine does meets all of them alike.
//
// bench_all_reduce [--json] [RANKS [BYTES]...]: all setups, those of so many ranks, or so many ranks at these sizes.

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>

#include "all_reduce_times.hpp"
#include "bare_sum.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef SHARDWISE_HAS_MPI
#include <mpi.h>
#endif

namespace {

using namespace shardwise;
using namespace all_reduce_times;
using Clock = std::chrono::steady_clock;

struct Setup {
    int ranks;
    std::vector<std::int64_t> sizes;
};

/// The share of what two bare threads take that ours have to reach, and how many times faster than the peer we have to be, where that
/// leaves the share.
constexpr double bare_goal = 0.9;
constexpr double peer_goal = 2.0;
[[nodiscard]] double goal_by_peer(Turn const& turn) {
    return turn.bare > 0.0 ? std::min(peer_goal, bare_goal * turn.theirs / turn.bare) : peer_goal;
}

constexpr int passes = 15;

int calls_in_batch(std::int64_t bytes, int ranks) {
    // Short batches: the best one is one that nothing else on the machine has interrupted.
    return static_cast<int>(std::clamp<std::int64_t>((2 << 20) / bytes, 1, ranks > 2 ? 200 : 1000));
}

/// Microseconds of a call, the average of a batch that all ranks begin together. Negative where a call fails.
double time_batch(int calls, std::int64_t bytes, std::function<bool()> const& reduce,
                  std::function<bool()> const& meet) {
    // What the calls use, here and there, is in the caches that the contender before has filled with its own.
    for (std::int64_t touched = 0; touched < (4 << 20); touched += std::max<std::int64_t>(bytes, 16 << 10)) {
        if (!reduce()) return -1.0;
    }
    if (!meet()) return -1.0;
    auto const start = Clock::now();
    for (int call = 0; call < calls; ++call) {
        if (!reduce()) return -1.0;
    }
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
}

template <class C>
double time_ours(C& comm, std::vector<float>& data, std::int64_t bytes) {
    TensorView<float, 1, Host> const view{data.data(), {bytes / static_cast<std::int64_t>(sizeof(float))}};
    return time_batch(
        calls_in_batch(bytes, comm.size()), bytes, [&] { return all_reduce(comm, view).has_value(); },
        [&] { return barrier(comm).has_value(); });
}

/// A group of threads that lives as long as the processes' groups do; its threads do not.
class ThreadRanks {
public:
    explicit ThreadRanks(int ranks) {
        auto const group = ThreadsGroup::create(ranks);
        for (int rank = 0; group && rank < ranks; ++rank) {
            if (auto comm = group->join(rank)) comms_.push_back(*std::move(comm));
        }
    }

    [[nodiscard]] double time(std::vector<std::vector<float>>& data, std::int64_t bytes) {
        double time = -1.0;
        auto const run = [&](std::size_t rank) {
            // As mpirun binds its ranks: a kernel that packs threads onto few cores would put both ranks on one.
            CorePin const pin(comms_.size() > 2 ? -1 : static_cast<int>(rank));
            auto const own = time_ours(comms_[rank], data[rank], bytes);
            if (rank == 0) time = own;
        };
        std::vector<std::thread> threads;
        for (std::size_t rank = 1; rank < comms_.size(); ++rank) threads.emplace_back(run, rank);
        if (!comms_.empty()) run(0);
        for (auto& thread : threads) thread.join();
        return time;
    }

private:
    std::vector<Threads> comms_;
};

std::vector<std::vector<float>> buffers(int count, std::int64_t bytes) {
    return std::vector<std::vector<float>>(static_cast<std::size_t>(count),
                                           std::vector<float>(static_cast<std::size_t>(bytes) / sizeof(float)));
}

/// Without a peer: threads here, and forked ranks that tell their times through a pipe.
bool measure_alone(Setup const& setup, Medians& medians) {
    Times times;
    auto data = buffers(setup.ranks, setup.sizes.back());
    ThreadRanks ranks(setup.ranks);
    for (int pass = 0; pass < passes; ++pass) {
        for (auto const bytes : setup.sizes) {
            auto const first = ranks.time(data, bytes);
            times[bytes][threads].push_back(best_of(first, ranks.time(data, bytes)));
        }
    }
    int ends[2];
    if (pipe(ends) != 0) return false;
    auto const key = "bench-" + std::to_string(getpid());
    std::vector<pid_t> processes;
    for (int rank = 0; rank < setup.ranks; ++rank) {
        processes.push_back(fork());
        if (processes.back() != 0) continue;
        CorePin const pin(setup.ranks > 2 ? -1 : rank);
        auto comm = SharedMemory::join(key, rank, setup.ranks);
        if (!comm) _exit(1);
        Times own;
        for (int pass = 0; pass < passes; ++pass) {
            for (auto const bytes : setup.sizes) {
                auto const first = time_ours(*comm, data[0], bytes);
                own[bytes][shared_memory].push_back(best_of(first, time_ours(*comm, data[0], bytes)));
            }
        }
        auto* const stream = fdopen(ends[1], "w");
        if (rank == 0) print_times(stream, own);
        std::fclose(stream);
        _exit(0);
    }
    close(ends[1]);
    auto* const stream = fdopen(ends[0], "r");
    bool const has_any = read_times(stream, times);
    std::fclose(stream);
    for (auto const process : processes) waitpid(process, nullptr, 0);
    keep_setting(medians, times);
    return has_any;
}

#ifdef SHARDWISE_HAS_MPI

/// What BareSum is measured for: two ranks, as long as their numbers stay in the caches.
constexpr std::int64_t max_bare_bytes = 256 << 10;

/// What a setting of the peer may take.
constexpr double max_seconds = 25.0;

/// Takes back that mpirun bound the process to one core, as long as its threads measure.
class Unbound {
public:
    Unbound() {
        sched_getaffinity(0, sizeof bound_, &bound_);
        cpu_set_t all;
        CPU_ZERO(&all);
        for (std::size_t core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
        sched_setaffinity(0, sizeof all, &all);
    }
    ~Unbound() { sched_setaffinity(0, sizeof bound_, &bound_); }
    Unbound(Unbound const&) = delete;
    Unbound& operator=(Unbound const&) = delete;

private:
    cpu_set_t bound_{};
};

/// Lets the other ranks sleep, without a core, while the first measures alone.
class Bell {
public:
    Bell(std::string const& folder, int rank, int ranks) {
        for (int other = 1; other < ranks; ++other) {
            if (rank != 0 && rank != other) continue;
            auto const name = folder + "/" + std::to_string(other);
            (void)mkfifo(name.c_str(), 0600);
            ends_.push_back(open(name.c_str(), rank == 0 ? O_WRONLY : O_RDONLY));
        }
    }
    ~Bell() {
        for (auto const end : ends_) close(end);
    }
    Bell(Bell const&) = delete;
    Bell& operator=(Bell const&) = delete;

    [[nodiscard]] bool ring() const {
        bool is_heard = true;
        for (auto const end : ends_) is_heard = write(end, "!", 1) == 1 && is_heard;
        return is_heard;
    }
    [[nodiscard]] bool sleep() const {
        char sound = 0;
        return read(ends_.front(), &sound, 1) == 1;
    }

private:
    std::vector<int> ends_;
};

/// What mpirun runs: argv is program, "--together", folder, sizes.
int run_together(int argc, char** argv) {
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 1;
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::string const folder = argv[2];
    std::vector<std::int64_t> sizes;
    for (int i = 3; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    Bell const bell(folder, rank, ranks);
    auto comm = SharedMemory::join("bench-" + folder.substr(folder.rfind('/') + 1), rank, ranks);
    if (!comm) {
        std::fprintf(stderr, "%s\n", comm.error().message().c_str());
        return 1;
    }
    ThreadRanks own_threads(rank == 0 ? ranks : 1);
    BareSum bare_sum(max_bare_bytes);
    auto data = buffers(rank == 0 ? ranks : 1, sizes.back());
    auto result = buffers(1, sizes.back()).front();
    Times times;
    auto const start = Clock::now();
    for (int pass = 0; pass < passes; ++pass) {
        int is_late = std::chrono::duration<double>(Clock::now() - start).count() > max_seconds ? 1 : 0;
        MPI_Bcast(&is_late, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (is_late != 0) break;
        for (auto const bytes : sizes) {
            auto const count = static_cast<int>(bytes / static_cast<std::int64_t>(sizeof(float)));
            auto const calls = calls_in_batch(bytes, ranks);
            auto const meet = [] { return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS; };
            auto const reduce = [&](void const* from, void* to) {
                return MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
            };
            auto const in_place = time_batch(
                calls, bytes, [&] { return reduce(MPI_IN_PLACE, data[0].data()); }, meet);
            auto const own = time_ours(*comm, data[0], bytes);
            auto const apart = time_batch(
                calls, bytes, [&] { return reduce(data[0].data(), result.data()); }, meet);
            times[bytes][open_mpi].push_back(best_of(in_place, apart));
            times[bytes][shared_memory].push_back(best_of(own, time_ours(*comm, data[0], bytes)));
            if (rank == 0) {
                Unbound const unbound;
                auto const first = own_threads.time(data, bytes);
                times[bytes][threads].push_back(best_of(first, own_threads.time(data, bytes)));
                if (ranks == 2 && bytes <= max_bare_bytes)
                    times[bytes][bare].push_back(bare_sum.time(data, bytes, calls));
                if (!bell.ring()) return 1;
            } else if (!bell.sleep()) {
                return 1;
            }
        }
    }
    if (rank == 0) print_times(stdout, times);
    MPI_Finalize();
    return 0;
}

/// Settings of Open MPI 4.1 that are each best somewhere: its default bound to cores or not, and its collectives for one
/// machine.
std::vector<std::string> peer_settings(int ranks) {
    if (ranks > 2) {
        return {"--bind-to none --mca mpi_yield_when_idle 1",
                "--bind-to none --mca mpi_yield_when_idle 1 --mca coll_sm_priority 90"};
    }
    return {"--bind-to core", "--bind-to none", "--bind-to core --mca coll_sm_priority 90",
            "--bind-to core --mca coll_adapt_priority 90"};
}

bool measure_together(Setup const& setup, Medians& medians) {
    char path[4096];
    auto const length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return false;
    path[length] = 0;
    bool has_any = false;
    for (auto const& settings : peer_settings(setup.ranks)) {
        char folder[] = "/tmp/shardwise-bench-XXXXXX";
        if (mkdtemp(folder) == nullptr) return false;
        std::string command = "mpirun -np ";
        command += std::to_string(setup.ranks) + " --allow-run-as-root --oversubscribe " + settings + " '" + path +
                   "' --together " + folder;
        for (auto const bytes : setup.sizes) command += " " + std::to_string(bytes);
        command += " 2>/dev/null";
        auto* const stream = popen(command.c_str(), "r");
        if (stream == nullptr) return false;
        Times times;
        has_any = read_times(stream, times) || has_any;
        keep_setting(medians, times);
        pclose(stream);
        for (int rank = 1; rank < setup.ranks; ++rank) unlink((folder + ("/" + std::to_string(rank))).c_str());
        rmdir(folder);
    }
    return has_any;
}

#else

bool measure_together(Setup const&, Medians&) {
    return false;
}

#endif

struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    /// A row whose ratio is their time by ours; `theirs` is 0 where the peer is not there.
    void add(std::string const& name, double ours, char const* peer, double theirs, double goal) {
        auto const ratio = ours > 0.0 ? theirs / ours : 0.0;
        bool const is_there = theirs > 0.0;
        bool const is_met = ratio >= goal;
        is_everything_met = is_everything_met && (is_met || !is_there);
        char tail[160] = "null,\"unit\":\"us\",\"ratio\":null,";
        if (is_there) std::snprintf(tail, sizeof tail, "%.3f,\"unit\":\"us\",\"ratio\":%.3f,", theirs, ratio);
        char row[512];
        std::snprintf(row, sizeof row,
                      "%s{\"case\":\"%s\",\"ours\":%.3f,\"peer\":\"%s\",\"theirs\":%s\"goal\":%.2f,\"met\":%s}",
                      rows.empty() ? "" : ",", name.c_str(), ours, peer, tail, goal,
                      !is_there ? "null"
                      : is_met  ? "true"
                                : "false");
        rows += row;
        if (is_json) return;
        std::printf("%-34s %10.2f", name.c_str(), ours);
        if (is_there)
            std::printf("  %-16s %10.2f  %6.2f x (goal %.2f)%s", peer, theirs, ratio, goal, is_met ? "" : "  MISSED");
        std::printf("\n");
    }
};

std::string size_text(std::int64_t bytes) {
    if (bytes < 1024) return std::to_string(bytes) + " B";
    if (bytes < (1 << 20)) return std::to_string(bytes / 1024) + " KB";
    return std::to_string(bytes >> 20) + " MB";
}

}  // namespace

int main(int argc, char** argv) {
#ifdef SHARDWISE_HAS_MPI
    if (argc > 1 && std::string_view(argv[1]) == "--together") return run_together(argc, argv);
#endif
    bool const is_json = argc > 1 && std::string_view(argv[1]) == "--json";
    std::vector<std::int64_t> numbers;
    for (int i = is_json ? 2 : 1; i < argc; ++i) numbers.push_back(std::atoll(argv[i]));
    std::vector<Setup> setups{{2,
                               {8, 64, 512, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20,
                                4 << 20, 16 << 20, 64 << 20}},
                              {4, {8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20}}};
    if (!numbers.empty()) {
        std::erase_if(setups, [&](Setup const& setup) { return setup.ranks != numbers[0]; });
        // The last size is the longest.
        std::sort(numbers.begin() + 1, numbers.end());
        for (auto& setup : setups) {
            if (numbers.size() > 1) setup.sizes.assign(numbers.begin() + 1, numbers.end());
        }
    }
    Report report;
    report.is_json = is_json;
    if (!is_json) {
        std::printf(
            "all_reduce of floats, microseconds, in turns: the turn with the median ratio of up to %d, a turn the "
            "better of two "
            "batches; Open MPI in place and out of place, in the setting that is best against ours\n",
            passes);
    }
    for (auto const& setup : setups) {
        Medians medians;
        if (!measure_together(setup, medians) && !measure_alone(setup, medians)) return 1;
        for (auto const kind : {threads, shared_memory}) {
            for (auto const bytes : setup.sizes) {
                auto const& turn = medians[bytes][kind];
                auto const name = std::string(kind == threads ? "threads, " : "shared_memory, ") +
                                  std::to_string(setup.ranks) + " ranks, " + size_text(bytes);
                report.add(name, turn.ours, "Open MPI", turn.theirs, goal_by_peer(turn));
                if (turn.bare > 0.0) report.add(name, turn.ours, "two bare threads", turn.bare, bare_goal);
            }
        }
    }
    if (is_json)
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"all_reduce\",\"rows\":[%s]}\n", report.rows.c_str());
    return report.is_everything_met || is_json ? 0 : 1;
}
