// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a chat template has: it is refused, or ends within its limits with text that is UTF-8.
#include <shardwise/tokenizer/chat_template.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const layout = ChatTemplate::parse({reinterpret_cast<char const*>(data), size});
    if (!layout) {
        if (layout.error().message().empty()) std::abort();
        return 0;
    }
    std::array const messages{ChatMessage{ChatRole::system, "Be brief."},
                              ChatMessage{ChatRole::user, "Gr\xC3\xBC\xC3\x9F dich"},
                              ChatMessage{ChatRole::assistant, " yes\n"}, ChatMessage{ChatRole::user, "1 < 2"}};
    std::array<std::pair<std::string, std::string>, 2> const tokens{{{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
    auto const text = layout->render({.messages = messages, .special_tokens = tokens},
                                     {.steps = 20'000, .bytes = std::uint64_t{1} << 20U, .depth = 250});
    if (!text) {
        if (text.error().message().empty()) std::abort();
        return 0;
    }
    if (to_valid_utf8(*text) != *text) std::abort();
    return 0;
}
