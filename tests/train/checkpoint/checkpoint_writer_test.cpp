// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_writer.hpp>

#include <doctest/doctest.h>

#include "checkpoint_cases.hpp"
#include "every_call.hpp"
#include "pair_sample.hpp"

#include <cerrno>
#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// The system's calls, each numbered: something happens at one of them.
struct WatchedCalls : testing::EveryCall<WatchedCalls> {
    enum class Fault { none, killed_before, killed_within, killed_after, refused, short_write };

    /// A block: small tensors, too, go around the page cache in part.
    static constexpr std::int64_t min_direct = 4096;

    inline static int count = 0;
    /// Files that were opened around the page cache.
    inline static int direct = 0;
    inline static int faulty = 0;
    inline static int code = 0;
    inline static Fault fault = Fault::none;

    static void watch(Fault what, int call, int errno_code = 0) {
        count = direct = 0;
        fault = what;
        faulty = call;
        code = errno_code;
    }
    [[nodiscard]] static bool is_faulty() { return ++count == faulty; }
    [[noreturn]] static void die() {
        (void)::kill(::getpid(), SIGKILL);
        ::_exit(0);
    }
    /// Makes a call with what is to happen at it.
    template <class Call>
    static auto make(Call call) -> decltype(call()) {
        if (!is_faulty()) return call();
        if (fault == Fault::refused) return errno = code, -1;
        if (fault == Fault::killed_before) die();
        auto const done = call();
        if (fault == Fault::killed_after) die();
        return done;
    }

    static int open(char const* path, int flags) {
        auto const descriptor = EveryCall::open(path, flags);
        direct += descriptor >= 0 && (flags & O_DIRECT) != 0 ? 1 : 0;
        return descriptor;
    }
    static int allocate(int descriptor, std::int64_t bytes) {
        return make([&] { return FileCalls::allocate(descriptor, bytes); });
    }
    static std::int64_t write(int descriptor, char const* data, std::size_t size, std::int64_t offset) {
        bool const is_cut = count + 1 == faulty && (fault == Fault::killed_within || fault == Fault::short_write);
        if (!is_cut) return make([&] { return FileCalls::write(descriptor, data, size, offset); });
        ++count;
        auto const done = FileCalls::write(descriptor, data, (size + 1) / 2, offset);
        if (fault == Fault::killed_within) die();
        return done;
    }
    // A call that is refused has done its work: the system has no other way to close.
    static int close(int descriptor) {
        auto const done = FileCalls::close(descriptor);
        return make([&] { return done; });
    }
};
using Fault = WatchedCalls::Fault;

/// A run at its third step, whose first two steps are saved; copies of its folder and of the checkpoint to come.
struct ThreeSteps {
    SmallRun<AdamW> run{"bfloat16"};
    TemporaryFolder folder;
    std::map<std::string, std::string> second, third;
    std::int64_t keep = 2;
    std::vector<std::byte> memory =
        std::vector<std::byte>(static_cast<std::size_t>(CheckpointWriter<>::memory_bytes(Bytes{1 << 20}).count()));

    ThreeSteps() {
        run.train(0, 1);
        REQUIRE(run.save(folder / "start", 1));
        run.train(1, 2);
        REQUIRE(run.save(folder / "start", 2));
        second = files_of(folder / "start/step-000002");
        run.train(2, 3);
        REQUIRE(run.save(folder / "end", 3));
        third = files_of(folder / "end/step-000003");
    }
    [[nodiscard]] std::string out() const { return folder / "out"; }
    void reset() const {
        std::filesystem::remove_all(out());
        std::filesystem::copy(folder / "start", out(), std::filesystem::copy_options::recursive);
    }
    /// Around the page cache, where the file system has a way around it.
    [[nodiscard]] Result<> save_watched() {
        auto const group = ThreadsGroup::create(1);
        auto comm = group->join(0);
        auto const parts =
            TrainedModel::take(checkpoint_parts(*run.layout, run.trained.weights, run.trainer->optimizer()));
        return save_checkpoint<WatchedCalls>(*comm, run.target(out(), keep), run.state(3),
                                             Span<CheckpointPart const>(parts.data(), parts.size()),
                                             {memory.data(), memory.size()});
    }
    /// How many calls a save makes.
    [[nodiscard]] int calls() {
        reset();
        WatchedCalls::watch(Fault::none, 0);
        REQUIRE(save_watched());
        if (WatchedCalls::direct == 0) MESSAGE("this file system has no way around its page cache");
        return WatchedCalls::count;
    }
    /// The checkpoint that a new run takes; every folder that is named as one is whole.
    [[nodiscard]] std::int64_t check_whole() const {
        for (auto const step : list_checkpoints(out())) {
            auto const whole = verify_checkpoint(out() + "/" + checkpoint_name(step), *run.layout);
            CHECK_MESSAGE(whole, (whole ? "" : whole.error().message()));
        }
        auto const point = run.newest(out());
        REQUIRE_MESSAGE(point, (point ? "" : point.error().message()));
        CHECK(point->warnings.empty());
        auto const step = point->state.step;
        CHECK((step == 2 || step == 3));
        CHECK(files_of(point->folder) == (step == 2 ? second : third));
        return step;
    }
};

/// Ends a process at a call of its save.
void kill_at(ThreeSteps& steps, Fault fault, int call) {
    auto const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        WatchedCalls::watch(fault, call);
        (void)steps.save_watched();
        ::_exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) || fault == Fault::killed_within));
}

void kill_everywhere(ThreeSteps& steps, int stride) {
    auto const calls = steps.calls();
    CHECK(calls > 60);
    std::set<std::int64_t> seen;
    for (auto const fault : {Fault::killed_before, Fault::killed_within, Fault::killed_after}) {
        for (int call = 1; call <= calls; call += stride) {
            CAPTURE(call);
            steps.reset();
            kill_at(steps, fault, call);
            seen.insert(steps.check_whole());
            // The next run goes on as if nothing had been.
            REQUIRE(remove_leftovers(steps.out()));
            REQUIRE(steps.run.save(steps.out(), 3, steps.keep));
            CHECK(steps.check_whole() == 3);
            for (auto const& name : shardwise::detail::entries_of(steps.out())) CHECK(name.starts_with("step-"));
        }
    }
    CHECK(seen == std::set<std::int64_t>{2, 3});
}

/// What has reached the disk, as a file system may have it that loses all that was not synced.
struct SyncedCalls : FileCalls {
    inline static std::map<int, std::string> open_files;
    inline static std::set<std::string> dirty;
    inline static std::vector<std::string> mistakes;
    inline static bool is_name_dirty = false;

    static std::string parent(std::string const& path) { return path.substr(0, path.rfind('/')); }
    static int open(char const* path, int flags) {
        auto const descriptor = FileCalls::open(path, flags);
        if (descriptor >= 0) open_files[descriptor] = path;
        if ((flags & O_CREAT) != 0) dirty.insert(parent(path));
        return descriptor;
    }
    static int allocate(int descriptor, std::int64_t bytes) {
        dirty.insert(open_files[descriptor]);
        return FileCalls::allocate(descriptor, bytes);
    }
    static std::int64_t write(int descriptor, char const* data, std::size_t size, std::int64_t offset) {
        dirty.insert(open_files[descriptor]);
        return FileCalls::write(descriptor, data, size, offset);
    }
    static int sync(int descriptor) {
        auto const& path = open_files[descriptor];
        dirty.erase(path);
        if (path.ends_with("/out")) is_name_dirty = false;
        return FileCalls::sync(descriptor);
    }
    static void look(std::string const& from, std::string const& to) {
        bool const is_named = to.find("/step-") != std::string::npos;
        for (auto const& path : dirty) {
            if (is_named && (path == from || path.starts_with(from + "/"))) mistakes.push_back(path + " is not synced");
        }
        if (!is_named && is_name_dirty) mistakes.push_back(from + " goes before the new name is synced");
        if (is_named) is_name_dirty = true;
    }
    static int rename(char const* from, char const* to) {
        look(from, to);
        return FileCalls::rename(from, to);
    }
    static int exchange(char const* one, char const* other) {
        look(one, other);
        return FileCalls::exchange(one, other);
    }
};

/// No file may grow beyond so many bytes while this lives.
class SmallFiles {
public:
    explicit SmallFiles(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        auto limit = before_;
        limit.rlim_cur = bytes;
        handler_ = std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    SmallFiles(SmallFiles const&) = delete;
    SmallFiles& operator=(SmallFiles const&) = delete;
    ~SmallFiles() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    rlimit before_{};
    void (*handler_)(int) = nullptr;
};

}  // namespace

// A process that is killed at any call of a save.
TEST_CASE("CheckpointWriter: SIGKILL at a call of a save leaves the old checkpoint or the new one, whole") {
    ThreeSteps steps;
    kill_everywhere(steps, 9);
}

TEST_SUITE("long") {
    TEST_CASE("CheckpointWriter: SIGKILL at every call of a save leaves the old checkpoint or the new one, whole") {
        ThreeSteps steps;
        kill_everywhere(steps, 1);
        steps.keep = 1;
        kill_everywhere(steps, 1);
        // In place of one that has the same step.
        REQUIRE(steps.run.save(steps.folder / "start", 3));
        auto const calls = steps.calls();
        for (int call = 1; call <= calls; ++call) {
            steps.reset();
            kill_at(steps, Fault::killed_before, call);
            CHECK(steps.check_whole() == 3);
        }
    }
}

// A disk that is full.
TEST_CASE(
    "CheckpointWriter: a full disk and a broken one at any call are errors; the old checkpoint stays, nothing else is "
    "left") {
    ThreeSteps steps;
    auto const calls = steps.calls();
    for (int const code : {ENOSPC, EIO}) {
        for (int call = takes_samples() && code == EIO ? 2 : 1; call <= calls; call += sampled_count(1, 2)) {
            CAPTURE(call);
            steps.reset();
            WatchedCalls::watch(Fault::refused, call, code);
            auto const saved = steps.save_watched();
            auto const step = steps.check_whole();
            if (!saved) CHECK(saved.error().code() == ErrorCode::file_unwritable);
            // OUT is there already, and what cannot be removed is left for remove_leftovers.
            CHECK((step == 3 || !saved));
            REQUIRE(remove_leftovers(steps.out()));
            for (auto const& name : shardwise::detail::entries_of(steps.out())) CHECK(name.starts_with("step-"));
        }
    }
    for (int call = 1; call <= calls; call += sampled_count(1, 3)) {
        steps.reset();
        WatchedCalls::watch(Fault::short_write, call);
        CHECK(steps.save_watched());
        CHECK(steps.check_whole() == 3);
    }
    steps.reset();
    {
        SmallFiles const disk(9000);
        CHECK_FALSE(steps.run.save(steps.out(), 3));
    }
    CHECK(steps.check_whole() == 2);
    CHECK(shardwise::detail::entries_of(steps.out()) == std::vector<std::string>{"step-000001", "step-000002"});
}

TEST_CASE(
    "CheckpointWriter: every byte and name is synced before the folder has its name, and the name before old ones go") {
    ThreeSteps steps;
    steps.reset();
    REQUIRE(steps.run.save<SyncedCalls>(steps.out(), 3, 1));
    REQUIRE(steps.run.save<SyncedCalls>(steps.out(), 3, 1));
    CHECK(SyncedCalls::mistakes == std::vector<std::string>{});
    CHECK_FALSE(SyncedCalls::is_name_dirty);
    CHECK(list_checkpoints(steps.out()) == std::vector<std::int64_t>{3});
}
