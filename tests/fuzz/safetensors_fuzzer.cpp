// SPDX-License-Identifier: Apache-2.0
// A safetensors file of any bytes: its header is read or refused, and what was read can be made a tree.
#include <shardwise/model/files/checkpoint_tree.hpp>
#include <shardwise/model/files/safetensors_reader.hpp>
#include <shardwise/model/files/tree_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    std::string_view const file{reinterpret_cast<char const*>(data), size};
    auto const length = safetensors_header_length(file.substr(0, 8), size, "fuzz");
    if (!length) return 0;
    // A file that claims data beyond the input has them: most inputs would end here otherwise.
    auto const json = file.substr(8, static_cast<std::size_t>(*length));
    auto const left = static_cast<std::int64_t>(size - 8 - *length);
    for (auto const data_size : {left, left * 1'000'000'007}) {
        auto const header = parse_safetensors_header(json, data_size, "fuzz");
        if (!header) continue;
        std::vector<FileTensor> tensors;
        std::int64_t total = 0;
        for (std::size_t i = 0; i < header->size(); ++i) {
            auto const tensor = (*header)[i];
            if (tensor.offset != total) std::abort();
            total += tensor.bytes.count();
            tensors.push_back({tensor.name, tensor.shape, tensor.bytes.count(), tensor.dtype});
        }
        if (total != data_size) std::abort();
        auto const tree = tree_from_names(
            tensors.size(), [&tensors](std::uint32_t i) { return tensors[i]; }, "fuzz");
        if (tree) (void)check_tree_limits(*tree);
    }
    return 0;
}
