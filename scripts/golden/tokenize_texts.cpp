// SPDX-License-Identifier: Apache-2.0
// The program that scripts/golden/tokenizers_*.py and llama_vocabularies.py compare with other tokenizers:
// tokenize_texts FILE reads texts that end with \x01 and writes, for each, its ids, and after \x02 each the text, the text
// with special tokens and the text streamed, and \x01. With --plain, nothing is put before or after a text.
// Build: g++ -std=c++20 -O2 -Iinclude scripts/golden/tokenize_texts.cpp -o tokenize_texts
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>
#include <shardwise/tokenizer/streaming_decoder.hpp>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

using namespace shardwise;

int main(int count, char** arguments) {
    if (count < 2) return 2;
    auto const source = find_model(arguments[1], {}, HubCache(HubEnvironment::current()));
    auto const loaded = source ? load_tokenizer(*source) : Result<LoadedTokenizer>(source.error());
    if (!loaded) {
        std::fprintf(stderr, "%s\n", loaded.error().message().c_str());
        return 1;
    }
    EncodeOptions options;
    options.adds_special = count < 3 || std::string_view(arguments[2]) != "--plain";
    std::string const input(std::istreambuf_iterator<char>(std::cin), {});
    std::string out;
    for (std::size_t at = 0, end = 0; (end = input.find('\x01', at)) != std::string::npos; at = end + 1) {
        auto const ids = loaded->tokenizer.encode(std::string_view(input).substr(at, end - at), options);
        if (!ids) {
            out += ids.error().message() + '\x01';
            continue;
        }
        StreamingDecoder decoder(loaded->tokenizer);
        std::string streamed;
        for (auto const id : *ids) {
            out += std::to_string(id) + ' ';
            streamed += decoder.push(id).value_or("");
        }
        out += '\x02' + loaded->tokenizer.decode(*ids).value_or("") + '\x02' +
               loaded->tokenizer.decode(*ids, false).value_or("") + '\x02' + streamed + decoder.finish() + '\x01';
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
    return 0;
}
