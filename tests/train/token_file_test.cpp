// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/token_dataset.hpp>
#include <shardwise/train/token_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <filesystem>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::string ids_text(std::vector<std::uint32_t> const& ids, std::size_t width) {
    std::string out;
    for (auto const id : ids) {
        for (std::size_t i = 0; i < width; ++i) out += static_cast<char>((id >> (8 * i)) & 0xFFU);
    }
    return out;
}

}  // namespace

TEST_CASE("TokenFile: little-endian ids of two and four bytes, without a header") {
    TemporaryFolder const folder;
    auto const narrow = TokenFile::open(folder.write("a.u16", ids_text({1, 258, 65535, 4}, 2)));
    auto const wide = TokenFile::open(folder.write("a.u32", ids_text({70'000, 3}, 4)));
    REQUIRE(narrow);
    REQUIRE(wide);
    CHECK(narrow->tokens() == 4);
    CHECK(wide->tokens() == 2);
    std::vector<std::int32_t> ids(3);
    std::vector<std::uint8_t> counts(3);
    REQUIRE(narrow->read(1, 65'536, ids, counts));
    CHECK(ids == std::vector<std::int32_t>{258, 65535, 4});
    CHECK(counts == std::vector<std::uint8_t>{1, 1, 1});
    ids.resize(2);
    REQUIRE(wide->read(0, 70'001, ids));
    CHECK(ids == std::vector<std::int32_t>{70'000, 3});
    CHECK_FALSE(wide->read(1, 70'001, ids));
    CHECK_FALSE(wide->read(-1, 70'001, ids));
    CHECK_FALSE(wide->read(INT64_MAX, 70'001, ids));
}

TEST_CASE("TokenFile: what is no token file is refused by file, what is no token by its byte") {
    TemporaryFolder const folder;
    auto const path = folder.write("a.u16", ids_text({1, 2, 1024, 4}, 2));
    auto const file = TokenFile::open(path);
    REQUIRE(file);
    std::vector<std::int32_t> ids(4);
    CHECK(file->read(0, 1024, ids).error().message() ==
          path +
              ": byte 4: has an id that the vocabulary does not have (got 1024, expected at most 1023); make the file "
              "with the "
              "model's tokenizer, and give its ids the bytes that its name says");
    auto const large = folder.write("b.u32", ids_text({1, 0xFFFF'FFFF}, 4));
    ids.resize(2);
    CHECK(TokenFile::open(large)->read(0, INT64_MAX, ids).error().code() == ErrorCode::malformed_file);
    CHECK(TokenFile::open(folder.write("odd.u16", "abc")).error().message() ==
          folder / "odd.u16" + ": its size in bytes: is not that of whole ids (got 3, expected a multiple of 2)");
    CHECK(TokenFile::open(folder.write("a.bin", "ab")).error().code() == ErrorCode::unknown_name);
    CHECK(TokenFile::open(folder / "none.u16").error().code() == ErrorCode::file_not_found);
    // A file that somebody cuts while it is mapped reads as zeros: that is no data.
    std::filesystem::resize_file(path, 2);
    ids.resize(4);
    CHECK(file->read(0, 65'536, ids).error().code() == ErrorCode::file_unreadable);
}

TEST_CASE("TokenDataset: files one after another, across their ends") {
    TemporaryFolder const folder;
    std::vector<TokenFile> files;
    std::vector<std::int32_t> all;
    for (std::uint32_t i = 0; i < 4; ++i) {
        std::vector<std::uint32_t> ids;
        for (std::uint32_t k = 0; k < 3 * i; ++k) {
            ids.push_back(100 * i + k);
            all.push_back(static_cast<std::int32_t>(ids.back()));
        }
        auto const name = std::to_string(i) + (i % 2 == 0 ? ".u16" : ".u32");
        files.push_back(std::move(*TokenFile::open(folder.write(name, ids_text(ids, i % 2 == 0 ? 2 : 4)))));
    }
    auto const dataset = TokenDataset::create(std::move(files), 400);
    REQUIRE(dataset);
    REQUIRE(dataset->tokens() == 18);
    std::vector<std::int32_t> three(3);
    std::vector<std::uint8_t> two(2);
    CHECK(dataset->read(0, three, two).error().code() == ErrorCode::shape_mismatch);
    for (std::int64_t first = 0; first <= 18; ++first) {
        for (std::int64_t count = 0; first + count <= 18; ++count) {
            std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
            REQUIRE(dataset->read(first, ids));
            CHECK(std::equal(ids.begin(), ids.end(), all.begin() + first));
        }
    }
    std::vector<std::int32_t> ids(2);
    CHECK_FALSE(dataset->read(17, ids));
    CHECK(dataset->check());
    CHECK(dataset->split(0.25)->first == UnitRange{0, 14});
    CHECK(dataset->split(0.25)->second == UnitRange{14, 18});
    CHECK_FALSE(dataset->split(1.0));
    CHECK_FALSE(dataset->split(0.0));
}

TEST_CASE("TokenDataset: check looks at every token, and nothing is no dataset") {
    TemporaryFolder const folder;
    std::vector<std::uint32_t> ids(70'000, 7);
    ids[69'999] = 8;
    std::vector<TokenFile> files;
    files.push_back(std::move(*TokenFile::open(folder.write("a.u16", ids_text(ids, 2)))));
    auto const dataset = TokenDataset::create(std::move(files), 8);
    CHECK(dataset->check().error().place() == "byte 139998");
    CHECK_FALSE(TokenDataset::create({}, 8));
    std::vector<TokenFile> empty;
    empty.push_back(std::move(*TokenFile::open(folder.write("e.u16", ""))));
    CHECK(TokenDataset::create(std::move(empty), 8).error().message() == folder / "e.u16" + ": there are no tokens");
}
