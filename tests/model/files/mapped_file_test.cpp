// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/model/files/mapped_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <cstdint>
#include <string>
#include <utility>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

TEST_CASE("MappedFile: maps any part of a file, cut to what it has") {
    TemporaryFolder const folder;
    std::string text(20'000, 'a');
    text.replace(4095, 3, "xyz");
    auto const file = RegularFile::open(folder.write("a.bin", text));
    REQUIRE(file);
    CHECK(MappedFile::map(*file, 0, file->size())->text() == text);
    CHECK(MappedFile::map(*file, 4095, 3)->text() == "xyz");
    CHECK(MappedFile::map(*file, 19'999, 100)->text() == "a");
    CHECK(MappedFile::map(*file, 20'000, 100)->text().empty());
    CHECK(MappedFile::map(*file, UINT64_MAX, UINT64_MAX)->text().empty());
    CHECK(MappedFile::map(*file, 4095, UINT64_MAX)->text().size() == 20'000 - 4095);
    auto moved = *MappedFile::map(*file, 4095, 3);
    auto const other = std::move(moved);
    CHECK(other.text() == "xyz");
}
