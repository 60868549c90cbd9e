// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint_tensors.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <doctest/doctest.h>

#include "checkpoint_files.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace {

using namespace shardwise;
using testing::TemporaryFolder;

auto parse(std::string_view json) {
    return parse_checkpoint_index(json, "index.json");
}

ModelSource indexed(TemporaryFolder const& folder) {
    ModelSource source;
    source.kind = SourceKind::safetensors;
    source.folder = folder.path();
    source.index = "model.safetensors.index.json";
    return source;
}
Result<SafetensorsCheckpoint> read(TemporaryFolder const& folder, std::vector<std::string>* warnings = nullptr) {
    std::vector<std::string> ignored;
    return read_safetensors_checkpoint(indexed(folder), warnings == nullptr ? ignored : *warnings);
}
void write_index(TemporaryFolder const& folder, std::string_view map, std::string_view total = "6") {
    folder.write("model.safetensors.index.json", "{\"metadata\":{\"total_size\":" + std::string(total) +
                                                     "},\"weight_map\":{" + std::string(map) + "}}");
}
/// Two shards with a, b and c.
void write_shards(TemporaryFolder const& folder) {
    testing::write_safetensors(folder.path("1.safetensors"), {{"a", "U8", {1}, 1}, {"b", "U8", {2}, 2}});
    testing::write_safetensors(folder.path("2.safetensors"), {{"c", "U8", {3}, 3}});
}
constexpr auto right_map = R"("a":"1.safetensors","b":"1.safetensors","c":"2.safetensors")";

}  // namespace

TEST_CASE("an index gives each tensor's shard and the size that it states") {
    auto const index = parse(
        R"({"metadata":{"total_size":16.0,"x":[{"y":null}]},"weight_map":{"a":"1","b":"2","c":"1"},"z":{"a":1}})");
    REQUIRE(index.has_value());
    CHECK(index->tensors.size() == 3);
    CHECK(index->shards.size() == 2);
    CHECK(index->shard_of == std::vector<std::uint32_t>{0, 1, 0});
    CHECK(index->total_size == 16);
}

TEST_CASE("an index that is none is refused with its field") {
    for (auto const* text :
         {"", "[]", "3", "{", "{} {}", R"({"weight_map":[]})", R"({"weight_map":null})", R"({"weight_map":"x"})",
          R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":{"b":"c"}}})", R"({"weight_map":{"a":["b"]}})",
          R"({"weight_map":{"a":"1","a":"2"}})", R"({"weight_map":{},"weight_map":{}})"}) {
        CAPTURE(text);
        auto const index = parse(text);
        REQUIRE_FALSE(index.has_value());
        CHECK(index.error().code() == ErrorCode::malformed_file);
        CHECK(index.error().subject() == "index.json");
    }
    CHECK(parse(R"({"metadata":{}})").error().code() == ErrorCode::missing_field);
    CHECK(parse(R"({"weight_map":{"a":"1","a":"2"}})").error().place() == "a");
}

TEST_CASE("row 60: shards outside the folder are refused") {
    for (auto const* shard : {"../x", "a/../../b", "/etc/passwd", "C:\\\\x", "C:x", "..", "a\\\\b", "", "a\\u0000b"}) {
        CAPTURE(shard);
        auto const index = parse(R"({"weight_map":{"t":")" + std::string(shard) + "\"}}");
        REQUIRE_FALSE(index.has_value());
        CHECK(index.error().code() == ErrorCode::unsafe_path);
    }
}

TEST_CASE("row 61: a shard that is a link out of the folder is refused, hard links are files") {
    TemporaryFolder const outside;
    write_shards(outside);
    TemporaryFolder const folder;
    write_index(folder, right_map);
    std::filesystem::create_hard_link(outside.path("1.safetensors"), folder.path("1.safetensors"));
    std::filesystem::create_symlink(outside.path("2.safetensors"), folder.path("2.safetensors"));
    auto const refused = read(folder);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::unsafe_path);
    std::filesystem::remove(folder.path("2.safetensors"));
    std::filesystem::create_hard_link(outside.path("2.safetensors"), folder.path("2.safetensors"));
    CHECK(read(folder).has_value());
}

TEST_CASE("row 62: a shard that is a pipe or a folder is refused without waiting") {
    TemporaryFolder const folder;
    write_shards(folder);
    write_index(folder, right_map);
    std::filesystem::remove(folder.path("2.safetensors"));
    REQUIRE(::mkfifo(folder.path("2.safetensors").c_str(), 0600) == 0);
    CHECK(read(folder).error().code() == ErrorCode::file_unreadable);
    std::filesystem::remove(folder.path("2.safetensors"));
    std::filesystem::create_directory(folder.path("2.safetensors"));
    CHECK(read(folder).error().code() == ErrorCode::file_unreadable);
}

TEST_CASE("row 63: a tensor that its shard lacks is refused") {
    TemporaryFolder const folder;
    write_shards(folder);
    write_index(folder, std::string(right_map) + R"(,"d":"2.safetensors")");
    auto const refused = read(folder);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::malformed_file);
    CHECK(refused.error().place() == "d");
    CHECK(refused.error().message().find("2.safetensors") != std::string::npos);
}

TEST_CASE("row 64: a tensor in two shards is refused") {
    TemporaryFolder const folder;
    write_shards(folder);
    write_index(folder, right_map);
    testing::write_safetensors(folder.path("2.safetensors"), {{"c", "U8", {3}, 3}, {"b", "U8", {2}, 2}});
    CHECK(read(folder).error().place() == "b");
    write_shards(folder);
    write_index(folder, R"("a":"1.safetensors","b":"2.safetensors","c":"2.safetensors")");
    CHECK(read(folder).error().place() == "b");
}

TEST_CASE("row 65: a total_size that lies is a warning, and the shards count") {
    TemporaryFolder const folder;
    write_shards(folder);
    std::vector<std::string> warnings;
    write_index(folder, right_map, "7");
    REQUIRE(read(folder, &warnings).has_value());
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("7 bytes") != std::string::npos);
    CHECK(warnings[0].find("6;") != std::string::npos);
    warnings.clear();
    write_index(folder, right_map);
    REQUIRE(read(folder, &warnings).has_value());
    CHECK(warnings.empty());
}

TEST_CASE("shards may all be absent, but not some of them") {
    TemporaryFolder const folder;
    write_shards(folder);
    write_index(folder, right_map);
    std::filesystem::remove(folder.path("1.safetensors"));
    auto const partly = read(folder);
    REQUIRE_FALSE(partly.has_value());
    CHECK(partly.error().code() == ErrorCode::file_not_found);
    CHECK(partly.error().message().find("1.safetensors") != std::string::npos);
    std::filesystem::remove(folder.path("2.safetensors"));
    auto const names = read(folder);
    REQUIRE(names.has_value());
    CHECK(names->shards.empty());
    REQUIRE(names->size() == 3);
    CHECK((*names)[1].name == "b");
    CHECK_FALSE((*names)[1].shape.has_value());
}

namespace {

/// A part of a split GGUF with one tensor of 32 bytes.
std::string gguf_part(std::uint16_t number, std::uint16_t count, std::string_view tensor) {
    std::string text = "GGUF";
    auto const put = [&text](auto value) {
        char raw[sizeof value];
        std::memcpy(raw, &value, sizeof value);
        text.append(raw, sizeof value);
    };
    auto const name = [&](std::string_view value) { put(std::uint64_t{value.size()}), text += value; };
    put(std::uint32_t{3}), put(std::uint64_t{1}), put(std::uint64_t{2});
    name("split.no"), put(std::uint32_t{2}), put(number);
    name("split.count"), put(std::uint32_t{2}), put(count);
    name(tensor), put(std::uint32_t{1}), put(std::uint64_t{8}), put(std::uint32_t{0}), put(std::uint64_t{0});
    text.resize((text.size() + 31) / 32 * 32 + 32);
    return text;
}
OpenCheckpoint gguf_file(TemporaryFolder const& folder, std::string name) {
    ModelSource source;
    source.kind = SourceKind::gguf;
    source.folder = folder.path();
    source.weights = {std::move(name)};
    return OpenCheckpoint(std::move(source));
}

}  // namespace

TEST_CASE("any part of a split GGUF stands for all") {
    TemporaryFolder const folder;
    folder.write("m-00001-of-00002.gguf", gguf_part(0, 2, "a"));
    folder.write("m-00002-of-00002.gguf", gguf_part(1, 2, "b"));
    for (auto const* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
        auto files = gguf_file(folder, name);
        auto const checkpoint = files.gguf();
        REQUIRE(checkpoint.has_value());
        auto const& header = (*checkpoint)->header;
        REQUIRE(header.tensors.size() == 2);
        CHECK(header.tensors[0].name == "a");
        CHECK(header.tensors[1].name == "b");
        CHECK(header.metadata.integer("split.no") == 0);
    }
    // The named file's own header is there without the others, and stays what it is when they are read.
    auto second = gguf_file(folder, "m-00002-of-00002.gguf");
    auto const own = second.named_gguf();
    REQUIRE(own.has_value());
    REQUIRE(second.gguf().has_value());
    CHECK((*own)->first_tensors().size() == 1);
    CHECK((*own)->header.metadata.integer("split.no") == 1);
    auto first = gguf_file(folder, "m-00001-of-00002.gguf");
    REQUIRE(first.gguf().has_value());
    REQUIRE(first.named_gguf().value()->first_tensors().size() == 1);
    CHECK(first.named_gguf().value()->first_tensors()[0].name == "a");
    folder.write("m-00002-of-00002.gguf", gguf_part(1, 2, "a"));
    CHECK(gguf_file(folder, "m-00001-of-00002.gguf").gguf().error().place() == "a");
    std::filesystem::remove(folder.path("m-00002-of-00002.gguf"));
    auto cut = gguf_file(folder, "m-00001-of-00002.gguf");
    CHECK(cut.gguf().error().code() == ErrorCode::file_not_found);
    CHECK(cut.named_gguf().value()->size() == 1);
    folder.write("m-00002-of-00002.gguf", gguf_part(1, 2, "b"));
    CHECK(cut.gguf().value()->size() == 2);
    folder.write("m.gguf", gguf_part(0, 2, "a"));
    CHECK(gguf_file(folder, "m.gguf").gguf().error().place() == "split.count");
}
