// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/stream.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <chrono>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

/// What a pipe gives into which this was written.
Result<std::string> through_pipe(std::string const& text, std::size_t limit, int flags = 0) {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, flags) == 0);
    std::thread writer([&] {
        // In two parts, the second one late.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        auto const half = text.size() / 2;
        (void)!::write(ends[1], text.data(), half);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        (void)!::write(ends[1], text.data() + half, text.size() - half);
        ::close(ends[1]);
    });
    auto out = detail::read_to_end(ends[0], "the pipe", limit);
    writer.join();
    ::close(ends[0]);
    return out;
}

}  // namespace

TEST_CASE("read_stream: gives what comes up to the end, whether or not the pipe waits") {
    for (int const flags : {0, O_NONBLOCK}) {
        CHECK(*through_pipe("some text", 100, flags) == "some text");
        CHECK(through_pipe("", 100, flags)->empty());
        // One byte more than the limit shows that there is more.
        CHECK(*through_pipe("some text", 9, flags) == "some text");
        CHECK(*through_pipe("some text", 4, flags) == "some ");
        CHECK(through_pipe(std::string(30'000, 'x'), 50'000, flags)->size() == 30'000);
    }
}

TEST_CASE("read_stream: reads pipes with a name, and says what cannot be read") {
    TemporaryFolder const at;
    auto const pipe = at / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(is_stream(pipe));
    std::thread writer([&] {
        int const end = ::open(pipe.c_str(), O_WRONLY);
        (void)!::write(end, "hello", 5);
        ::close(end);
    });
    CHECK(*read_stream(pipe, 100) == "hello");
    writer.join();
    // Nobody opens it; then somebody does, and writes nothing.
    StreamPatience const brief{.first = std::chrono::milliseconds(20), .next = std::chrono::milliseconds(20)};
    CHECK(read_stream(pipe, 100, brief).error().reason() == "gave nothing in time, in seconds");
    int const silent = ::open(pipe.c_str(), O_RDWR);
    CHECK(read_stream(pipe, 100, brief).error().code() == ErrorCode::file_unreadable);
    ::close(silent);
    CHECK(read_stream(at / "absent", 100).error().code() == ErrorCode::file_not_found);
    CHECK(read_stream(at.path(), 100).error().reason() == "is a folder, not a file");
    CHECK(detail::read_to_end(-1, "x", 100).error().reason() == "is closed");
}

TEST_CASE("is_stream: standard input by any of its names, pipes, and nothing else") {
    TemporaryFolder const at;
    auto const file = at.write("file", "x");
    for (auto const* const name : {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}) {
        CHECK(is_stream(name));
        CHECK(stream_name(name) == "standard input");
    }
    for (auto const& name : {file, at.path(), at / "absent", std::string("/dev/zero"), std::string("--"), std::string()})
        CHECK_FALSE(is_stream(name));
    CHECK(stream_name("/tmp/pipe") == "/tmp/pipe");
}
