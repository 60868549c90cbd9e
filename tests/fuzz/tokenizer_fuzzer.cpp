// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a tokenizer.json or a GGUF vocabulary has: it is read or refused, and what is read encodes any text to
// ids that have tokens.
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_gguf.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>
#include <shardwise/tokenizer/streaming_decoder.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace shardwise;

namespace {

void use(Tokenizer const& tokenizer, std::string_view text) {
    auto const ids = tokenizer.encode(text);
    if (!ids) return;
    StreamingDecoder decoder(tokenizer);
    for (auto const id : *ids) {
        // An id that a template or a vocabulary without its unknown token names may have no token.
        if (!tokenizer.token(id)) return;
        auto const part = decoder.push(id);
        if (!part) return;
        if (to_valid_utf8(*part) != *part) std::abort();
    }
    static_cast<void>(decoder.finish());
    static_cast<void>(tokenizer.decode(*ids));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    std::string_view const bytes{reinterpret_cast<char const*>(data), size};
    // The text to encode is what follows the first NUL, where there is one.
    auto const end = bytes.starts_with("GGUF") ? std::string_view::npos : bytes.find('\0');
    auto const file = bytes.substr(0, end);
    std::string const text = end == std::string_view::npos ? "Hello  w\xC3\xB6rld\n <s> \xF0\x9F\x98\x80\xFF 123"
                                                           : std::string(bytes.substr(end + 1));
    if (bytes.starts_with("GGUF")) {
        auto const header = parse_gguf(file, "input");
        if (!header) return 0;
        auto const tokenizer = read_gguf_tokenizer(header->metadata, "input");
        if (tokenizer) use(*tokenizer, text);
        return 0;
    }
    auto const tokenizer = parse_tokenizer_json(file, "input");
    if (tokenizer) use(*tokenizer, text);
    return 0;
}
