// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/guarded_memory.hpp>
#include <shardwise/core/files/regular_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

std::size_t page() {
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Eight pages of a file of 'a's, mapped and, where asked for, guarded.
struct Mapping {
    TemporaryFolder folder;
    std::string path = folder.write("file", std::string(8 * page(), 'a'));
    char const* text = nullptr;
    std::optional<GuardedMemory> guard;

    explicit Mapping(bool is_guarded = true) {
        auto const file = RegularFile::open(path);
        REQUIRE(file);
        auto* const base = ::mmap(nullptr, 8 * page(), PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
        REQUIRE(base != MAP_FAILED);
        text = static_cast<char const*>(base);
        if (is_guarded) guard.emplace(base, 8 * page());
    }
    ~Mapping() {
        guard.reset();
        (void)::munmap(const_cast<char*>(text), 8 * page());
    }
    Mapping(Mapping const&) = delete;
    Mapping& operator=(Mapping const&) = delete;

    void cut(std::size_t bytes) const { std::filesystem::resize_file(path, bytes); }
    [[nodiscard]] char at(std::size_t i) const { return *static_cast<char const volatile*>(text + i); }
};

/// How a process of its own ends that does this: its exit status, or the signal's number less than zero.
template <class Work>
int status_of(Work const& work) {
    auto const child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct sigaction handler_now() {
    struct sigaction now {};
    (void)::sigaction(SIGBUS, nullptr, &now);
    return now;
}

void leave(int) {
    ::_exit(7);
}
void leave_by_address(int, siginfo_t* info, void*) {
    ::_exit(info->si_addr != nullptr ? 8 : 9);
}

}  // namespace

TEST_CASE("GuardedMemory: what a file has lost reads as zeros and is told, what it still has is as it was") {
    Mapping const mapping;
    CHECK(mapping.at(7 * page()) == 'a');
    CHECK_FALSE(mapping.guard->was_absent());
    mapping.cut(2 * page() + 10);
    CHECK(mapping.at(2 * page() + 9) == 'a');
    CHECK_FALSE(mapping.guard->was_absent());
    CHECK(mapping.at(5 * page() + 3) == '\0');
    CHECK(mapping.guard->was_absent());
    CHECK(mapping.at(4 * page()) == '\0');
    CHECK(mapping.at(8 * page() - 1) == '\0');
    CHECK(mapping.at(0) == 'a');
    // Another mapping of the file knows of itself only.
    Mapping const other;
    CHECK_FALSE(other.guard->was_absent());
}

TEST_CASE("GuardedMemory: many threads may meet the end of many files at a time") {
    std::vector<Mapping> mappings(20);
    for (auto const& mapping : mappings) mapping.cut(page());
    std::vector<std::thread> threads;
    std::vector<std::size_t> zeros(8);
    for (std::size_t t = 0; t < zeros.size(); ++t) {
        threads.emplace_back([&, t] {
            for (auto const& mapping : mappings) {
                for (std::size_t i = 0; i < 8; ++i) zeros[t] += mapping.at((7 - i) * page()) == '\0' ? 1U : 0U;
                // Guards come and go meanwhile.
                char const mine[1] = {'m'};
                GuardedMemory const guard(mine, 1);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(zeros == std::vector<std::size_t>(8, 20 * 7));
    for (auto const& mapping : mappings) CHECK(mapping.guard->was_absent());
}

TEST_CASE("GuardedMemory: the handler is there as long as a guard is, and the one before it comes back") {
    auto const before = handler_now();
    auto const is_before = [&] {
        auto const now = handler_now();
        return now.sa_handler == before.sa_handler && now.sa_flags == before.sa_flags;
    };
    {
        Mapping const first;
        CHECK_FALSE(is_before());
        {
            Mapping second;
            auto moved = std::move(*second.guard);
            second.guard.reset();
            CHECK_FALSE(is_before());
        }
        CHECK_FALSE(is_before());
    }
    CHECK(is_before());
}

TEST_CASE("GuardedMemory: faults elsewhere, and signals that processes send, go to whoever handled them before") {
    auto const fault = [] {
        Mapping const guarded;
        Mapping const plain(false);
        plain.cut(0);
        (void)plain.at(0);
    };
    CHECK(status_of(fault) != 0);
    auto const set = [](auto handler) {
        struct sigaction action {};
        if constexpr (std::is_same_v<decltype(handler), void (*)(int)>) {
            action.sa_handler = handler;
        } else {
            action.sa_sigaction = handler;
            action.sa_flags = SA_SIGINFO;
        }
        (void)::sigaction(SIGBUS, &action, nullptr);
    };
    CHECK(status_of([&] { set(&leave), fault(); }) == 7);
    CHECK(status_of([&] { set(&leave_by_address), fault(); }) == 8);
    CHECK(status_of([&] {
              set(&leave);
              Mapping const guarded;
              (void)::raise(SIGBUS);
          }) == 7);
    // A guard beside it does not make a difference.
    CHECK(status_of([&] {
              set(&leave);
              Mapping const guarded;
              guarded.cut(0);
              if (guarded.at(page()) != '\0' || !guarded.guard->was_absent()) ::_exit(1);
          }) == 0);
}

TEST_CASE("GuardedMemory: a handler that was set over ours and calls it keeps working") {
    CHECK(status_of([] {
              static struct sigaction ours {};
              {
                  Mapping const guarded;
                  struct sigaction theirs {};
                  theirs.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
                      ours.sa_sigaction(signal, info, context);
                  };
                  theirs.sa_flags = SA_SIGINFO;
                  (void)::sigaction(SIGBUS, &theirs, &ours);
              }
              // Their handler still reaches ours, which knows new guards too.
              Mapping const later;
              later.cut(0);
              if (later.at(0) != '\0' || !later.guard->was_absent()) ::_exit(1);
          }) == 0);
}
