// SPDX-License-Identifier: Apache-2.0
#include "layers.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

namespace {

constexpr std::string_view layer_text =
    "core ->          # nothing\n"
    "json -> core\n"
    "op -> core\n"
    "model -> op json\n"
    "shardwise.hpp -> model\n"
    "shardwise.hpp avoids json model/files\n";

/// A source tree with one planted header (or more), gone when the test ends.
class PlantedTree {
public:
    explicit PlantedTree(std::string_view layers = layer_text)
        : root_(std::filesystem::temp_directory_path() / ("shardwise-layers-" + std::to_string(getpid()))) {
        house::write_text(root_ / "docs" / "layers.txt", layers);
        plant("core/base.hpp", "");
        plant("op/norm.hpp", "#include <shardwise/core/base.hpp>\n#include <vector>\n");
        plant("json/read.hpp", "#include <nlohmann/json.hpp>\n#include <shardwise/core/base.hpp>\n");
        plant("model/config.hpp", "#include <shardwise/op/norm.hpp>\n#include <shardwise/core/base.hpp>\n");
    }
    PlantedTree(PlantedTree const&) = delete;
    PlantedTree& operator=(PlantedTree const&) = delete;
    ~PlantedTree() { std::filesystem::remove_all(root_); }

    void plant(std::string const& name, std::string_view text) {
        plant_bare(name, "#pragma once\n" + std::string{text});
    }
    void plant_bare(std::string const& name, std::string_view text) {
        house::write_text(root_ / "include" / "shardwise" / name, text);
    }

    /// All violations, one a line.
    std::string check() const {
        std::string all;
        for (std::string const& violation : house::check_layers(root_)) all += violation + "\n";
        return all;
    }

private:
    std::filesystem::path root_;
};

}  // namespace

TEST_CASE("layers: a tree that keeps the rules has no violations") {
    PlantedTree tree;
    tree.plant("shardwise.hpp", "#include <shardwise/model/config.hpp>\n");
    CHECK(tree.check() == "");
}

TEST_CASE("layers: an include of a room further up is named with its line") {
    PlantedTree tree;
    tree.plant("core/wrong.hpp", "\n  #  include <shardwise/op/norm.hpp>\n");
    CHECK(tree.check() ==
          "include/shardwise/core/wrong.hpp:3: the room core must not include op (<shardwise/op/norm.hpp>)\n");
}

TEST_CASE("layers: an include of a neighbour that is not on the list is a violation") {
    PlantedTree tree;
    tree.plant("op/wrong.hpp", "#include <shardwise/json/read.hpp>\n");
    CHECK(tree.check() ==
          "include/shardwise/op/wrong.hpp:2: the room op must not include json (<shardwise/json/read.hpp>)\n");
}

TEST_CASE("layers: what an allowed room may include is allowed too") {
    PlantedTree tree("core ->\nop -> core\njson -> core\nmodel -> json op\nmemory -> model\n");
    tree.plant("memory/estimate.hpp", "#include <shardwise/core/base.hpp>\n");
    CHECK(tree.check() == "");
}

TEST_CASE("layers: nlohmann_json outside json/ is a violation") {
    PlantedTree tree;
    tree.plant("model/files.hpp", "#include <nlohmann/json_fwd.hpp>\n");
    CHECK(tree.check() == "include/shardwise/model/files.hpp:2: only the room json includes nlohmann_json\n");
}

TEST_CASE("layers: slow standard headers are violations in .hpp only") {
    for (std::string const banned : {"format", "expected", "source_location", "iostream"}) {
        PlantedTree tree;
        tree.plant("core/wrong.hpp", "#include <" + banned + ">\n");
        tree.plant("core/device.cuh", "#include <" + banned + ">\n");
        CHECK(tree.check() ==
              "include/shardwise/core/wrong.hpp:2: <" + banned + "> is not for headers (style.md, 31)\n");
    }
}

TEST_CASE("layers: 400 lines are allowed and 401 are not") {
    PlantedTree tree;
    tree.plant("core/full.hpp", std::string(399, '\n'));
    CHECK(tree.check() == "");
    tree.plant("core/full.hpp", std::string(400, '\n'));
    CHECK(tree.check() == "include/shardwise/core/full.hpp: has 401 lines, more than 400\n");
}

TEST_CASE("layers: a header without #pragma once is a violation, also where a comment names it") {
    PlantedTree tree;
    tree.plant_bare("core/twice.hpp", "// #pragma once\n/*\n#pragma once\n*/\n");
    CHECK(tree.check() == "include/shardwise/core/twice.hpp: has no #pragma once\n");
}

TEST_CASE("layers: own headers in quotes, unknown rooms and missing headers are violations") {
    PlantedTree tree;
    tree.plant("core/quoted.hpp", "#include \"base.hpp\"\n");
    tree.plant("utils/helpers.hpp", "");
    tree.plant("op/gone.hpp", "#include <shardwise/core/gone.hpp>\n");
    CHECK(tree.check() ==
          "include/shardwise/core/quoted.hpp:2: own headers are included as <shardwise/...>: base.hpp\n"
          "include/shardwise/op/gone.hpp:2: <shardwise/core/gone.hpp> does not exist\n"
          "include/shardwise/utils/helpers.hpp: the room utils is not in docs/layers.txt\n");
}

TEST_CASE("layers: the umbrella must not reach an avoided folder through others") {
    PlantedTree tree;
    tree.plant("shardwise.hpp", "#include <shardwise/model/config.hpp>\n");
    tree.plant("model/config.hpp", "#include <shardwise/model/files/gguf.hpp>\n");
    tree.plant("model/files/gguf.hpp", "#include <shardwise/core/base.hpp>\n");
    CHECK(tree.check() ==
          "include/shardwise/shardwise.hpp: must not reach model/files/, but does: "
          "shardwise.hpp -> model/config.hpp -> model/files/gguf.hpp\n");
}

TEST_CASE("layers: a cycle and an unknown room in the list itself are violations") {
    CHECK(house::read_layers("a -> b\nb -> c\nc -> a\n").problems.size() == 3);
    CHECK(house::read_layers("a -> b\n").problems ==
          std::vector<std::string>{"docs/layers.txt: a may include b, which has no line"});
    CHECK(house::read_layers("a b\n").problems.size() == 1);
}

TEST_CASE("layers: device code that reaches a standard header is a violation with its way; what launches it may") {
    PlantedTree tree("core ->\njson -> core\nop -> core\nmodel -> op json\nkernels -> core\n");
    tree.plant("kernels/detail/numbers.hpp", "#include <cstdint>\n#include <hip/hip_runtime.h>\n");
    tree.plant("kernels/norm.cuh", "#include <cstddef>\n#include <shardwise/kernels/detail/numbers.hpp>\n");
    tree.plant("kernels/norm_launch.cuh", "#include <shardwise/kernels/norm.cuh>\n#include <utility>\n");
    CHECK(tree.check() == "");
    tree.plant("kernels/detail/numbers.hpp", "#include <cstring>\n");
    CHECK(tree.check() ==
          "include/shardwise/kernels/norm.cuh: device code is freestanding, but: kernels/norm.cuh -> "
          "kernels/detail/numbers.hpp -> <cstring>\n");
}
