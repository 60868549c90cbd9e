// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/end_tokens.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"

#include <filesystem>
#include <string>

/// A store of files, and folders that link into it: what the user names is followed, what a file names stays in the folder.
namespace {

using namespace shardwise;
using testing::TemporaryFolder;
using testing::tiny_llama;

constexpr auto index_name = "model.safetensors.index.json";

/// A whole model in `store/`, under names that say nothing.
struct Store {
    TemporaryFolder at;

    Store() {
        at.write("store/1", tiny_llama);
        testing::write_safetensors(at / "store/2", testing::tiny_tensors());
        at.write("store/3", R"({"eos_token_id": 7})");
    }
    /// What the error for MODEL says; "" where it is read whole.
    [[nodiscard]] std::string problem(std::string const& model) const {
        auto const checkpoint = testing::read(at / model);
        if (checkpoint) {
            CHECK(checkpoint->has_stored_sizes);
            CHECK(testing::stored_bytes(checkpoint->model.tree) == testing::total(testing::tiny_tensors()));
            return {};
        }
        return std::string(name_of(checkpoint.error().code())) + ": " + std::string(checkpoint.error().reason());
    }
    /// An index that puts every tensor into `shard`.
    void write_index(std::string const& folder, std::string const& shard) const {
        std::string map;
        for (auto const& tensor : testing::tiny_tensors())
            map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + shard + '"';
        at.write(folder + "/" + index_name, "{\"weight_map\":{" + map + "}}");
    }
};

constexpr auto leaves = "unsafe_path: is a link that leaves the model's folder";

}  // namespace

TEST_CASE("links: config.json, the weights and other files of a named folder lie where their links say") {
    Store const store;
    auto const& at = store.at;
    for (auto const* const root : {"../store", "/"}) {
        std::string const folder = *root == '/' ? "absolute" : "relative";
        auto const target = *root == '/' ? at / "store" : std::string(root);
        CAPTURE(folder);
        at.link(folder + "/config.json", target + "/1");
        at.link(folder + "/model.safetensors", target + "/2");
        at.link(folder + "/generation_config.json", target + "/3");
        CHECK(store.problem(folder).empty());
        auto const source = find_model(at / folder, {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        CHECK(*end_tokens(*source) == std::vector<std::int32_t>{7});
        // The file itself, with the config.json beside the link.
        CHECK(store.problem(folder + "/model.safetensors").empty());
    }
    // Links to links, through linked folders.
    at.link("shared", "store");
    at.link("chain/config.json", "../relative/config.json");
    at.link("chain/model.safetensors", "../shared/2");
    CHECK(store.problem("chain").empty());
    // Files of any name, and GGUF's parts, are the listing's too.
    at.link("several/config.json", "../store/1");
    at.link("several/weights.safetensors", "../store/2");
    CHECK(store.problem("several").empty());
}

TEST_CASE("links: the named folder may be a link, hard links are files") {
    Store const store;
    auto const& at = store.at;
    at.link("m/config.json", "../store/1");
    std::filesystem::create_hard_link(at / "store/2", at / "m/model.safetensors");
    at.link("linked", "m");
    at.link("far", at / "linked");
    for (auto const* const folder : {"m", "linked", "far", "linked/", "far/../m"}) {
        CAPTURE(folder);
        CHECK(store.problem(folder).empty());
    }
    // What an index names may be a hard link, and a link that stays in the folder, also where that one is a link.
    std::filesystem::create_directory(at / "i");
    at.write("i/config.json", tiny_llama);
    std::filesystem::create_hard_link(at / "store/2", at / "i/hard");
    at.link("i/inner", "hard");
    at.link("to_i", "i");
    for (auto const* const shard : {"hard", "inner"}) {
        store.write_index("i", shard);
        CHECK(store.problem("i").empty());
        CHECK(store.problem("to_i").empty());
    }
}

TEST_CASE("links: a shard that an index names and that leaves the folder is refused, in every spelling") {
    Store const store;
    auto const& at = store.at;
    at.write("m/config.json", tiny_llama);
    at.link("m/out", "../store/2");
    at.link("m/absolute", at / "store/2");
    at.link("m/folder", "../store");
    at.link("m/back", "../m2/../store/2");
    std::filesystem::create_directory(at / "m2");
    for (auto const* const shard : {"out", "absolute", "folder/2", "back"}) {
        CAPTURE(shard);
        store.write_index("m", shard);
        CHECK(store.problem("m") == leaves);
    }
    for (auto const& shard : {std::string("../store/2"), std::string("a/../../store/2"), at / "store/2"}) {
        CAPTURE(shard);
        store.write_index("m", shard);
        CHECK(store.problem("m").starts_with("unsafe_path: "));
    }
    // The index itself is the listing's: it may lie elsewhere, and its shards are the folder's still.
    std::filesystem::remove(at / ("m/" + std::string(index_name)));
    store.write_index("store", "inside");
    at.link("m/" + std::string(index_name), "../store/" + std::string(index_name));
    testing::write_safetensors(at / "m/inside", testing::tiny_tensors());
    CHECK(store.problem("m").empty());
}

TEST_CASE("links: a snapshot of a Hugging Face cache links into its own repository's blobs, with an index too") {
    Store const store;
    auto const& at = store.at;
    std::string const repository = "hub/models--org--name";
    auto const snapshot = repository + "/snapshots/abc";
    at.write(repository + "/refs/main", "abc");
    at.write(repository + "/blobs/c", tiny_llama);
    testing::write_safetensors(at / (repository + "/blobs/w"), testing::tiny_tensors());
    at.link(snapshot + "/config.json", "../../blobs/c");
    at.link(snapshot + "/shard", "../../blobs/w");
    at.link(snapshot + "/other", "../../../../store/2");
    store.write_index(repository + "/blobs", "shard");
    at.link(snapshot + "/" + index_name, "../../blobs/" + std::string(index_name));
    CHECK(store.problem(snapshot).empty());
    auto const source = find_model("org/name", {}, HubCache(at / "hub"));
    REQUIRE(source);
    CHECK(read_checkpoint(*source).has_value());
    // The same names in another repository's blobs, or in a store, are outside.
    store.write_index(repository + "/blobs", "other");
    CHECK(store.problem(snapshot) == leaves);
    at.link("hub/models--org--thief/snapshots/abc/shard", "../../../models--org--name/blobs/w");
    at.link("hub/models--org--thief/snapshots/abc/config.json", "../../../models--org--name/blobs/c");
    store.write_index("hub/models--org--thief/snapshots/abc", "shard");
    CHECK(store.problem("hub/models--org--thief/snapshots/abc") == leaves);
}

TEST_CASE("links: what leads nowhere, to itself or to no file is refused by name") {
    Store const store;
    auto const& at = store.at;
    at.link("nowhere/config.json", "absent");
    at.link("loop/config.json", "config.json");
    at.link("folder/config.json", "../store");
    CHECK(store.problem("nowhere") == "file_not_found: does not exist");
    CHECK(store.problem("loop") == "file_unreadable: is a link that leads nowhere");
    CHECK(store.problem("folder") == "file_unreadable: is a folder, not a file");
    CHECK(testing::read(at / "loop").error().subject() == at / "loop/config.json");
}
