// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/tree_json.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

std::string tensor(std::string_view name, std::string_view shape, std::string_view dtype = "float32") {
    return R"({"name": ")" + std::string(name) + R"(", "dtype": ")" + std::string(dtype) + R"(", "shape": )" +
           std::string(shape) + "}";
}
std::string linear(std::string_view name, std::string_view shape) {
    return R"({"name": ")" + std::string(name) + R"(", "class": "Linear", "params": [)" + tensor("weight", shape) +
           "]}";
}

ModuleTree read(std::string_view text) {
    auto file = read_tree(text, "tree.json");
    REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
    return std::move(file->tree);
}
std::string message(std::string_view text) {
    auto const file = read_tree(text, "tree.json");
    return file ? "accepted" : file.error().message();
}

/// Every module and tensor on a line, in order.
std::string lines(ModuleTree const& tree) {
    std::string out;
    walk(
        tree,
        [&out](std::string_view name, Module const& module, ModuleRole) {
            out += "M " + std::string(name) + " " + std::string(module.class_name) + "\n";
        },
        [&out](std::string_view name, Tensor const& t) {
            out += (t.is_parameter()               ? "P "
                    : t.kind == TensorKind::buffer ? "B "
                                                   : "N ") +
                   std::string(name) + " " + std::string(traits(t.dtype).torch_name);
            for (auto const extent : t.shape) out += " " + std::to_string(extent);
            out += "\n";
        });
    return out;
}

}  // namespace

TEST_CASE("read_tree: gives modules, tensors and buffers in the order of the file") {
    auto const tree = read(R"({"class": "Model", "params": [)" + tensor("scale", "[]", "BF16") + R"(], "buffers": [)" +
                           tensor("steps", "[2,0]", "int64") + R"(], "children": [)" + linear("up", "[4,3]") +
                           R"(, {"name": "act", "class": "SiLU"}]})");
    CHECK(lines(tree) ==
          "M  Model\nP scale bfloat16\nB steps int64 2 0\nM up Linear\nP up.weight float32 4 3\nM act SiLU\n");
}

TEST_CASE("read_tree: keys may come in any order") {
    auto const tree = read(
        R"({"children": [{"children": [], "params": [{"shape": [2], "dtype": "f16", "name": "w"}],
                              "name": "a", "class": "A"}],
                              "buffers": [{"persistent": false, "shape": [1], "dtype": "F32", "name": "b"}],
                              "params": [)" +
        tensor("p", "[5]") + R"(], "class": "Root", "name": "ignored"})");
    CHECK(lines(tree) == "M  Root\nP p float32 5\nN b float32 1\nM a A\nP a.w float16 2\n");
}

TEST_CASE("read_tree: equal modules share a body and equal numbered neighbours a run, names stay") {
    std::string layers;
    for (int i = 0; i < 12; ++i) {
        layers += (i > 0 ? "," : "") + std::string(R"({"class": "Layer", "name": ")") + std::to_string(i) +
                  R"(", "children": [)" + linear("up", i == 5 ? "[7,3]" : "[4,3]") + "]}";
    }
    auto const tree = read(
        R"({"class": "Model", "children": [{"class": "ModuleList", "name": "layers", "children": [)" + layers + "]}]}");
    CHECK(tree.modules().size() == 6);
    CHECK(count_parameters(tree) == 11 * 12 + 21);
    std::string names;
    walk_tensors(tree, [&names](std::string_view name, Tensor const&) { names += std::string(name) + "\n"; });
    std::string expected;
    for (int i = 0; i < 12; ++i) expected += "layers." + std::to_string(i) + ".up.weight\n";
    CHECK(names == expected);
    CHECK(find_tensor(tree, "layers.5.up.weight")->shape == Shape{7, 3});
    CHECK(find_tensor(tree, "layers.11.up.weight")->shape == Shape{4, 3});
}

TEST_CASE("read_tree: numbered names that do not count up, or have zeros in front, keep their names") {
    auto const tree = read(R"({"class": "M", "children": [)" + linear("1", "[2]") + "," + linear("0", "[2]") + "," +
                           linear("02", "[2]") + "," + linear("03", "[2]") + "," + linear("4294967296", "[2]") + "]}");
    std::string names;
    walk_tensors(tree, [&names](std::string_view name, Tensor const&) { names += std::string(name) + " "; });
    CHECK(names == "1.weight 0.weight 02.weight 03.weight 4294967296.weight ");
}

TEST_CASE("read_tree: of tied names the first counts") {
    auto const text = R"({"class": "M", "children": [)" + linear("a", "[10,10]") + "," + linear("b", "[10,10]") + "," +
                      linear("c", "[10,10]") + R"(], "tied": [["a.weight", "c.weight"]]})";
    auto const tree = read(text);
    REQUIRE(tree.ties().size() == 1);
    CHECK(tree.ties()[0].first == "a.weight");
    CHECK(tree.ties()[0].other == "c.weight");
    CHECK(count_parameters(tree) == 200);

    auto const group = read(R"({"class": "M", "children": [)" + linear("a", "[5]") + "," + linear("b", "[5]") + "," +
                            linear("c", "[5]") + R"(], "tied": [["a.weight", "b.weight", "c.weight"]]})");
    CHECK(group.ties().size() == 2);
    CHECK(count_parameters(group) == 5);
}

TEST_CASE("read_tree: tied names must be parameters of the tree, each in one group") {
    auto const with = [](std::string_view tied) {
        return message(R"({"class": "M", "children": [)" + linear("a", "[5]") + "," + linear("b", "[5]") +
                       R"(], "tied": )" + std::string(tied) + "}");
    };
    CHECK(with(R"([["a.weight", "nowhere.weight"]])") == "nowhere.weight: tied: is not a parameter of this tree");
    CHECK(with(R"([["a.weight", "b.weight"], ["b.weight"]])") == "b.weight: tied: occurs twice");
    CHECK(with(R"([])") == "accepted");
    CHECK(with(R"(["a.weight"])").find("cannot stand here") != std::string::npos);
    CHECK(with(R"([[1]])").find("cannot stand here") != std::string::npos);
}

TEST_CASE("read_tree: what is missing or wrong is refused by the name of the module") {
    auto const with = [](std::string const& members) {
        return message(R"({"class": "M", "children": [{"name": "a", )" + members + "}]}");
    };
    CHECK(with(R"("params": [{"name": "w", "shape": [1]}])") == "a.w: dtype: a tensor needs it");
    CHECK(with(R"("params": [{"name": "w", "dtype": "f32"}])") == "a.w: shape: a tensor needs it");
    CHECK(with(R"("params": [{"dtype": "f32", "shape": [1]}])") == "a: name: a tensor needs it");
    CHECK(with(R"("params": [{"name": "w", "dtype": "f33", "shape": [1]}])") ==
          "a.w: dtype: \"f33\" is not a known dtype");
    CHECK(with("\"params\": [" + tensor("w", "[-1]") + "]") == "a.w: shape: a size must be at least 0, but is -1");
    CHECK(with("\"params\": [" + tensor("w", "[1.5]") + "]") == "a.w: shape: a fraction cannot stand here");
    CHECK(with("\"params\": [" + tensor("w", "[\"1\"]") + "]") == "a.w: shape: a string cannot stand here");
    CHECK(with("\"params\": [" + tensor("w", "[1,1,1,1,1,1,1,1,1]") + "]") == "a.w: shape: has more than 8 dimensions");
    CHECK(with("\"params\": [" + tensor("w", "[18446744073709551615]") + "]") ==
          "a.w: shape: has a number too large for a size");
    CHECK(with("\"params\": [" + tensor("w", "[1]") + "," + tensor("w", "[2]") + "]") ==
          "a.w: occurs twice in one module");
    CHECK(with("\"params\": [" + tensor("w", "[1]") + "], \"children\": [" + linear("w", "[1]") + "]") ==
          "a.w: occurs twice in one module");
    CHECK(with("\"params\": [" + tensor("x.y", "[1]") + "]") == "a.x.y: name: must not contain a dot");
    CHECK(with("\"children\": [{\"class\": \"B\"}]") == "a.?: name: a child needs it");
    CHECK(with("\"children\": [{\"name\": \"\"}]") == "a.?: name: must not be empty");
    CHECK(with("\"class\": \"B\", \"class\": \"C\"") == "a: class: occurs twice in one object");
    CHECK(with("\"class\": 3") == "a: class: a number cannot stand here");
    CHECK(with("\"class\": null") == "a: class: null cannot stand here");
    CHECK(with("\"params\": {}") == "a: params: an object cannot stand here");
    CHECK(message("[]") == "tree.json: a list cannot stand here");
    CHECK(message("") == "tree.json: ends early at byte 0");
    CHECK(message("{} {}") == "tree.json: is not JSON (unexpected '{'; expected end of input) at byte 3");
}

TEST_CASE("read_tree: unknown keys are skipped with whatever they hold, and named") {
    auto const file =
        read_tree(R"({"class": "M", "training": true, "extra": {"class": [1, {"name": 3}], "x": null}, "children": [)" +
                      linear("a", "[5]") + R"(], "note": "text"})",
                  "tree.json");
    REQUIRE(file);
    CHECK(count_parameters(file->tree) == 5);
    REQUIRE(file->warnings.size() == 1);
    CHECK(file->warnings[0] == "tree.json: the key \"training\" means nothing here");
}

// The shape of facts/model_files.md, row 20: its product wraps to 4 in 64 bits.
TEST_CASE("read_tree: sizes that leave 63 bits are refused, alone and together") {
    auto const one = [](std::string_view shape) {
        return message(R"({"class": "M", "params": [)" + tensor("w", shape) + "]}");
    };
    CHECK(one("[4194305,4194305,211106198978564]") == "w: shape: its size leaves 63 bits");
    CHECK(one("[9223372036854775807]") == "w: shape: its size leaves 63 bits");
    CHECK(one("[0, 9223372036854775807, 9223372036854775807]") == "accepted");
    CHECK(one("[288230376151711743]") == "accepted");
    auto const half = "[200000000000000000]";
    CHECK(message(R"({"class": "M", "children": [)" + linear("a", half) + "," + linear("b", half) + "," +
                  linear("c", half) + "]}")
              .find("leave 63 bits") != std::string::npos);
}

TEST_CASE("read_tree: nesting is generous but limited") {
    auto const nested = [](int depth) {
        std::string text;
        for (int i = 0; i < depth; ++i) text += R"({"name": "a", "children": [)";
        for (int i = 0; i < depth; ++i) text += "]}";
        return message(text);
    };
    CHECK(nested(256) == "accepted");
    CHECK(nested(257).find("modules are nested too deep") != std::string::npos);
    CHECK(nested(100'000).find("nested too deep") != std::string::npos);
    CHECK(message(R"({"x": )" + std::string(100'000, '[')).find("nested too deep") != std::string::npos);
}

TEST_CASE("read_tree: what a tree may hold is limited" * doctest::test_suite("large")) {
    auto const module = [](std::string const& members) { return message("{\"class\": \"M\", " + members + "}"); };
    CHECK(module("\"name\": \"" + std::string(17'000'000, 'x') + "\"").find("has more than") != std::string::npos);
    std::string long_names = "\"" + std::string(2'000'000, 'x') + "\"";
    for (char c = 'a'; c < 'z'; ++c) long_names += ",\"" + std::string(2'000'000, c) + "\"";
    CHECK(module("\"tied\": [[" + long_names + "]]").find("more names than") != std::string::npos);
    std::string tensors = tensor("w", "[1]");
    for (int i = 0; i < 300'000; ++i) tensors += "," + tensor("w" + std::to_string(i), "[1]");
    CHECK(module("\"params\": [" + tensors + "]").find("than fit into the bytes") != std::string::npos);
    // Few bodies, but a place for each of their uses.
    std::string children = R"({"name": "0", "params": [)" + tensor("w", "[1]") + "]}";
    for (int i = 1; i < 300'000; ++i)
        children += R"(,{"name": ")" + std::to_string(i) + R"(", "params": [)" + tensor("w", "[1]") + "]}";
    CHECK(module("\"children\": [" + children + "]").find("to place than this library plans for") != std::string::npos);
    std::string tied = "\"a\"";
    for (int i = 0; i < 10'000; ++i) tied += ",\"a" + std::to_string(i) + "\"";
    CHECK(module("\"tied\": [[" + tied + "]]").find("more tied names than") != std::string::npos);
}

TEST_CASE("read_tree: repetition takes no memory") {
    // Four levels of 16 equal children each are 69,905 modules in 5 bodies.
    std::string text = "{\"class\": \"Leaf\", \"name\": \"0\"}";
    auto const repeat = [](std::string const& child) {
        std::string out = "{\"class\": \"M\", \"name\": \"0\", \"children\": [" + child;
        for (int i = 1; i < 16; ++i) {
            auto copy = child;
            copy.replace(copy.find("\"name\": \"0\""), 11, "\"name\": \"" + std::to_string(i) + "\"");
            out += "," + copy;
        }
        return out + "]}";
    };
    for (int level = 0; level < 4; ++level) text = repeat(text);
    auto const file = read_tree(text, "tree.json");
    REQUIRE(file);
    CHECK(file->tree.modules().size() == 5);
}

TEST_SUITE("timing") {
    TEST_CASE("read_tree: a Mixture-of-Experts tree of 173,000 entries reads in linear time") {
        std::string text = R"({"class": "Model", "children": [{"name": "layers", "class": "ModuleList", "children": [)";
        int entries = 0;
        for (int layer = 0; layer < 113; ++layer) {
            text += (layer > 0 ? "," : "") + std::string(R"({"name": ")") + std::to_string(layer) +
                    R"(", "class": "Layer", "children": [)";
            for (int expert = 0; expert < 256; ++expert) {
                text += (expert > 0 ? "," : "") + std::string(R"({"name": ")") + std::to_string(expert) +
                        R"(", "class": "Expert", "children": [)" + linear("up", "[2048,7168]") + "," +
                        linear("down", "[7168," + std::to_string(2048 + layer * 256 + expert) + "]") + "]}";
                entries += 6;
            }
            text += "]}";
        }
        text += "]}]}";
        REQUIRE(entries >= 173'000);
        auto const start = std::chrono::steady_clock::now();
        auto const file = read_tree(text, "tree.json");
        auto const elapsed = std::chrono::steady_clock::now() - start;
        REQUIRE(file);
        // 78 ms optimised; quadratic time would take hours. Ten times the limit of facts/model_files.md.
        CHECK(elapsed < std::chrono::seconds(10));
    }
}
