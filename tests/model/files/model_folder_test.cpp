// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/model/files/model_folder.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <filesystem>
#include <string>
#include <string_view>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

std::string content(ModelFolder const& folder, std::string_view name) {
    auto const file = folder.file(name);
    if (!file) return std::string(name_of(file.error().code()));
    return *read_text_file(*file, 100);
}

}  // namespace

TEST_CASE("ModelFolder: gives files by their names, in folders below too") {
    TemporaryFolder const at;
    at.write("m/config.json", "one");
    at.write("m/parts/a.safetensors", "two");
    auto const folder = ModelFolder::open(at / "m");
    REQUIRE(folder);
    CHECK(content(*folder, "config.json") == "one");
    CHECK(content(*folder, "parts/a.safetensors") == "two");
    CHECK(content(*folder, "./config.json") == "one");
    CHECK(content(*folder, "absent") == "file_not_found");
    CHECK(content(*folder, "parts") == "file_unreadable");
    CHECK(folder->file("absent").error().subject() == at / "m/absent");
    CHECK(folder->file("config.json")->path() == at / "m/config.json");
    CHECK(ModelFolder::open(at / "m/config.json").error().reason() == "is not a folder");
    CHECK(ModelFolder::open(at / "nowhere").error().code() == ErrorCode::file_not_found);
}

// facts/model_files.md, row 60.
TEST_CASE("ModelFolder: names that could leave the folder are refused before anything is opened") {
    TemporaryFolder const at;
    at.write("x", "outside");
    at.write("m/a/x", "inside");
    auto const folder = ModelFolder::open(at / "m");
    REQUIRE(folder);
    for (std::string_view const name :
         {std::string_view("../x"), std::string_view("a/../../x"), std::string_view("a/.."), std::string_view(".."),
          std::string_view("/etc/passwd"), std::string_view("C:\\x"), std::string_view("c:x"), std::string_view("a\\x"),
          std::string_view("\\\\host\\x"), std::string_view(""), std::string_view("a\0b", 3)}) {
        CAPTURE(name);
        auto const file = folder->file(name);
        REQUIRE_FALSE(file);
        CHECK(file.error().code() == ErrorCode::unsafe_path);
        CHECK(file.error().place() == name);
    }
    // Two dots within a name lead nowhere.
    CHECK(content(*folder, "a..b") == "file_not_found");
    CHECK(content(*folder, "a/x") == "inside");
}

// facts/model_files.md, row 61.
TEST_CASE("ModelFolder: links must stay in the folder, which may be a link itself") {
    TemporaryFolder const at;
    at.write("outside", "secret");
    at.write("m/inside", "fine");
    at.write("models/other/x", "neighbour");
    at.write("m-neighbour/x", "begins alike");
    at.link("m/to_inside", "inside");
    at.link("m/to_outside", "../outside");
    at.link("m/absolute", at / "outside");
    at.link("m/chain", "to_outside");
    at.link("m/alike", "../m-neighbour/x");
    at.link("m/folder", "../models/other");
    at.link("m/broken", "nowhere");
    at.link("linked", "m");
    std::filesystem::create_hard_link(at / "outside", at / "m/hard");

    for (auto const* path : {"m", "linked"}) {
        CAPTURE(path);
        auto const folder = ModelFolder::open(at / path);
        REQUIRE(folder);
        CHECK(content(*folder, "inside") == "fine");
        CHECK(content(*folder, "to_inside") == "fine");
        CHECK(content(*folder, "hard") == "secret");
        for (auto const* name : {"to_outside", "absolute", "chain", "alike", "folder/x"}) {
            CAPTURE(name);
            CHECK(content(*folder, name) == "unsafe_path");
        }
        CHECK(content(*folder, "broken") == "file_not_found");
    }
}

TEST_CASE("ModelFolder: snapshots of a Hugging Face cache may link into their own repository's blobs") {
    TemporaryFolder const at;
    at.write("models--org--name/blobs/abc", "weights");
    at.write("models--org--other/blobs/def", "of others");
    at.write("models--org--name/refs/main", "1234");
    at.link("models--org--name/snapshots/1234/model.safetensors", "../../blobs/abc");
    at.link("models--org--name/snapshots/1234/part/nested", "../../../blobs/abc");
    at.link("models--org--name/snapshots/1234/stolen", "../../../models--org--other/blobs/def");
    at.link("models--org--name/snapshots/1234/ref", "../../refs/main");
    at.link("shortcut", "models--org--name/snapshots/1234");
    for (auto const* path : {"models--org--name/snapshots/1234", "shortcut"}) {
        auto const folder = ModelFolder::open(at / path);
        REQUIRE(folder);
        CHECK(content(*folder, "model.safetensors") == "weights");
        CHECK(content(*folder, "part/nested") == "weights");
        CHECK(content(*folder, "stolen") == "unsafe_path");
        CHECK(content(*folder, "ref") == "unsafe_path");
    }
    // Without that layout, a folder named blobs is a folder like any other.
    at.write("plain/blobs/abc", "weights");
    at.link("plain/snapshots/1234/model", "../../blobs/abc");
    CHECK(content(*ModelFolder::open(at / "plain/snapshots/1234"), "model") == "unsafe_path");
    at.link("models--org--name/elsewhere/1234/model", "../../blobs/abc");
    CHECK(content(*ModelFolder::open(at / "models--org--name/elsewhere/1234"), "model") == "unsafe_path");
}

// facts/model_files.md, row 62.
TEST_CASE("ModelFolder: a shard that is a pipe, a device or a folder is refused without blocking") {
    TemporaryFolder const at;
    at.write("m/x", "");
    REQUIRE(::mkfifo((at / "m/pipe").c_str(), 0600) == 0);
    std::filesystem::create_directory(at / "m/folder");
    auto const folder = ModelFolder::open(at / "m");
    REQUIRE(folder);
    CHECK(folder->file("pipe").error().reason() == "is a pipe, not a file");
    CHECK(folder->file("folder").error().reason() == "is a folder, not a file");
    auto const devices = ModelFolder::open("/dev");
    REQUIRE(devices);
    CHECK(devices->file("zero").error().reason() == "is a device, not a file");
}
