// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/files/write_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

std::size_t files_in(std::string const& folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
}

/// No file may grow beyond so many bytes while this lives: the disk seems full.
class SmallDisk {
public:
    explicit SmallDisk(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        auto limit = before_;
        limit.rlim_cur = bytes;
        handler_ = std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    SmallDisk(SmallDisk const&) = delete;
    SmallDisk& operator=(SmallDisk const&) = delete;
    ~SmallDisk() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    rlimit before_{};
    void (*handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("remove_temporaries: what killed processes left goes, what others write and other files stay") {
    TemporaryFolder const folder;
    auto const prefix = detail::temporary_prefix();
    // Left by a process that is killed while it writes, by one of this number before it, and by one of a container.
    auto const child = ::fork();
    if (child == 0) {
        (void)detail::LockedFile::create(folder / (prefix + "77-0.tmp"));
        ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    CHECK(files_in(folder.path()) == 1);
    auto const own = prefix + std::to_string(::getpid());
    // The last one's host begins as this one does.
    for (auto const& name :
         {own + "-0.tmp", prefix + "1-7.tmp", prefix + "1-0.csv", prefix + "x-0.tmp", prefix + "-1-0.tmp",
          prefix + "1.tmp", std::string(".shardwise-elsewhere-1-0.tmp"), prefix + "2-4711-0.tmp"})
        folder.write(name, "x");
    auto written = detail::LockedFile::create(folder / (own + "-1.tmp"));
    REQUIRE(written.descriptor >= 0);
    remove_temporaries(folder.path());
    CHECK(files_in(folder.path()) == 7);
    CHECK(std::filesystem::exists(folder / (own + "-1.tmp")));
    CHECK_FALSE(std::filesystem::exists(folder / (prefix + "1-7.tmp")));
    written.close();
    remove_temporaries(folder.path());
    CHECK(files_in(folder.path()) == 6);
    remove_temporaries(folder / "missing");
}

TEST_CASE("write_file: makes a file and replaces one, leaving nothing else behind") {
    TemporaryFolder const folder;
    auto const path = folder / "plan.json";
    REQUIRE(write_file(path, "first, and longer"));
    CHECK(*read_text_file(path, 100) == "first, and longer");
    REQUIRE(write_file(path, "second"));
    CHECK(*read_text_file(path, 100) == "second");
    REQUIRE(write_file(path, ""));
    CHECK(read_text_file(path, 100)->empty());
    CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("write_file: a file keeps its permissions, a link stays a link") {
    TemporaryFolder const folder;
    auto const path = folder.write("target", "old");
    std::filesystem::permissions(path, std::filesystem::perms{0640});
    folder.link("link", "target");
    REQUIRE(write_file(folder / "link", "new"));
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(*read_text_file(path, 100) == "new");
    CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms{0640});
}

// facts/reliability.md, row 17.
TEST_CASE("write_file: where the disk is full the old file is as it was and nothing is left behind") {
    TemporaryFolder const folder;
    auto const path = folder.write("plan.json", "old");
    Result<> written;
    {
        SmallDisk const disk(4096);
        written = write_file(path, std::string(100'000, 'x'));
    }
    REQUIRE_FALSE(written);
    CHECK(written.error().code() == ErrorCode::file_unwritable);
    CHECK(written.error().subject() == path);
    CHECK(*read_text_file(path, 100) == "old");
    CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("write_file: what cannot be written is refused by name and reason") {
    TemporaryFolder const folder;
    auto const reason = [](std::string const& path) {
        auto const written = write_file(path, "x");
        REQUIRE_FALSE(written);
        CHECK(written.error().code() == ErrorCode::file_unwritable);
        return std::string(written.error().reason());
    };
    folder.link("nowhere", "absent");
    CHECK(reason(folder / "absent/plan.json") == "the folder does not exist");
    CHECK(reason(folder.write("file", "x") + "/plan.json") == "the folder does not exist");
    CHECK(reason("") == "the folder does not exist");
    CHECK(reason(std::string("a\0b", 3)) == "the folder does not exist");
    CHECK(reason(folder.path()) == "is a folder, not a file");
    CHECK(reason(folder / "nowhere") == "is a link that leads nowhere");
    CHECK(reason(folder / std::string(300, 'x')) == "is too long a path");
    CHECK(reason("/dev/full") == "the disk is full");
    CHECK(write_file(folder / std::string(250, 'x'), "x").has_value());
}

TEST_CASE("write_file: a terminal, a pipe or a device is written to, not replaced") {
    REQUIRE(write_file("/dev/null", "x"));
    CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("write_file: whoever reads meanwhile finds the old content or the new, never a part") {
    TemporaryFolder const folder;
    auto const path = folder / "plan.json";
    std::string const one(50'000, '1');
    std::string const two(70'000, '2');
    REQUIRE(write_file(path, one));
    std::atomic<bool> is_done{false};
    std::thread writer([&] {
        for (int i = 0; i < 50; ++i) {
            if (!write_file(path, i % 2 == 0 ? two : one)) break;
        }
        is_done = true;
    });
    bool is_whole = true;
    while (!is_done) {
        auto const text = read_text_file(path, 100'000);
        is_whole = is_whole && text && (*text == one || *text == two);
    }
    writer.join();
    CHECK(is_whole);
}
