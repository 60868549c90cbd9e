// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/sha256.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("sha256_of_files: of shards the hash is that of their bytes one after the other, of one file its own") {
    TemporaryFolder const folder;
    // Longer than what is read at once.
    std::string const first(3'000'001, 'a');
    std::string const second = "b";
    std::vector<std::string> const paths{folder.write("1", first), folder.write("2", second)};
    CHECK(*sha256_of_files(paths) == sha256_hex(first + second));
    CHECK(*sha256_of_file(paths[0]) == sha256_hex(first));
    CHECK(*sha256_of_files({}) == sha256_hex(""));
    std::vector<std::string> const absent{paths[0], folder.path() + "/3"};
    CHECK(sha256_of_files(absent).error().code() == ErrorCode::file_not_found);
}
