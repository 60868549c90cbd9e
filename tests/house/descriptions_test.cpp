// SPDX-License-Identifier: Apache-2.0
#include "descriptions.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

namespace {

/// A source tree of a few headers, gone when the test ends.
class PlantedHeaders {
public:
    PlantedHeaders()
        : root_(std::filesystem::temp_directory_path() / ("shardwise-descriptions-" + std::to_string(getpid()))) {
        plant("model/arch/llama.hpp",
              "static constexpr std::string_view name = \"llama\";\n"
              "static constexpr std::string_view gguf_name = \"llama-gguf\";\n");
    }
    PlantedHeaders(PlantedHeaders const&) = delete;
    PlantedHeaders& operator=(PlantedHeaders const&) = delete;
    ~PlantedHeaders() { std::filesystem::remove_all(root_); }

    void plant(std::string const& name, std::string_view text) {
        house::write_text(root_ / "include" / "shardwise" / name, text);
    }
    std::string check() const {
        std::string all;
        for (auto const& violation : house::check_descriptions(root_)) all += violation + "\n";
        return all;
    }

private:
    std::filesystem::path root_;
};

}  // namespace

TEST_CASE("descriptions: a default in a switch is named with its line, but for codes of others") {
    PlantedHeaders tree;
    tree.plant("core/files/write_file.hpp", "    default: return;\n");
    tree.plant("op/work.hpp", "switch (kind) {\n    // default: none\n    default:\n}\n= default;\n");
    CHECK(tree.check() ==
          "include/shardwise/op/work.hpp:3: default: hides what a new member of the enumeration lacks\n");
    tree.plant("op/work.hpp", "");
    std::string many;
    for (int i = 0; i < 13; ++i) many += "default:\n";
    tree.plant("core/files/write_file.hpp", many);
    CHECK(tree.check() == "include/shardwise: 13 default: of at most 12\n");
}

TEST_CASE("descriptions: a switch over formats is named with its line") {
    PlantedHeaders tree;
    tree.plant("quant/x.hpp",
               "switch (format) {\n    case WeightFormat::q4_k: break;\n}\n// case WeightFormat::f32:\n");
    tree.plant("quant/y.hpp", "using enum GgmlType;\nusing enum TensorUse;\nf(WeightFormat::q4_k);\n");
    CHECK(
        tree.check() ==
        "include/shardwise/quant/x.hpp:2: switches over WeightFormat: read the format's row, to which others are "
        "added\n"
        "include/shardwise/quant/y.hpp:1: switches over GgmlType: read the format's row, to which others are added\n");
}

TEST_CASE("descriptions: a second switch over the kinds of operations is named with its line") {
    PlantedHeaders tree;
    tree.plant("op/visit_op.hpp", "case OpKind::norm: return rule(NormOp{});\n");
    tree.plant("cost/price.hpp", "switch (op.kind) {\n    case OpKind::norm: return 1;\n}\n");
    CHECK(tree.check() ==
          "include/shardwise/cost/price.hpp:2: switches over the kinds of operations: use visit_op, which a new kind "
          "breaks\n");
}

TEST_CASE("descriptions: a family that is named outside of its file is named with the line") {
    PlantedHeaders tree;
    tree.plant("model/presets_llama.hpp", "{\"llama\"}\n");
    tree.plant("tokenizer/files/tokenizer_gguf.hpp", "model == \"llama\"\n");
    tree.plant("executor/load.hpp",
               "// as \"llama\" has it\nif (type == \"llama\") f();\nif (name == \"llama-gguf\") f();\n");
    CHECK(
        tree.check() ==
        "include/shardwise/executor/load.hpp:2: names the family llama: what is its own belongs into its file\n"
        "include/shardwise/executor/load.hpp:3: names the family llama-gguf: what is its own belongs into its file\n");
}

TEST_CASE("descriptions: a family's name before a dot, a model that is its text part, and its file are named, too") {
    PlantedHeaders tree;
    tree.plant("model/arch/mistral.hpp", "static constexpr std::string_view text_part_of = \"mistral3\";\n");
    tree.plant("model/architectures.hpp", "#include <shardwise/model/arch/llama.hpp>\n");
    tree.plant("tokenizer/text.hpp", "type == \"mistral3\"\n");
    tree.plant("model/files/names.hpp",
               "#include <shardwise/model/arch/llama.hpp>\n"
               "{\"model.\", \"llama.\", \"module.\"}\n"
               "find(\"llama.expert_count\");\n"
               "fix(\"llama.cpp writes it\");\n"
               "find(\"llamas.\"), find(\"a llama.\");\n");
    std::string const place = "include/shardwise/model/files/names.hpp:";
    CHECK(tree.check() ==
          place + "1: includes a family's file: only the list of families does\n" + place +
              "2: names the family llama: what is its own belongs into its file\n" + place +
              "3: names the family llama: what is its own belongs into its file\n"
              "include/shardwise/tokenizer/text.hpp:1: names the family mistral3: what is its own belongs into its "
              "file\n");
}

TEST_CASE("descriptions: a chain over an enumeration that ends in a fall-back is named with its line") {
    std::string const kinds = "enum class Kind : char { a, b = 4, c };\nenum class Two { x, y };\n";
    auto const found = [&](std::string_view code) {
        PlantedHeaders tree;
        tree.plant("op/x.hpp", kinds + std::string(code));
        return tree.check();
    };
    std::string const third =
        "include/shardwise/op/x.hpp:3: a chain over Kind falls back for what a new enumerator lacks: use a switch "
        "without default\n";
    CHECK(found("if (k == Kind::a) return 1;\nif (k == Kind::b) return 2;\nreturn 3;\n") == third);
    CHECK(found("if (k == Kind::a) {\n f();\n return 1; }\n// next\nif (k == detail::Kind::b || g()) return 2; return "
                "3;") == third);
    CHECK(found("if (k.of(1) == Kind::a) { f(); } else if (k.of(1) == Kind::b) { g(); } else { h(); }") == third);
    CHECK(found("if constexpr (k == Kind::a) return 1;\nelse if constexpr (k == Kind::b) return 2;\nelse return 3;") ==
          third);
    CHECK(found("auto const n = k == Kind::a ? (f(b ? 1 : 2)) : k == Kind::b ? 2 : 3;") == third);
    CHECK(found("f(is_on && k == Kind::a ? b ? 1 : 2 : k == Kind::b ? 2 : 3);") == third);
    CHECK(found("if (k == Kind::a) return 1; return k == Kind::b ? 2 : 3;") == third);
    for (
        std::string_view const right :
        {"if (k == Kind::a) return 1;\nreturn 3;\n",                               // asks for one
         "if (k == Kind::a) f();\nif (k == Kind::b) g();\nreturn 3;\n",            // no alternatives
         "if (k == Kind::a) return 1;\nif (l == Kind::b) return 2;\nreturn 3;\n",  // of two things
         "if (k == Two::x) return 1;\nif (k == Two::y) return 2;\nreturn 3;\n",    // of two, which is all
         "if (k == Kind::a) return 1;\nif (k == Kind::b) return 2;\nSHARDWISE_ASSERT(k == Kind::c);\n",  // says for which
         "if constexpr (k == Kind::a) {\n} else if constexpr (k == Kind::b) {\n} else {\n static_assert(k == "
         "Kind::c);\n}",
         "// if (k == Kind::a) return 1; if (k == Kind::b) return 2; return 3;\n",
         "k == Kind::a ? 1 : l == Kind::b ? 2 : 3;"}) {
        CAPTURE(right);
        CHECK(found(right).empty());
    }
}

TEST_CASE("descriptions: a known chain counts the enumerators of its enumeration, and is one") {
    PlantedHeaders tree;
    auto const plant = [&](std::string_view enumerators, std::string_view code) {
        tree.plant("json/value.hpp", "enum class JsonKind { " + std::string(enumerators) + " };\n" + std::string(code));
        return tree.check();
    };
    std::string_view const chain = "if (k == JsonKind::a) return 1;\nif (k == JsonKind::b) return 2;\nreturn 3;\n";
    CHECK(plant("a, b, c, d, e, f, g, h", chain).empty());
    CHECK(plant("a, b, c, d, e, f, g, h, i", chain) ==
          "include/shardwise/json/value.hpp:2: a chain over JsonKind is known for 8 enumerators of now 9: see what it "
          "does for the "
          "others (tests/house/descriptions.hpp)\n");
    CHECK(plant("a, b, c, d, e, f, g, h", std::string(chain) + std::string(chain)) ==
          "include/shardwise/json/value.hpp: has 2 chains over JsonKind, of which 1 are known "
          "(tests/house/descriptions.hpp)\n");
    CHECK(plant("a, b, c, d, e, f, g, h", "") ==
          "include/shardwise/json/value.hpp: has no chain over JsonKind: it is no known one any more\n");
}
