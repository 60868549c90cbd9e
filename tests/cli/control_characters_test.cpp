// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "small_llama.hpp"
#include "terminal.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

/// Names and tokens that would clear the screen, set a title, ring, or write from right to left.
namespace {

/// A reset, a cleared screen, a title with its bell, C1's own introducer, a carriage return, an override of direction.
constexpr std::string_view hostile = "\x1b" "c\x1b[2J\x1b]0;title\x07\xc2\x9b" "31m\r\xe2\x80\xae" "X";
constexpr auto hostile_json = R"(\u001bc\u001b[2J\u001b]0;title\u0007\u009b31m\r\u202eX)";
constexpr std::string_view shown = "\\x1bc\\x1b[2J\\x1b]0;title\\x07\\xc2\\x9b31m\\x0d\\xe2\\x80\\xaeX";

/// True where a terminal was sent nothing but text: lines end with what the terminal itself makes of a line end.
bool is_plain(std::string text) {
    for (auto at = text.find("\r\n"); at != std::string::npos; at = text.find("\r\n", at)) text.erase(at, 1);
    for (auto const letter : text) {
        auto const byte = static_cast<unsigned char>(letter);
        if ((byte < 0x20 && letter != '\n' && letter != '\t') || byte == 0x7F) return false;
    }
    return text.find("\xc2\x9b") == std::string::npos && text.find("\xe2\x80\xae") == std::string::npos;
}
/// What a terminal shows of a whole run.
std::string shown_of(std::vector<std::string> words, int status = 0) {
    Terminal terminal(std::move(words));
    auto const text = terminal.read_until("never shown: all there is");
    CHECK(terminal.wait() == status);
    return text;
}

/// A small model of which every token but "a" is hostile.
struct HostileLlama : SmallLlama {
    HostileLlama() {
        std::string vocabulary = R"("a":0)";
        for (int id = 1; id < 61; ++id)
            vocabulary += ",\"" + std::string(hostile_json) + std::to_string(id) + "\":" + std::to_string(id);
        (void)folder.write("tokenizer.json",
                           R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
                           R"("post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{)" +
                               vocabulary + R"(},"merges":[],"unk_token":"a"}})");
    }
};

}  // namespace

TEST_CASE("a terminal gets no control characters of a model's tokens; a pipe gets them as they are") {
    HostileLlama const model;
    auto const& path = model.folder.path();
    std::vector<std::string> const words{"run", path, "--prompt", "a", "--max-new-tokens", "3"};
    auto const piped = run(words);
    REQUIRE_MESSAGE(piped.status == 0, piped.err);
    CHECK(piped.out.find(hostile) != std::string::npos);
    auto const text = shown_of(words);
    CHECK(is_plain(text));
    CHECK_MESSAGE(text.find(shown) != std::string::npos, text);

    // In a conversation too.
    Terminal terminal({"run", path, "--max-new-tokens", "3"});
    (void)terminal.read_until("> ");
    terminal.type("a\n");
    auto const answer = terminal.read_until("\n> ");
    CHECK(is_plain(answer));
    CHECK(answer.find(shown) != std::string::npos);
    terminal.type("\x04");
    CHECK(terminal.wait() == 0);
}

TEST_CASE("tokenize: shows tokens and text on a terminal, and writes the text as it is into a pipe") {
    HostileLlama const model;
    std::vector<std::string> words{"tokenize", model.folder.path(), "--decode", "0,5"};
    auto const piped = run(words);
    CHECK(piped.status == 0);
    CHECK(piped.out.ends_with("\na" + std::string(hostile) + "5\n"));
    auto const text = shown_of(words);
    CHECK(is_plain(text));
    CHECK(text.find("a" + std::string(shown) + "5\r\n") != std::string::npos);
    // JSON is the same document everywhere, and plain.
    words.emplace_back("--json");
    auto const document = run(words).out;
    CHECK(is_plain(document));
    CHECK(Answer(document).text("text") == "a" + std::string(hostile) + "5");
    auto on_terminal = shown_of(words);
    on_terminal.erase(on_terminal.find('\r'), 1);
    CHECK(on_terminal == document);
}

TEST_CASE("names of modules, models and files are shown, in tables, warnings and errors") {
    TemporaryFolder const at;
    auto const name = std::string(hostile_json);
    auto const tree = at.write("tree.json", "{\"class\":\"" + name + "\",\"" + name + "\":1,\"params\":[],\"children\":[{\"name\":\"" +
                                                name + "\",\"class\":\"C\",\"params\":[{\"name\":\"" + name +
                                                "\",\"dtype\":\"F32\",\"shape\":[4]}]}]}");
    auto const text = shown_of({"map", "--tree", tree, "--max-memory", R"({"0": "1GB"})"});
    CHECK_MESSAGE(is_plain(text), text);
    CHECK(text.find(shown) != std::string::npos);
    auto const config = at.write("config.json", "{\"model_type\":\"" + name + "\"}");
    CHECK(is_plain(shown_of({"estimate", config}, 1)));
    auto const strange = at.write(std::string(hostile) + ".json", R"({"model_type":"llama","num_hidden_layers":1})");
    for (std::string const command : {"estimate", "map", "plan"}) {
        std::vector<std::string> words{command, strange};
        if (command != "estimate") words.insert(words.end(), {"--devices", "1xL4"});
        auto const table = shown_of(words);
        CHECK_MESSAGE(is_plain(table), table);
    }
    CHECK(is_plain(shown_of({"estimate", at / (std::string(hostile) + "absent")}, 1)));
    CHECK(is_plain(shown_of({std::string(hostile)}, 2)));
    CHECK(is_plain(shown_of({"estimate", "llama-3-8b", std::string(hostile)}, 2)));
    CHECK(is_plain(shown_of({"estimate", "llama-3-8b", "--dtype", std::string(hostile)}, 2)));
}
