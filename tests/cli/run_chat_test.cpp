// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "small_llama.hpp"

#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// What `run --chat` makes of "hi" with a tokenizer_config.json.
Ran chat(SmallLlama const& model, std::string const& config) {
    (void)model.folder.write("tokenizer_config.json", config);
    return run({"run", model.folder.path(), "--chat", "--prompt", "hi", "--max-new-tokens", "1", "--json"});
}

std::vector<std::int64_t> prompt_ids(Ran const& ran) {
    Answer const answer(ran.out);
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < answer.size("prompt_ids"); ++i) ids.push_back(answer.integer("prompt_ids", i));
    return ids;
}

}  // namespace

TEST_CASE("run: --chat runs the model's own template, and no second token begins the text") {
    SmallLlama const model;
    model.add_tokenizer();
    // The tokenizer puts a Z (51) before every text.
    auto text = read_text(model.folder.path() + "/tokenizer.json");
    std::string const none = R"("post_processor":null)";
    text.replace(text.find(none), none.size(),
                 R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"Z","type_id":0}},)"
                 R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],)"
                 R"("special_tokens":{"Z":{"id":"Z","ids":[51],"tokens":["Z"]}}})");
    (void)model.folder.write("tokenizer.json", text);
    auto const plain = run({"run", model.folder.path(), "--prompt", "hi", "--max-new-tokens", "1", "--json"});
    CHECK(prompt_ids(plain) == std::vector<std::int64_t>{51, 7, 8});
    std::string const turns =
        R"({% for m in messages %}{{ m['content'] | upper }}{% endfor %}{% if add_generation_prompt %}A{% endif %})";
    CHECK(prompt_ids(chat(model, R"({"bos_token":"Z","chat_template":"{{ bos_token }})" + turns + R"("})")) ==
          std::vector<std::int64_t>{51, 33, 34, 26});
    CHECK(prompt_ids(chat(model, R"({"bos_token":"Z","chat_template":")" + turns + R"("})")) ==
          std::vector<std::int64_t>{33, 34, 26});
}

TEST_CASE("run: a chat template that refuses the conversation is quoted") {
    SmallLlama const model;
    model.add_tokenizer();
    auto const refused = chat(model, R"({"chat_template":"{{ raise_exception('only poems') }}"})");
    CHECK(refused.status != 0);
    CHECK(refused.says("the model's chat template refuses the conversation: only poems"));
    CHECK(Answer(refused.out).text("error", "code") == "invalid_argument");
    auto const broken = chat(model, R"({"chat_template":"<|im_start|><|im_end|>\n{{ messages[0].nothing.x }}"})");
    CHECK(broken.status == 1);
    CHECK(broken.says("chat_template: line 2: 'dict object' has no attribute 'nothing'"));
}

TEST_CASE("run: a built-in layout stands in for a template that cannot be run, and says so") {
    SmallLlama const model;
    model.add_tokenizer();
    for (std::string const part : {"{% include 'x' %}", "{% if %}", "{{ 1 | wordwrap }}"}) {
        CAPTURE(part);
        auto const ran = chat(model, R"({"chat_template":"<|im_start|><|im_end|>)" + part + R"("})");
        CHECK(ran.status == 0);
        CHECK(ran.says("the built-in layout ChatML stands in for the model's own"));
    }
}
