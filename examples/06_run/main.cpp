// SPDX-License-Identifier: Apache-2.0
#include <shardwise/session/complete_text.hpp>

#include <cstdio>

int main(int count, char** words) {
    if (count != 2) return std::puts("usage: example_06_run FOLDER|FILE.gguf"), 2;
    // Every rank is a thread that reads and holds its own shares of the weights.
    auto const text = shardwise::complete_text(words[1], "Once upon a time", 32, {.tp = 2});
    std::puts(text ? text->c_str() : text.error().message().c_str());
    return text ? 0 : 1;
}
