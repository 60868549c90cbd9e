// SPDX-License-Identifier: Apache-2.0
// An index of any bytes is read or refused; its shards stay below the folder.
#include <shardwise/model/files/checkpoint_index.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const index = parse_checkpoint_index({reinterpret_cast<char const*>(data), size}, "fuzz");
    if (!index) return 0;
    if (index->shard_of.size() != index->tensors.size()) std::abort();
    for (auto const shard : index->shard_of) {
        auto const name = index->shards[shard];
        if (name.empty() || name.front() == '/' || name == ".." || name.substr(0, 3) == "../") std::abort();
    }
    for (std::size_t i = 0; i < index->tensors.size(); ++i) {
        if (index->tensors.find(index->tensors[i]) != i) std::abort();
    }
    return 0;
}
