// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/tokenize_file.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <filesystem>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct Read {
    std::vector<TokenId> ids;
    std::vector<std::uint8_t> counts;
};

Tokenizer tokenizer_of(std::string const& name) {
    auto const path = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/tokenizer/" + name;
    return std::move(*parse_tokenizer_json(*read_text_file(path, 1 << 20), path));
}

Read read_all(TokenFile const& file) {
    auto const size = static_cast<std::size_t>(file.tokens());
    Read out{std::vector<TokenId>(size), std::vector<std::uint8_t>(size)};
    REQUIRE(file.read(0, INT32_MAX, out.ids, out.counts));
    return out;
}

std::vector<std::string> names_in(std::string const& folder) {
    std::vector<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
    return names;
}

}  // namespace

TEST_CASE("tokenize_file: a text is one document with the end token after it") {
    TemporaryFolder const folder;
    auto const tokenizer = tokenizer_of("gpt2.json");
    std::string const text = "Hello there,\nworld of words.\n";
    auto const file = tokenize_file(folder.write("a.txt", text), tokenizer, {5, folder.path(), "t"});
    REQUIRE(file);
    auto expected = *tokenizer.encode(text);
    expected.push_back(5);
    auto const got = read_all(*file);
    CHECK(got.ids == expected);
    CHECK(got.counts == std::vector<std::uint8_t>(expected.size(), 1));
    CHECK_FALSE(file->has_loss());
}

TEST_CASE("tokenize_file: of a prompt and a completion only the completion counts, with the end token") {
    TemporaryFolder const folder;
    auto const tokenizer = tokenizer_of("llama2.json");
    auto const path = folder.write("a.jsonl",
                                   "{\"text\": \"Once upon\", \"id\": 7}\n\n"
                                   "{\"prompt\": \"Say:\", \"completion\": \" yes\"}\r\n"
                                   "{\"text\": \"\"}\n{\"prompt\": \"A\", \"completion\": \"B\"}");
    auto const file = tokenize_file(path, tokenizer, {2, folder.path(), "t"});
    REQUIRE(file);
    Read expected;
    auto const add = [&](std::string_view text, bool is_first, std::uint8_t counts) {
        auto const ids = *tokenizer.encode(text, {.adds_special = is_first, .finds_special = true});
        for (auto const id : ids) {
            expected.ids.push_back(id);
            expected.counts.push_back(counts);
        }
    };
    auto const end = [&] {
        expected.ids.push_back(2);
        expected.counts.push_back(1);
    };
    add("Once upon", true, 1);
    end();
    add("Say:", true, 0);
    add(" yes", false, 1);
    end();
    add("", true, 1);
    end();
    add("A", true, 0);
    add("B", false, 1);
    end();
    auto const got = read_all(*file);
    CHECK(got.ids == expected.ids);
    CHECK(got.counts == expected.counts);
    REQUIRE(file->has_loss());

    // A batch ignores what does not count.
    std::vector<TokenFile> files;
    files.push_back(std::move(*TokenFile::open_cache(file->path())));
    auto const dataset = TokenDataset::create(std::move(files), 1 << 20);
    auto const context = dataset->tokens() - 1;
    auto batches = Batches::create(*dataset, {0, dataset->tokens()}, {.context = context, .batch = 1});
    std::vector<std::int32_t> ids(static_cast<std::size_t>(context));
    std::vector<std::int32_t> targets(ids.size());
    REQUIRE(batches->read(0, {0, 1}, {ids.data(), {1, context}}, {targets.data(), {1, context}}));
    for (std::size_t i = 0; i < targets.size(); ++i)
        CHECK(targets[i] == (expected.counts[i + 1] != 0 ? expected.ids[i + 1] : Batches::ignored));
}

TEST_CASE("tokenize_file: of a chat the answers count, and neither the rest nor the token between chats") {
    TemporaryFolder const folder;
    auto const tokenizer = tokenizer_of("gpt2.json");
    auto const path = folder.write(
        "a.jsonl", R"({"messages": [{"role": "user", "content": "Say:"}, {"role": "assistant", "content": "yes"}]})"
                   "\n"
                   R"({"text": "Hello"})");
    TokenizeOptions options{5, folder.path(), "t"};
    options.chat_template =
        "{{ eos_token }}{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    options.special_tokens = {{"eos_token", "<|endoftext|>"}};
    auto const file = tokenize_file(path, tokenizer, options);
    REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
    auto const got = read_all(*file);
    auto const chat = *tokenizer.encode("<|endoftext|>[user]Say:[assistant]yes", {.adds_special = false});
    auto const text = *tokenizer.encode("Hello");
    auto const answer = *tokenizer.encode("yes", {.adds_special = false});
    auto expected = chat;
    expected.push_back(5);
    expected.insert(expected.end(), text.begin(), text.end());
    expected.push_back(5);
    CHECK(got.ids == expected);
    std::vector<std::uint8_t> counts(chat.size() - answer.size(), 0);
    counts.insert(counts.end(), answer.size(), 1);
    counts.push_back(0);
    counts.insert(counts.end(), text.size() + 1, 1);
    CHECK(got.counts == counts);
}

TEST_CASE("tokenize_file: once for contents, tokenizer and options; again where a cache was changed") {
    TemporaryFolder const folder;
    TemporaryFolder const caches;
    auto const gpt2 = tokenizer_of("gpt2.json");
    auto const path = folder.write("a.txt", "Hello there");
    auto const first = tokenize_file(path, gpt2, {5, caches.path(), "gpt2"});
    REQUIRE(first);
    auto const good = read_all(*first).ids;
    // From the cache alone: the tokenizer that is given is not asked.
    auto const again =
        tokenize_file(folder.write("b.txt", "Hello there"), tokenizer_of("llama2.json"), {5, caches.path(), "gpt2"});
    REQUIRE(again);
    CHECK(again->path() == first->path());
    CHECK(read_all(*again).ids == good);
    CHECK(names_in(caches.path()).size() == 1);
    // Another end, another tokenizer, other contents, the same contents as lines.
    REQUIRE(tokenize_file(path, gpt2, {6, caches.path(), "gpt2"}));
    REQUIRE(tokenize_file(path, gpt2, {5, caches.path(), "other"}));
    REQUIRE(tokenize_file(folder.write("c.txt", "Hello"), gpt2, {5, caches.path(), "gpt2"}));
    auto const line = std::string("{\"text\": \"Hello there\"}");
    auto const as_text = tokenize_file(folder.write("d.txt", line), gpt2, {5, caches.path(), "gpt2"});
    auto const as_lines = tokenize_file(folder.write("d.jsonl", line), gpt2, {5, caches.path(), "gpt2"});
    REQUIRE(as_text);
    REQUIRE(as_lines);
    CHECK(read_all(*as_lines).ids == good);
    CHECK(read_all(*as_text).ids != good);
    CHECK(names_in(caches.path()).size() == 6);

    // Every byte that is flipped, and every cut, is noticed.
    auto const cache = first->path();
    auto const whole = *read_text_file(cache, 1 << 20);
    for (std::size_t i = 0; i < whole.size(); ++i) {
        auto broken = whole;
        broken[i] = static_cast<char>(broken[i] ^ 4);
        std::ofstream(cache, std::ios::binary) << broken;
        CHECK_FALSE(TokenFile::open_cache(cache));
        std::ofstream(cache, std::ios::binary) << whole.substr(0, i);
        CHECK_FALSE(TokenFile::open_cache(cache));
    }
    auto const mended = tokenize_file(path, gpt2, {5, caches.path(), "gpt2"});
    REQUIRE(mended);
    CHECK(read_all(*mended).ids == good);
    CHECK(*read_text_file(cache, 1 << 20) == whole);
}

TEST_CASE("tokenize_file: a line that is none is refused by its number and byte, and nothing is kept") {
    TemporaryFolder const folder;
    TemporaryFolder const caches;
    auto const tokenizer = tokenizer_of("gpt2.json");
    auto const message = [&](std::string const& text, std::optional<TokenId> end = 5) {
        auto const file = tokenize_file(folder.write("a.jsonl", text), tokenizer, {end, caches.path(), "t"});
        REQUIRE_FALSE(file);
        CHECK(names_in(caches.path()).empty());
        CHECK(file.error().subject() == folder / "a.jsonl");
        return std::string(file.error().place()) + ": " + std::string(file.error().reason());
    };
    std::string const good = "{\"text\": \"a\"}\n";
    CHECK(message(good + "[1]\n") == "line 2, byte 14: is no object");
    CHECK(message(good + "\n{\"text\": 3}") == "line 3, byte 15: has a text that is no string");
    CHECK(message("{\"prompt\": \"a\"}") == "line 1, byte 0: has no prompt or no completion that is a string");
    CHECK(message("{\"prompt\": \"a\", \"completion\": null}") ==
          "line 1, byte 0: has no prompt or no completion that is a string");
    CHECK(message("{\"text\": \"a\", \"prompt\": \"a\"}") == "line 1, byte 0: is a text and a prompt");
    CHECK(message("{\"other\": \"a\"}") == "line 1, byte 0: is no text, no prompt and no chat");
    CHECK(message("{\"messages\": []}") == "line 1, byte 0: is a chat, and the model has no chat template");
    CHECK(message("{\"messages\": [], \"text\": \"a\"}") == "line 1, byte 0: is a chat and a text or a prompt");
    CHECK(message(good + "{\"text\": \"a}").starts_with("line 2, byte 14: "));
    CHECK(message(good + good, std::nullopt) == ": has several documents, and there is no token to stand between them");
    CHECK(tokenize_file(folder / "none.txt", tokenizer, {5, caches.path(), "t"}).error().code() ==
          ErrorCode::file_not_found);
    CHECK(tokenize_file(folder.write("b.txt", "a"), tokenizer, {5, folder / "none", "t"}).error().code() ==
          ErrorCode::file_unwritable);
    // Of one document there is nothing between.
    auto const one = tokenize_file(folder.write("b.txt", "a"), tokenizer, {std::nullopt, caches.path(), "t"});
    REQUIRE(one);
    CHECK(read_all(*one).ids == *tokenizer.encode("a"));
}
