// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint_tensors.hpp>

#include <doctest/doctest.h>

#include "base64.hpp"
#include "temporary_folder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What safetensors says of its own tests' files and of ours (scripts/golden/safetensors_cases.py), and what we say.
namespace {

using namespace shardwise;
using testing::TemporaryFolder;

/// Where we decide otherwise than safetensors 0.8.0, and why (docs/reference/loading.md).
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> decisions{{
    // Refused here: readers differ in which of two entries counts, and a tensor's name means its data.
    {"tensor twice, the same", "two tensors have this name"},
    {"tensor twice, the last fits", "its data reach past the end of the file"},
    {"tensor twice, of another dtype", "two tensors have this name"},
    {"tensor twice by an escape", "two tensors have this name"},
    // An accident of how the Rust reader is derived; the format has objects.
    {"tensor as a list", "is a list where an object with dtype, shape and data_offsets is wanted"},
    {"nine dimensions", "has more than 8 dimensions"},
}};
/// Accepted here: -0 is 0.
constexpr std::string_view accepted_here = "shape minus zero";

}  // namespace

TEST_CASE("safetensors' own cases: what it accepts has the same tensors here, what it refuses is refused") {
    TemporaryFolder const at;
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/safetensors_cases.jsonl");
    std::string line;
    REQUIRE(std::getline(file, line));  // where they are from
    std::size_t accepted = 0, refused = 0;
    while (std::getline(file, line)) {
        auto const row = parse_json(line);
        REQUIRE(row);
        auto const name = std::string(*row->root().find("name")->string());
        CAPTURE(name);
        auto const path = at.write("model.safetensors", testing::from_base64(*row->root().find("file")->string()));
        auto const header = read_safetensors(*RegularFile::open(path));
        auto const decision =
            std::find_if(decisions.begin(), decisions.end(), [&](auto const& one) { return one.first == name; });
        if (decision != decisions.end()) {
            CHECK(*row->root().find("accepted")->boolean());
            REQUIRE_FALSE(header);
            CHECK(header.error().reason() == decision->second);
            continue;
        }
        if (name == accepted_here) {
            CHECK_FALSE(*row->root().find("accepted")->boolean());
            CHECK(header);
            continue;
        }
        if (!*row->root().find("accepted")->boolean()) {
            ++refused;
            REQUIRE_FALSE(header);
            CHECK(header.error().subject() == path);
            CHECK_FALSE(header.error().reason().empty());
            continue;
        }
        ++accepted;
        REQUIRE_MESSAGE(header, (header ? "" : header.error().message()));
        auto const tensors = row->root().find("tensors");
        CHECK(header->size() == tensors->size());
        for (auto const tensor : *tensors) {
            auto const number = header->names().find(tensor.key());
            REQUIRE(number);
            for (std::size_t i = 0; i < header->size(); ++i) {
                auto const ours = (*header)[i];
                if (ours.name != tensor.key()) continue;
                auto field = tensor.begin();
                CHECK(traits(ours.dtype).safetensors_name == *(*field).string());
                ++field;
                std::vector<std::int64_t> shape;
                for (auto const extent : *field) shape.push_back(*extent.integer());
                CHECK(std::vector<std::int64_t>(ours.shape.begin(), ours.shape.end()) == shape);
            }
        }
        // A further member is told, nothing else is.
        bool const has_member = name.find("member") != std::string::npos;
        CHECK(header->note() == (has_member ? "a has a member that safetensors does not know" : ""));
    }
    CHECK(accepted + refused + decisions.size() + 1 == 95);
    CHECK(accepted > 45);
    CHECK(refused > 35);
}

TEST_CASE("a checkpoint's warnings name the file with a member that means nothing") {
    TemporaryFolder const at;
    std::string const header =
        R"({"a\u001b":{"dtype":"U8","shape":[2],"note":{"x":[1,"y"]},"data_offsets":[0,2]}})" + std::string("    ");
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    at.write("model.safetensors", length + header + "ab");
    ModelSource source;
    source.kind = SourceKind::safetensors;
    source.folder = at.path();
    source.weights = {"model.safetensors"};
    std::vector<std::string> warnings;
    REQUIRE(read_safetensors_checkpoint(source, warnings));
    auto const wanted = at / "model.safetensors: a\\x1b has a member that safetensors does not know";
    CHECK(warnings == std::vector<std::string>{wanted});
    // As a shard of an index, and a tensor that the index lists twice in one place.
    at.write("model.safetensors.index.json",
             R"({"weight_map":{"a\u001b":"model.safetensors","a\u001b":"model.safetensors"}})");
    source.weights.clear();
    source.index = "model.safetensors.index.json";
    warnings.clear();
    REQUIRE(read_safetensors_checkpoint(source, warnings));
    CHECK(warnings == std::vector<std::string>{at / "model.safetensors.index.json: a\\x1b is listed twice", wanted});
}
