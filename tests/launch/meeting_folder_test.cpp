// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/detail/meeting_folder.hpp>

#include "temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <sys/stat.h>

using namespace shardwise;
using shardwise::detail::MeetingFolder;

TEST_CASE("MeetingFolder: the rank that makes the folder removes it with the files of all, no other does") {
    testing::TemporaryFolder const folder;
    auto const path = folder / "meeting";
    {
        auto const first = MeetingFolder::open(path, true);
        REQUIRE(first);
        struct stat status {};
        CHECK((::stat(path.c_str(), &status) == 0 && (status.st_mode & 0777) == 0700));
        CHECK(MeetingFolder::open(path, true));
        CHECK(std::filesystem::exists(path));
        (void)folder.write("meeting/shardwise-rank-1", "2\n");
        folder.link("meeting/link", folder.path());
    }
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(std::filesystem::exists(folder.path()));
}

TEST_CASE("MeetingFolder: what others may write is refused unless the user named it; a missing parent is named") {
    testing::TemporaryFolder const folder;
    auto const path = folder / "shared";
    ::mkdir(path.c_str(), 0700);
    ::chmod(path.c_str(), 0777);
    CHECK(MeetingFolder::open(path, true).error().code() == ErrorCode::unsafe_path);
    CHECK(MeetingFolder::open(path, false));
    CHECK(std::filesystem::exists(path));
    auto const none = MeetingFolder::open(folder / "none/meeting", false);
    REQUIRE(!none);
    CHECK(none.error().code() == ErrorCode::file_unwritable);
    CHECK(none.error().message().find("No such file") != std::string::npos);
}
