// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/tree_json.hpp>

#include <doctest/doctest.h>

#include "checkpoint_files.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unistd.h>

/// Files that somebody makes shorter after they were opened and before, or while, they are read.
namespace {

using namespace shardwise;
using testing::TemporaryFolder;

constexpr auto cut_reason = "became shorter while it was read";

void cut(std::string const& path, std::uintmax_t bytes) {
    std::filesystem::resize_file(path, bytes);
}
/// What is said of a file that is cut to `bytes` between its opening and its reading.
template <class Read>
std::string said_of(std::string const& path, std::uintmax_t bytes, Read const& read) {
    auto file = RegularFile::open(path);
    REQUIRE(file);
    cut(path, bytes);
    auto const result = read(*file);
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == ErrorCode::file_unreadable);
    CHECK(result.error().subject() == path);
    return std::string(result.error().reason());
}
std::string le64(std::uint64_t value) {
    std::string out(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
    return out;
}
/// A safetensors file whose header has this many bytes; above 8 MiB it is mapped.
std::string safetensors_with_header(std::size_t bytes) {
    std::string json = R"({"__metadata__":{"x":")";
    std::string const rest = R"("},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
    json += std::string(bytes - json.size() - rest.size(), 'x') + rest;
    return le64(json.size()) + json + "ab";
}
/// An index with this many bytes or a few more.
std::string index_of(std::size_t bytes) {
    std::string text = R"({"weight_map":{"t":"s")";
    for (std::size_t i = 0; text.size() < bytes; ++i) {
        text += ",\"some.rather.long.name.of.a.module.with.many.parts.and.a.name.of.its.own.that.fills.the.file." +
                std::to_string(i) + "\":\"s\"";
    }
    return text + "}}";
}
constexpr std::size_t large = std::size_t{9} << 20U;

}  // namespace

TEST_CASE("a mapped file that is cut: the text has zeros, and the check names the file") {
    TemporaryFolder const at;
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto const path = at.write("file", std::string(4 * page, 'a'));
    auto const file = RegularFile::open(path);
    REQUIRE(file);
    auto mapped = MappedFile::map(*file, 0, file->size());
    REQUIRE(mapped);
    CHECK(mapped->check());
    SUBCASE("within a page that stays, no signal comes, and the size tells") {
        cut(path, 4 * page - 1);
        CHECK(mapped->text()[4 * page - 1] == '\0');
        CHECK(mapped->check().error().reason() == cut_reason);
    }
    SUBCASE("beyond its last page") {
        cut(path, page);
        CHECK(mapped->text()[2 * page] == '\0');
        CHECK(mapped->text()[0] == 'a');
        CHECK(mapped->check().error().reason() == cut_reason);
        CHECK(mapped->check().error().subject() == path);
    }
    SUBCASE("and grows again: what was looked at meanwhile counts") {
        cut(path, page);
        CHECK(mapped->text()[2 * page] == '\0');
        cut(path, 4 * page);
        CHECK(std::string(mapped->check().error().reason()).starts_with("changed while it was read"));
    }
    SUBCASE("a longer file is the same file, also through a mapping that has moved") {
        auto moved = std::move(*mapped);
        cut(path, 5 * page);
        CHECK(moved.check());
        CHECK(MappedFile::map(*file, 4 * page, 1)->check());
        *mapped = std::move(moved);
        cut(path, 3 * page);
        CHECK_FALSE(mapped->check());
    }
}

TEST_CASE("files that are cut between open and read are unreadable, not malformed") {
    TemporaryFolder const at;
    auto const text = [](RegularFile const& file) { return read_text_file(file, large); };
    CHECK(said_of(at.write("a", "0123456789"), 9, text) == cut_reason);
    CHECK(said_of(at.write("a", "0123456789"), 0, text) == cut_reason);

    auto const header = [](RegularFile const& file) { return read_safetensors(file); };
    for (auto const bytes : {std::size_t{1000}, large}) {
        CAPTURE(bytes);
        auto const whole = safetensors_with_header(bytes);
        for (auto const left : {std::size_t{0}, std::size_t{3}, std::size_t{8}, whole.size() / 2, whole.size() - 10})
            CHECK(said_of(at.write("a", whole), left, header) == cut_reason);
        CHECK(read_safetensors(*RegularFile::open(at.write("a", whole))));
    }
    auto const index = [](RegularFile const& file) { return read_checkpoint_index(file); };
    for (auto const bytes : {std::size_t{1000}, large}) {
        CAPTURE(bytes);
        auto const whole = index_of(bytes);
        for (auto const left : {std::size_t{0}, whole.size() / 2, whole.size() - 1})
            CHECK(said_of(at.write("a", whole), left, index) == cut_reason);
        CHECK(read_checkpoint_index(*RegularFile::open(at.write("a", whole))));
    }
}

TEST_CASE("a GGUF file that is cut after it was opened is unreadable, wherever the cut is") {
    TemporaryFolder const at;
    auto const text = [](std::string const& value) { return le64(value.size()) + value; };
    std::string const u32("\x04\0\0\0", 4);
    std::string const f32("\0\0\0\0", 4);
    auto whole = std::string("GGUF\x03\0\0\0", 8) + le64(1) + le64(2) + text("general.architecture") +
                 std::string("\x08\0\0\0", 4) + text("llama") + text("llama.block_count") + u32 +
                 std::string("\x02\0\0\0", 4) + text("t") + std::string("\x01\0\0\0", 4) + le64(4) + f32 + le64(0);
    whole.resize((whole.size() + 31) / 32 * 32 + 32);
    auto const path = at.write("m.gguf", whole);
    REQUIRE(read_gguf(*RegularFile::open(path)));
    for (std::size_t left = 0; left < whole.size() - 32; left += 7) {
        at.write("m.gguf", whole);
        auto file = RegularFile::open(path);
        cut(path, left);
        auto const header = read_gguf(*std::move(file));
        // The reader looks at a window at once: it may have all it needs.
        REQUIRE_FALSE(header);
        CHECK(header.error().code() == ErrorCode::file_unreadable);
    }
    // Metadata that cannot be read any more look absent; the check tells.
    at.write("m.gguf", whole);
    auto const header = read_gguf(*RegularFile::open(path));
    REQUIRE(header);
    CHECK(header->metadata.integer("llama.block_count") == 2);
    CHECK(header->metadata.source().check("m"));
    cut(path, 30);
    CHECK_FALSE(header->metadata.integer("llama.block_count"));
    CHECK(header->metadata.source().check("m").error().reason() == cut_reason);
}

TEST_CASE("a tree file that is cut while it is read is unreadable") {
    TemporaryFolder const at;
    auto const path = at.write("tree.json", R"({"class":"M","params":[{"name":"w","dtype":"F32","shape":[2]}]})" +
                                                std::string(20'000, ' '));
    REQUIRE(read_tree_file(path));
    auto const file = RegularFile::open(path);
    auto const mapped = MappedFile::map(*file, 0, file->size());
    cut(path, 50);
    // Zeros are no JSON.
    CHECK_FALSE(read_tree(mapped->text(), path, &*mapped));
    CHECK(mapped->check().error().reason() == cut_reason);
}
