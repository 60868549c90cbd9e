// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "../executor/formula.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

Answer const& golden() {
    static Answer const answer(read_text(SHARDWISE_SOURCE_DIR "/tests/golden/executor/embed.json"));
    return answer;
}

/// A small bert with a WordPiece tokenizer, which would pad and truncate.
struct SmallBert {
    shardwise::testing::TemporaryFolder folder;

    SmallBert() : SmallBert(golden().text("config"), golden().integer("seed")) {}
    /// One of the classes that classify.
    explicit SmallBert(std::size_t number)
        : SmallBert(golden().text("classes", number, "config"), golden().integer("classes", number, "seed")) {}

    SmallBert(std::string const& config, std::int64_t seed) {
        (void)folder.write("config.json", config);
        (void)folder.write("tokenizer.json", read_text(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/bert.json"));
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE(described);
        shardwise::testing::write_formula_model(described->model, folder / "model.safetensors",
                                                static_cast<std::uint64_t>(seed));
    }
    /// `embed` of all golden texts.
    [[nodiscard]] Answer embed(std::vector<std::string> const& flags) const {
        std::vector<std::string> arguments{"embed", folder.path(), "--json"};
        for (std::size_t i = 0; i < golden().size("texts"); ++i)
            arguments.insert(arguments.end(), {"--text", golden().text("texts", i, "text")});
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        auto const ran = run(arguments);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return Answer(ran.out);
    }
};

}  // namespace

TEST_CASE("embed: --scores gives what classes score of texts and tokens, by their labels' names") {
    struct Class {
        std::vector<std::string> labels;
        bool is_per_token;
    };
    std::vector<std::string> const named{"calm", "a storm", "fog"};
    Class const classes[] = {{named, false}, {named, true}, {{"start", "end"}, true}};
    for (std::size_t at = 0; at < std::size(classes); ++at) {
        CAPTURE(at);
        SmallBert const model(at);
        auto const answer = model.embed({"--scores", "--tp", at == 0 ? "2" : "1"});
        CHECK(answer.size("embeddings") == 0);
        auto const& labels = classes[at].labels;
        REQUIRE(answer.size("labels") == labels.size());
        for (std::size_t i = 0; i < labels.size(); ++i) CHECK(answer.text("labels", i) == labels[i]);
        for (std::size_t text = 0; text < golden().size("texts"); ++text) {
            auto const count = golden().size("classes", at, "scores", text);
            auto const rows = classes[at].is_per_token ? answer.size("scores", text) : 1;
            REQUIRE(rows * labels.size() == count);
            for (std::size_t i = 0; i < count; ++i) {
                auto const row = i / labels.size();
                auto const label = i % labels.size();
                auto const got = classes[at].is_per_token ? answer.real("scores", text, row, label)
                                                          : answer.real("scores", text, label);
                CHECK(std::abs(got - golden().real("classes", at, "scores", text, i)) < 1e-4);
            }
        }
    }
    SmallBert const classifier(0);
    auto const lines = run({"embed", classifier.folder.path(), "--text", "a", "--scores"});
    CHECK(lines.out.starts_with("calm "));
    CHECK(lines.out.find(" a storm ") != std::string::npos);
    auto const both = run({"embed", classifier.folder.path(), "--text", "a", "--scores", "--normalize"});
    CHECK(both.status == 2);
    auto const none = run({"embed", SmallBert().folder.path(), "--text", "a", "--scores"});
    CHECK(none.status == 1);
    CHECK(none.err.find("BertModel") != std::string::npos);
}

TEST_CASE("embed: ids and pooled states of a small bert are transformers', over any ranks") {
    SmallBert const model;
    for (auto const* const pooling : {"mean", "cls", "normalized"}) {
        CAPTURE(pooling);
        std::string const word = pooling;
        std::vector<std::string> flags{"--tp", word == "cls" ? "3" : "1"};
        if (word == "normalized")
            flags.push_back("--normalize");
        else
            flags.insert(flags.end(), {"--pooling", word});
        auto const answer = model.embed(flags);
        CHECK(answer.text("schema") == "shardwise.embed/1");
        REQUIRE(answer.size("embeddings") == golden().size("texts"));
        for (std::size_t text = 0; text < golden().size("texts"); ++text) {
            REQUIRE(answer.size("token_ids", text) == golden().size("texts", text, "ids"));
            for (std::size_t i = 0; i < answer.size("token_ids", text); ++i)
                CHECK(answer.integer("token_ids", text, i) == golden().integer("texts", text, "ids", i));
            REQUIRE(answer.size("embeddings", text) == golden().size("texts", text, pooling));
            for (std::size_t i = 0; i < answer.size("embeddings", text); ++i) {
                auto const expected = golden().real("texts", text, pooling, i);
                CHECK(std::abs(answer.real("embeddings", text, i) - expected) < 1e-4);
            }
        }
    }
}

TEST_CASE("embed: the checkpoint's own modules say how states are pooled, and whether vectors have length 1") {
    SmallBert const model;
    auto const first = [&](std::vector<std::string> const& flags) {
        auto const answer = model.embed(flags);
        return std::pair{answer.text("pooling"), answer.real("embeddings", 0U, 0U)};
    };
    auto const mean = first({"--pooling", "mean"});
    auto const cls = first({"--pooling", "cls"});
    auto const last = first({"--pooling", "last"});
    CHECK(mean.second != cls.second);
    CHECK(mean.second != last.second);
    // Without modules.json: the mean.
    CHECK(first({}) == mean);
    CHECK(first({"--pooling", "auto"}) == mean);
    auto const write_modules = [&](std::string const& rest) {
        (void)model.folder.write("modules.json",
                                 R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})" +
                                     rest + "]");
    };
    std::filesystem::create_directory(model.folder / "1_Pooling");
    write_modules("");
    (void)model.folder.write("1_Pooling/config.json",
                             R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
    CHECK(first({}) == cls);
    CHECK(first({"--pooling", "mean"}) == mean);
    (void)model.folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
    CHECK(first({}) == last);
    (void)model.folder.write("1_Pooling/config.json", R"({"word_embedding_dimension": 8, "pooling_mode": "cls"})");
    CHECK(first({}) == cls);
    (void)model.folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
    write_modules(R"(, {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})");
    auto const normalized = model.embed({});
    CHECK(normalized.at("normalized")->boolean().value_or(false));
    CHECK(std::abs(normalized.real("embeddings", 0U, 0U) - golden().real("texts", 0U, "normalized", 0U)) < 1e-4);

    auto const refused = [&](std::string_view what) {
        auto const ran = run({"embed", model.folder.path(), "--text", "a"});
        CHECK(ran.status == 1);
        CHECK_MESSAGE(ran.err.find(what) != std::string::npos, ran.err);
        CHECK(run({"embed", model.folder.path(), "--text", "a", "--pooling", "cls"}).status == 0);
    };
    (void)model.folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
    refused("is a pooling that is not run");
    (void)model.folder.write("1_Pooling/config.json",
                             R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
    refused("is true beside another");
    (void)model.folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
    write_modules(R"(, {"idx": 2, "path": "2_Dense", "type": "sentence_transformers.models.Dense"})");
    refused("sentence_transformers.models.Dense");
    (void)model.folder.write("modules.json", "{}");
    refused("modules are a list");
    // Names that modules.json gives stay in the folder, also through links.
    write_modules("");
    std::filesystem::remove_all(model.folder / "1_Pooling");
    TemporaryFolder const elsewhere;
    (void)elsewhere.write("config.json", R"({"pooling_mode_mean_tokens": true})");
    std::filesystem::create_directory_symlink(elsewhere.path(), model.folder / "1_Pooling");
    refused("is a link that leaves the model's folder");
}

TEST_CASE("embed: a text longer than the checkpoint's max_seq_length is cut, and a warning says so") {
    SmallBert const model;
    auto const whole = model.embed({});
    auto const size = whole.size("token_ids", 0U);
    REQUIRE(size > 4);
    (void)model.folder.write("modules.json",
                             R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
    (void)model.folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true})");
    (void)model.folder.write("sentence_bert_config.json",
                             R"({"max_seq_length": )" + std::to_string(size) + R"(, "do_lower_case": false})");
    CHECK(model.embed({}).size("token_ids", 0U) == size);
    (void)model.folder.write("sentence_bert_config.json", R"({"max_seq_length": 4, "do_lower_case": false})");
    auto const cut = model.embed({});
    REQUIRE(cut.size("token_ids", 0U) == 4);
    CHECK(cut.integer("token_ids", 0U, 2U) == whole.integer("token_ids", 0U, 2U));
    CHECK(cut.integer("token_ids", 0U, 3U) == whole.integer("token_ids", 0U, size - 1));  // [SEP] stays
    CHECK(cut.text("warnings", 0U).find("text 1 is cut: it has " + std::to_string(size)) != std::string::npos);
}

TEST_CASE("embed: without pooling every token has a row, and the lines are the same numbers") {
    SmallBert const model;
    auto const answer = model.embed({"--pooling", "none"});
    CHECK(answer.integer("dimensions") == 12);
    for (std::size_t text = 0; text < golden().size("texts"); ++text) {
        REQUIRE(answer.size("embeddings", text) == golden().size("texts", text, "ids"));
        for (std::size_t row = 0; row < answer.size("embeddings", text); ++row) {
            REQUIRE(answer.size("embeddings", text, row) == 12);
            for (std::size_t i = 0; i < 12; ++i) {
                auto const expected = golden().real("texts", text, "none", row * 12 + i);
                CHECK(std::abs(answer.real("embeddings", text, row, i) - expected) < 1e-4);
            }
        }
    }
    auto const lines = run({"embed", model.folder.path(), "--text", "The", "--text", "fox", "--deterministic"});
    CHECK(lines.status == 0);
    CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 2);
    CHECK(std::count(lines.out.begin(), lines.out.end(), ' ') == 22);
    // What runs beside a text changes nothing.
    auto const alone = run({"embed", model.folder.path(), "--text", "fox", "--tp", "2", "--deterministic"});
    CHECK(lines.out.ends_with(alone.out));
}

TEST_CASE("embed: what cannot be embedded is refused by name, with the right status") {
    SmallBert const model;
    auto const status = [&](std::vector<std::string> arguments, std::string const& text) {
        auto const ran = run(arguments);
        CHECK_MESSAGE(ran.says(text), ran.err);
        return ran.status;
    };
    auto const& path = model.folder.path();
    CHECK(status({"embed", path}, "--text") == 2);
    CHECK(status({"embed", "--text", "a"}, "MODEL: was not given") == 2);
    CHECK(status({"embed", path, "--text", "a", "--pooling", "meen"}, "did you mean mean?") == 2);
    CHECK(status({"embed", path, "--text", "a", "--tp", "5"}, "query heads") == 2);
    std::string many;
    for (int i = 0; i < 60; ++i) many += "fox ";
    CHECK(status({"embed", path, "--text", "a", "--text", many},
                 "text 2: has more tokens than the model has positions") == 1);
    CHECK(status({"run", path, "--prompt", "fox"}, "gives no scores of a next token") == 1);
    std::filesystem::remove(std::filesystem::path(path) / "tokenizer.json");
    auto const silent = run({"embed", path, "--text", "fox"});
    CHECK(silent.says("GGUF with a vocabulary"));
    CHECK_FALSE(silent.says("token ids"));
}
