// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("estimate: the JSON has every field, and devices add up to the sums") {
    auto const ran = run({"estimate", "llama-3-8b", "--dtype", "bf16", "--context", "8192", "--json"});
    CHECK(ran.status == 0);
    CHECK(ran.err.empty());
    Answer const answer(ran.out);
    CHECK(answer.text("schema") == "shardwise.estimate/1");
    CHECK(answer.text("model", "name") == "llama-3-8b");
    CHECK(answer.text("model", "architecture") == "LlamaForCausalLM");
    // 8,030,261,248 parameters: the model card of Meta-Llama-3-8B; 2 bytes each, and no buffer that files store.
    CHECK(answer.integer("model", "parameters") == 8'030'261'248);
    CHECK(answer.integer("model", "active_parameters") == 8'030'261'248);
    CHECK(answer.integer("bytes", "weights") == 2 * 8'030'261'248);
    // 32 layers * 8 heads * 128 * (key and value) * 2 bytes
    CHECK(answer.integer("kv_bytes_per_token") == 131'072);
    CHECK(answer.integer("bytes", "kv_cache") == 131'072 * 8192);
    CHECK(answer.integer("bytes", "gradients") == 0);
    std::int64_t total = 0;
    for (char const* const term : {"weights", "kv_cache", "activations", "gradients", "optimizer", "overhead"}) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < answer.size("devices"); ++i) sum += answer.integer("devices", i, term);
        CHECK(sum == answer.integer("bytes", term));
        total += sum;
    }
    CHECK(total == answer.integer("bytes", "total"));
    std::int64_t weights = 0;
    for (std::size_t i = 0; i < answer.size("modules"); ++i) {
        weights += answer.integer("modules", i, "count") * answer.integer("modules", i, "weights");
    }
    CHECK(weights == answer.integer("bytes", "weights"));
}

TEST_CASE("estimate, map: a quantisation that packs nothing of the model is a warning") {
    std::string const warning = "mxfp4 packs the weights of experts only, and this model has none: it stays bf16";
    CHECK(run({"estimate", "llama-3-8b", "--quant", "mxfp4"}).err == "shardwise: warning: " + warning + "\n");
    CHECK(run({"map", "llama-3-8b", "--devices", "1xRTX4090", "--quant", "mxfp4"}).says(warning));
    CHECK(run({"estimate", "mixtral-8x7b", "--quant", "mxfp4"}).err.empty());
    CHECK(run({"estimate", "llama-3-8b", "--quant", "int4"}).err.empty());
}

TEST_CASE("estimate: the context that was not given is stated, one beyond the maximum is a warning") {
    auto const without = run({"estimate", "llama-3-8b"});
    CHECK(without.out.find("context 4,096 (by default)") != std::string::npos);
    CHECK(without.err.empty());
    auto const beyond = run({"estimate", "llama-3-8b", "--context", "9000", "--json"});
    CHECK(beyond.status == 0);
    CHECK(beyond.says("9,000 tokens is beyond the model's maximum of 8,192"));
    CHECK(Answer(beyond.out).size("warnings") == 1);
}

TEST_CASE("estimate: the chunk of prefills is stated, and what computes whole prompts says that") {
    auto const said = [](std::vector<std::string> words) {
        words.insert(words.begin(), "estimate");
        auto const out = run(words).out;
        return out.substr(out.find("assumed"));
    };
    CHECK(said({"llama-3-8b"}).find("chunks of at most 8,192 tokens of all sequences") != std::string::npos);
    CHECK(said({"llama-3-8b", "--prefill-chunk", "512"}).find("at most 512 tokens") != std::string::npos);
    CHECK(said({"llama-3-8b", "--prefill-chunk", "none"}).find("the whole prompt") != std::string::npos);
    CHECK(said({"t5-base"}).find("the whole prompt") != std::string::npos);
    CHECK(said({"llama-3-8b", "--training", "adam"}).find("prompt") == std::string::npos);
    auto const activations = [](std::vector<std::string> words) {
        words.insert(words.begin(), {"estimate", "--json", "--batch", "4", "--context", "4096"});
        return Answer(run(words).out).integer("bytes", "activations");
    };
    // 8192 of 16384 tokens.
    CHECK(2 * activations({"llama-3-8b"}) == activations({"llama-3-8b", "--prefill-chunk", "none"}));
    CHECK(activations({"llama-3-8b", "--training", "adam"}) ==
          activations({"llama-3-8b", "--training", "adam", "--prefill-chunk", "16"}));
    CHECK(activations({"t5-base"}) == activations({"t5-base", "--prefill-chunk", "16"}));
}

TEST_CASE("estimate: every rank is listed") {
    Answer const answer(run({"estimate", "mixtral-8x7b", "--tp", "2", "--pp", "2", "--ep", "2", "--json"}).out);
    CHECK(answer.size("devices") == 8);
    CHECK(answer.integer("devices", std::size_t{7}, "rank", "pp") == 1);
    // 46.7B parameters, 12.9B for a token: Mistral AI's announcement of Mixtral 8x7B.
    CHECK(answer.integer("model", "parameters") == 46'702'792'704);
    CHECK(answer.integer("model", "active_parameters") / 100'000'000 == 128);
}

TEST_CASE("estimate: training shows gradients and optimizer, and conventions are named modes") {
    Answer const adam(
        run({"estimate", "llama-3-8b", "--training", "adam", "--dtype", "bf16", "--convention", "zero", "--json"}).out);
    // The ZeRO paper: 2 + 2 + 12 bytes a parameter.
    CHECK(adam.integer("bytes", "total") == 16 * 8'030'261'248);
    CHECK(run({"estimate", "llama-3-8b", "--training", "sgd", "--zero", "3", "--dp", "8", "--recompute", "full"})
              .status == 0);
}

TEST_CASE("estimate: what train allocates is what train predicts and holds itself to, or says why it does not run") {
    TemporaryFolder const folder;
    std::string ids;
    for (int i = 0; i < 400; ++i) ids += {static_cast<char>(i % 97), '\0'};
    auto const data = folder.write("ids.u16", ids);
    using Words = std::vector<std::string>;
    int number = 0;
    auto const check = [&](Words ways, Words estimated, Words trained, std::size_t ranks) {
        auto const out = folder / ("out" + std::to_string(number++));
        Words of_estimate{"estimate", "demo", "--training", "adam", "--context", "32", "--json"};
        Words of_train{"train",   "demo", "--data",       data, "--out",  out,           "--context", "32",
                       "--steps", "2",    "--save-every", "1",  "--json", "--precision", "fp32"};
        for (auto const* const words : {&ways, &estimated})
            of_estimate.insert(of_estimate.end(), words->begin(), words->end());
        for (auto const* const words : {&ways, &trained}) of_train.insert(of_train.end(), words->begin(), words->end());
        Answer const estimate(run(of_estimate).out);
        auto const done = run(of_train);
        CHECK_MESSAGE(done.status == 0, done.err);
        Answer const train(done.out);
        CHECK(estimate.size("train", "ranks") == ranks);
        CHECK(estimate.size("devices") == ranks);
        auto const degree = [&](char const* name) { return estimate.integer("request", name); };
        std::int64_t sum = 0;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            auto const total = estimate.integer("train", "ranks", rank, "total");
            CHECK(total > 0);
            CHECK(total == train.integer("memory", "ranks", rank, "predicted"));
            CHECK(total == train.integer("memory", "ranks", rank, "peak"));
            sum += total;
            // The table is of the same bytes.
            auto const place = [&](char const* name) { return estimate.integer("devices", rank, "rank", name); };
            auto const number_of =
                static_cast<std::size_t>((place("dp") * degree("pp") + place("pp")) * degree("tp") + place("tp"));
            auto const of = [&](char const* name) { return estimate.integer("train", "ranks", number_of, name); };
            auto const term = [&](char const* name) { return estimate.integer("devices", rank, name); };
            CHECK(term("total") == of("total"));
            CHECK(term("weights") == of("weights") + of("gathered"));
            CHECK(term("gradients") == of("gradients"));
            CHECK(term("optimizer") == of("optimizer"));
            CHECK(term("activations") == of("activations") + of("batch") + of("stages"));
            CHECK(term("overhead") == of("staging"));
        }
        CHECK(estimate.integer("bytes", "total") == sum);
    };
    // Threads that are data-parallel alone train one copy of the weights; the estimate is of ranks that have their own.
    check({"--dp", "2", "--zero", "1", "--recompute", "full"}, {"--batch", "2"},
          {"--batch", "4", "--micro-batch", "2", "--ranks", "processes"}, 2);
    check({"--dp", "2", "--zero", "3"}, {"--batch", "2"}, {"--batch", "4", "--micro-batch", "2"}, 2);
    check({"--pp", "2", "--dp", "2", "--zero", "0"}, {"--batch", "3", "--micro-batches", "3"},
          {"--batch", "6", "--micro-batch", "1"}, 4);
    // A batch for each stage where it is not said how many micro-batches there are.
    check({"--pp", "2", "--tp", "2"}, {"--batch", "2"}, {"--batch", "4", "--micro-batch", "2"}, 4);
    check({"--dp", "1", "--offload", "optimizer"}, {}, {"--batch", "1"}, 1);
    check({"--dp", "2", "--zero", "3", "--offload", "all"}, {"--batch", "1"}, {"--batch", "2", "--micro-batch", "1"},
          2);
    // Of an adapter and the base that stays as it is, packed or not.
    check({"--lora", "2", "--lora-targets", "q_proj,down_proj", "--tp", "2"}, {"--batch", "2"},
          {"--batch", "2", "--micro-batch", "2"}, 2);
    check({"--lora", "2", "--quant", "int8"}, {}, {"--batch", "1"}, 1);
    auto const reason = [](Words const& ways) {
        Words words{"estimate", "demo", "--training", "adam", "--json"};
        words.insert(words.end(), ways.begin(), ways.end());
        return Answer(run(words).out).text("train", "reason");
    };
    CHECK(reason({"--tp", "2", "--sequence-parallel"}) == "it has data- and tensor-parallel ranks and stages alone");
    CHECK(Answer(run({"estimate", "demo", "--json"}).out).is_null("train"));
    Answer const packed(
        run({"estimate", SHARDWISE_SOURCE_DIR "/tests/golden/gguf/phi3-q8_0.gguf", "--training", "adam", "--json"})
            .out);
    CHECK(packed.text("train", "reason") == "packed weights and GGUF files are trained with an adapter alone");
    CHECK(reason({"--attention", "eager"}) == "its attention never keeps the matrix of probabilities");
    // What does not run, and other conventions, are counted as before: a GPU's runtime, and weights in 16 bits.
    Answer const others(
        run({"estimate", "demo", "--training", "adam", "--dtype", "bf16", "--attention", "eager", "--json"}).out);
    CHECK(others.integer("devices", std::size_t{0}, "overhead") == 512 << 20);
    CHECK(others.integer("bytes", "weights") == 2 * others.integer("model", "parameters"));
    auto const text = run({"estimate", "demo", "--training", "adam", "--context", "32"}).out;
    CHECK(text.find("devices have what shardwise train") != std::string::npos);
}

TEST_CASE("estimate: the text shows terms per device and per module") {
    auto const text = run({"estimate", "llama-3-70b", "--tp", "4"}).out;
    for (std::string const part :
         {"rank", "0-3", "weights", "kv cache", "activations", "overhead", "model.layers.0-79", "assumed"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
}

TEST_CASE("estimate: a config.json is a MODEL, and a missing field is named") {
    auto const golden = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs/llama-3.1-405b.json";
    Answer const answer(run({"estimate", golden, "--json"}).out);
    CHECK(answer.integer("model", "parameters") == 405'853'388'800);
    TemporaryFolder const folder;
    auto const ran = run({"estimate", folder.write("config.json", R"({"hidden_size": 64})")});
    CHECK(ran.status == 1);
    CHECK(ran.says("model_type"));
    auto const odd = run({"estimate", folder.write("odd.json", R"({"model_type": "llame"})")});
    CHECK(odd.status == 1);
    CHECK(odd.says("llama"));
}

TEST_CASE("estimate --lora: needs no weights, and is refused where train does not run it") {
    auto const estimate = [](std::string const& model, std::vector<std::string> const& more) {
        std::vector<std::string> words{"estimate", model,    "--training", "adam",  "--context",
                                       "32",       "--lora", "2",          "--json"};
        words.insert(words.end(), more.begin(), more.end());
        return run(words);
    };
    for (auto const& more : std::vector<std::vector<std::string>>{{}, {"--quant", "int8"}}) {
        Answer const files(estimate("demo", more).out);
        Answer const config(estimate(SHARDWISE_SOURCE_DIR "/share/shardwise/demo/config.json", more).out);
        CHECK(files.integer("train", "adapter", "rank") == 2);
        CHECK(files.integer("train", "adapter", "parameters") > 0);
        for (auto const* const name : {"weights", "optimizer", "activations", "total"})
            CHECK(files.integer("train", "ranks", std::size_t{0}, name) ==
                  config.integer("train", "ranks", std::size_t{0}, name));
    }
    // Of 8 billion parameters the products take 4 bits and a scale of 32 bits for each 64.
    Answer const eight(estimate("llama-3-8b", {"--quant", "nf4"}).out);
    CHECK(eight.integer("train", "ranks", std::size_t{0}, "weights") > 4'000'000'000);
    CHECK(eight.integer("train", "ranks", std::size_t{0}, "total") < 9'000'000'000);

    std::vector<std::string> words{"estimate", "demo", "--training", "adam", "--lora", "2", "--json"};
    auto const all = run(words);
    words.insert(words.end(), {"--lora-targets", "all-linear"});
    CHECK(run(words).out == all.out);

    struct Case {
        std::vector<std::string> words;
        int status;
        char const* says;
    };
    for (auto const& one : std::vector<Case>{
             {{"estimate", "demo", "--lora", "2"}, 2, "--lora: is of training; add --training adam"},
             {{"estimate", "demo", "--training", "adam", "--convention", "zero", "--lora", "2"},
              2,
              "leave out --convention"},
             {{"estimate", "demo", "--training", "adam", "--lora-targets", "q_proj"}, 2, "add --lora R"},
             {{"estimate", "demo", "--training", "adam", "--lora", "2", "--lora-targets", "q_prj"}, 1, "q_proj"},
             {{"estimate", "mixtral-8x7b", "--training", "adam", "--lora", "2"},
              1,
              "--lora: shardwise train does not run this"}}) {
        CAPTURE(one.says);
        auto const ran = run(one.words);
        CHECK_MESSAGE(ran.status == one.status, ran.err);
        CHECK_MESSAGE(ran.says(one.says), ran.err);
    }
}
