// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// The code points of runs such as "300-36f 483-489".
std::vector<char32_t> codes_of(std::string const& text) {
    std::vector<char32_t> codes;
    std::istringstream fields(text);
    std::string run;
    while (fields >> run) {
        auto const dash = run.find('-');
        REQUIRE(dash != std::string::npos);
        auto const last = std::stoul(run.substr(dash + 1), nullptr, 16);
        for (auto code = std::stoul(run, nullptr, 16); code <= last; ++code) {
            codes.push_back(static_cast<char32_t>(code));
        }
    }
    return codes;
}

}  // namespace

TEST_CASE("Metaspace `first` puts its mark before what remains of the first character, as tokenizers does") {
    auto const golden =
        read_text_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/first.txt", std::size_t{1} << 20U);
    REQUIRE(golden);
    std::istringstream lines(*golden);
    std::vector<char32_t> asked;
    std::string line;
    int count = 0;
    while (std::getline(lines, line)) {
        auto const tab = line.find('\t');
        REQUIRE(tab != std::string::npos);
        auto const codes = codes_of(line.substr(tab + 1));
        if (line.starts_with("asked")) {
            asked = codes;
            continue;
        }
        ++count;
        auto const normalizer = line.substr(0, tab);
        auto const tokenizer = parse_tokenizer_json(
            R"({"normalizer":)" + normalizer +
                R"(,"pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false},)"
                R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["\u2581",-1.0],["b",-1.0]]}})",
            "tokenizer.json");
        REQUIRE(tokenizer);
        std::vector<char32_t> bare;
        for (auto const code : asked) {
            auto const ids = tokenizer->encode(to_utf8(std::u32string{code, U'b'}));
            REQUIRE(ids);
            if (ids->empty() || ids->front() != 1) bare.push_back(code);
        }
        INFO(normalizer);
        std::vector<char32_t> differ;
        std::set_symmetric_difference(bare.begin(), bare.end(), codes.begin(), codes.end(), std::back_inserter(differ));
        CHECK(differ.size() == 0);
        if (!differ.empty()) {
            auto const first = static_cast<std::uint32_t>(differ[0]);
            CAPTURE(first);
            CHECK(differ.empty());
        }
    }
    CHECK(asked.size() > 5000);
    CHECK(count == 12);
}
