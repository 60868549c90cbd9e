// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/range_files.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::detail::RangeFiles;
using shardwise::testing::TemporaryFolder;

namespace {

/// A file system around whose page cache one may write, or not: its direct descriptors take whole blocks alone.
struct DirectCalls : FileCalls {
    static constexpr std::int64_t min_direct = 8192;

    inline static std::set<int> direct;
    /// Why no direct descriptor is opened; 0: it is.
    inline static int open_code = 0;
    /// The direct writes before one that gives this code, or half of what was asked for where there is none.
    inline static int good_writes = 1 << 20;
    inline static int code = 0;
    inline static std::int64_t bytes_around = 0;
    inline static int mistakes = 0;

    static void reset() {
        direct.clear();
        good_writes = 1 << 20;
        bytes_around = open_code = code = mistakes = 0;
    }
    static int open(char const* path, int flags) {
        bool const is_direct = (flags & O_DIRECT) != 0;
        if (is_direct && open_code != 0) return errno = open_code, -1;
        auto const descriptor = FileCalls::open(path, flags & ~O_DIRECT);
        if (is_direct) direct.insert(descriptor);
        return descriptor;
    }
    static std::int64_t write(int descriptor, char const* data, std::size_t count, std::int64_t offset) {
        if (direct.count(descriptor) == 0) return FileCalls::write(descriptor, data, count, offset);
        bool const is_whole =
            count % 4096 == 0 && offset % 4096 == 0 && reinterpret_cast<std::uintptr_t>(data) % 4096 == 0;
        mistakes += is_whole ? 0 : 1;
        if (good_writes-- == 0) {
            if (code != 0) return errno = code, -1;
            count = count / 2 + 100;
        }
        bytes_around += static_cast<std::int64_t>(count);
        return FileCalls::write(descriptor, data, count, offset);
    }
    static int close(int descriptor) {
        direct.erase(descriptor);
        return FileCalls::close(descriptor);
    }
};

constexpr std::int64_t file_bytes = 3'500'001;
std::string some_text() {
    std::string out(file_bytes, '\0');
    std::uint32_t state = 1;
    for (auto& one : out) one = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
    return out;
}
std::string read(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes a file by two that take its ranges one after another, each range in some pieces; the first error.
template <class Calls>
Result<> write_by_two(std::string const& path, std::string const& text,
                      std::size_t memory = static_cast<std::size_t>(RangeFiles<Calls>::memory_bytes(file_bytes))) {
    std::ofstream(path, std::ios::binary) << std::string(text.size(), '#');
    std::vector<std::byte> first(memory), second(memory + 1);
    // Memory that begins anywhere.
    RangeFiles<Calls> files[2]{RangeFiles<Calls>({first.data(), memory}),
                               RangeFiles<Calls>({second.data() + 1, memory})};
    for (auto& one : files) {
        if (auto const opened = one.open(path, "it"); !opened) return opened;
    }
    // Longer than what is written at a time, shorter than a block, within one, from one on.
    std::vector<std::size_t> const ends{100,       8000,      8192,      8200,      40'000,    40'960,
                                        1'500'000, 1'500'003, 1'600'000, 2'949'120, 3'000'000, text.size()};
    Result<> done;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends.size() && done; ++i) {
        constexpr std::size_t piece = 50'000;
        for (; begin < ends[i] && done; begin += std::min(piece, ends[i] - begin))
            done = files[i % 2].write(0, std::string_view(text).substr(begin, std::min(piece, ends[i] - begin)),
                                      static_cast<std::int64_t>(begin));
    }
    for (auto& one : files) {
        auto const finished = one.finish();
        if (done) done = finished;
    }
    return done;
}

}  // namespace

TEST_CASE("RangeFiles: whole blocks of long ranges go around the page cache, and all bytes are where they belong") {
    TemporaryFolder const folder;
    auto const text = some_text();
    DirectCalls::reset();
    REQUIRE(write_by_two<DirectCalls>(folder / "it", text));
    CHECK(read(folder / "it") == text);
    CHECK(DirectCalls::mistakes == 0);
    CHECK(DirectCalls::direct.empty());
    // All but the ends of ranges.
    CHECK(DirectCalls::bytes_around > file_bytes - 120'000);
    CHECK(DirectCalls::bytes_around < file_bytes);
}

TEST_CASE("RangeFiles: the machine's own file system has the same bytes, with memory and without") {
    TemporaryFolder const folder;
    auto const text = some_text();
    for (auto const memory : {RangeFiles<FileCalls>::memory_bytes(file_bytes), std::int64_t{0}, std::int64_t{4096}}) {
        REQUIRE(write_by_two<FileCalls>(folder / "it", text, static_cast<std::size_t>(memory)));
        CHECK(read(folder / "it") == text);
    }
    // Little is not worth the memory.
    CHECK(RangeFiles<FileCalls>::memory_bytes(1'000'000) == 0);
    CHECK(RangeFiles<FileCalls>::memory_bytes(1 << 20) == (1 << 20) + 4096);
}

TEST_CASE("RangeFiles: a file system that refuses writes around its page cache is written through it") {
    TemporaryFolder const folder;
    auto const text = some_text();
    // Or that it does not open a second time.
    for (int const code : {EINVAL, EOPNOTSUPP, EMFILE}) {
        CAPTURE(code);
        DirectCalls::reset();
        DirectCalls::open_code = code;
        REQUIRE(write_by_two<DirectCalls>(folder / "it", text));
        CHECK(read(folder / "it") == text);
        CHECK(DirectCalls::bytes_around == 0);
    }
    for (int good = 0; good < 4; ++good) {
        CAPTURE(good);
        for (int const code : {EINVAL, EOPNOTSUPP, 0}) {
            DirectCalls::reset();
            DirectCalls::good_writes = good;
            DirectCalls::code = code;
            REQUIRE(write_by_two<DirectCalls>(folder / "it", text));
            CHECK(read(folder / "it") == text);
            CHECK(DirectCalls::good_writes < 0);
            CHECK(DirectCalls::mistakes == 0);
        }
        // Any other refusal is one of the disk.
        for (int const code : {ENOSPC, EIO}) {
            DirectCalls::reset();
            DirectCalls::good_writes = good;
            DirectCalls::code = code;
            auto const done = write_by_two<DirectCalls>(folder / "it", text);
            REQUIRE_FALSE(done);
            CHECK(done.error().code() == ErrorCode::file_unwritable);
            CHECK(done.error().message().substr(0, 4) == "it: ");
            CHECK(DirectCalls::direct.empty());
        }
    }
}
