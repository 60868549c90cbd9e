// SPDX-License-Identifier: Apache-2.0
#include <shardwise/session/sentence_modules.hpp>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

template <class Number>
std::string raw(Number number) {
    std::string out(sizeof(Number), '\0');
    std::memcpy(out.data(), &number, sizeof(Number));
    return out;
}
std::string text(std::string_view value) {
    return raw(std::uint64_t{value.size()}) + std::string(value);
}

/// A GGUF file of an architecture with this pooling_type, or none.
std::string gguf(std::string const& architecture, std::optional<std::uint32_t> pooling) {
    std::string keys = text("general.architecture") + raw(static_cast<std::uint32_t>(GgufValueType::text)) + text(architecture);
    if (pooling) keys += text(architecture + ".pooling_type") + raw(static_cast<std::uint32_t>(GgufValueType::u32)) + raw(*pooling);
    return "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{0}) + raw(std::uint64_t{pooling ? 2U : 1U}) + keys;
}

Result<std::optional<SentenceModules>> modules_of(std::string const& bytes) {
    testing::TemporaryFolder const folder;
    ModelSource source;
    source.kind = SourceKind::gguf;
    source.weights.push_back(folder.write("model.gguf", bytes));
    OpenCheckpoint files(source);
    return read_sentence_modules(files);
}

/// A folder with modules.json of a Transformer and a Pooling module, and this sentence_bert_config.json.
Result<std::optional<SentenceModules>> with_config(std::string const& config) {
    testing::TemporaryFolder const folder;
    auto const modules = folder.write(
        "modules.json", R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},)"
                        R"({"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])");
    auto const root = modules.substr(0, modules.rfind('/'));
    std::filesystem::create_directory(root + "/1_Pooling");
    (void)folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token":true})");
    if (!config.empty()) (void)folder.write("sentence_bert_config.json", config);
    ModelSource source;
    source.kind = SourceKind::config;
    source.folder = root;
    OpenCheckpoint files(source);
    return read_sentence_modules(files);
}

}  // namespace

// llama.cpp, llama.h: none 0, mean 1, cls 2, last 3, rank 4
TEST_CASE("The pooling of a GGUF file is its pooling_type") {
    for (auto const architecture : {"bert", "nomic-bert"}) {
        CHECK(modules_of(gguf(architecture, 0)).value()->pooling == Pooling::none);
        CHECK(modules_of(gguf(architecture, 1)).value()->pooling == Pooling::mean);
        CHECK(modules_of(gguf(architecture, 2)).value()->pooling == Pooling::cls);
        CHECK(modules_of(gguf(architecture, 3)).value()->pooling == Pooling::last);
        CHECK(!modules_of(gguf(architecture, std::nullopt)).value().has_value());
        auto const ranks = modules_of(gguf(architecture, 4));
        REQUIRE(!ranks);
        CHECK(ranks.error().code() == ErrorCode::unsupported);
        CHECK(ranks.error().place() == std::string(architecture) + ".pooling_type");
    }
}

TEST_CASE("The length of texts is the max_seq_length of sentence_bert_config.json") {
    CHECK(!with_config("").value()->max_tokens.has_value());
    CHECK(!with_config(R"({"max_seq_length":null,"do_lower_case":false})").value()->max_tokens.has_value());
    auto const limited = with_config(R"({"max_seq_length":256,"do_lower_case":false})");
    REQUIRE(limited);
    CHECK((*limited)->max_tokens == 256);
    CHECK((*limited)->pooling == Pooling::cls);
    auto const none = with_config(R"({"max_seq_length":0})");
    REQUIRE(!none);
    CHECK(none.error().message().find("max_seq_length") != std::string::npos);
    auto const lower = with_config(R"({"max_seq_length":256,"do_lower_case":true})");
    REQUIRE(!lower);
    CHECK(lower.error().code() == ErrorCode::unsupported);
    CHECK(lower.error().place() == "do_lower_case");
}
