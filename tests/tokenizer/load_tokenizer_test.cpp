// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

#include <string>

using namespace shardwise;

namespace {

constexpr char const* tokenizer_json =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2},"merges":[]},"added_tokens":[]})";

/// The chat template of a folder with these files; "-" leaves a file out.
std::string template_of(std::string const& config, std::string const& file) {
    testing::TemporaryFolder const folder;
    ModelSource source;
    source.config = folder.write("tokenizer.json", tokenizer_json);
    source.kind = SourceKind::config;
    if (config != "-") (void)folder.write("tokenizer_config.json", config);
    if (file != "-") (void)folder.write("chat_template.jinja", file);
    auto const loaded = load_tokenizer(source);
    REQUIRE_MESSAGE(loaded, loaded.error().message());
    return loaded->chat_template;
}

}  // namespace

// transformers 4.57.6, tokenization_utils_base.py: a chat_template.jinja replaces what tokenizer_config.json says; of a list of
// named templates apply_chat_template takes "default".
TEST_CASE("load_tokenizer: a chat template in a file of its own counts before that of tokenizer_config.json") {
    CHECK(template_of("-", "-").empty());
    CHECK(template_of(R"({"chat_template":"inner"})", "-") == "inner");
    CHECK(template_of("-", "outer") == "outer");
    CHECK(template_of(R"({"chat_template":"inner"})", "outer") == "outer");
    CHECK(template_of(R"({"bos_token":"<s>"})", "outer") == "outer");
}

TEST_CASE("load_tokenizer: of a list of named chat templates the default one is taken") {
    std::string const list =
        R"([{"name":"tool_use","template":"tools"},{"name":"default","template":"plain"},{"template":"nameless"}])";
    CHECK(template_of(R"({"chat_template":)" + list + "}", "-") == "plain");
    CHECK(template_of(R"({"chat_template":[{"name":"tool_use","template":"tools"}]})", "-").empty());
    CHECK(template_of(R"({"chat_template":[1,null,{"name":1,"template":2}]})", "-").empty());
    CHECK(template_of(R"({"chat_template":7})", "-").empty());
}
