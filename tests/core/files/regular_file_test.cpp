// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/files/text_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <chrono>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

TEST_CASE("RegularFile: reads any part of a file, fewer bytes only at its end") {
    TemporaryFolder const folder;
    auto const file = RegularFile::open(folder.write("a.txt", "0123456789"));
    REQUIRE(file);
    CHECK(file->size() == 10);
    std::string out(4, '?');
    CHECK(*file->read(3, out.data(), 4) == 4);
    CHECK(out == "3456");
    CHECK(*file->read(8, out.data(), 4) == 2);
    CHECK(out == "8956");
    CHECK(*file->read(100, out.data(), 4) == 0);
}

TEST_CASE("RegularFile: errors show the name that the user knows") {
    TemporaryFolder const folder;
    auto const shown = RegularFile::open(folder.write("blob", "x"), "models/config.json");
    REQUIRE(shown);
    CHECK(shown->path() == "models/config.json");
    CHECK(RegularFile::open(folder / "absent", "shown").error().message() == "shown: does not exist");
}

// facts/model_files.md, row 62.
TEST_CASE("RegularFile: pipes, devices, sockets and folders are refused without blocking") {
    TemporaryFolder const folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    int const socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto const socket_path = folder / "s";
    REQUIRE(socket_path.size() < sizeof address.sun_path);
    socket_path.copy(address.sun_path, socket_path.size());
    REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);

    auto const start = std::chrono::steady_clock::now();
    auto const refused = [](std::string const& path) {
        auto const file = RegularFile::open(path);
        REQUIRE_FALSE(file);
        CHECK(file.error().code() == ErrorCode::file_unreadable);
        return std::string(file.error().reason());
    };
    CHECK(refused(folder / "pipe") == "is a pipe, not a file");
    CHECK(refused("/dev/zero") == "is a device, not a file");
    CHECK(refused("/dev/tty") == "is a device, not a file");
    CHECK(refused(socket_path) == "is a socket, not a file");
    CHECK(refused(folder.path()) == "is a folder, not a file");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));  // ten times the limit
    ::close(socket);
}

TEST_CASE("RegularFile: what is not there, or no path at all, is refused by name") {
    TemporaryFolder const folder;
    folder.link("loop", "loop");
    CHECK(RegularFile::open(folder / "absent").error().code() == ErrorCode::file_not_found);
    CHECK(RegularFile::open(folder.write("f", "") + "/below").error().code() == ErrorCode::file_not_found);
    CHECK(RegularFile::open("").error().code() == ErrorCode::file_not_found);
    CHECK(RegularFile::open(folder / "loop").error().reason() == "is a link that leads nowhere");
    CHECK(RegularFile::open(std::string(5000, 'x')).error().reason() == "is too long a path");
    CHECK(RegularFile::open(std::string("/etc/passwd\0x", 13)).error().code() == ErrorCode::file_not_found);
}

TEST_CASE("read_text_file: gives all of a file up to its limit") {
    TemporaryFolder const folder;
    auto const path = folder.write("a.txt", "12345");
    CHECK(*read_text_file(path, 5) == "12345");
    auto const refused = read_text_file(path, 4);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::capacity_exceeded);
    CHECK(refused.error().message().find("(got 5, expected at most 4)") != std::string::npos);
    CHECK(read_text_file(folder.write("empty", ""), 4)->empty());
}
