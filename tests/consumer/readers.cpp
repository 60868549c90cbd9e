// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>
#include <cstdio>

int main() {
    auto const document = shardwise::parse_json(R"({"layers": 32})");
    std::printf("layers: %lld\n", static_cast<long long>(document->root().find("layers")->integer().value()));
}
