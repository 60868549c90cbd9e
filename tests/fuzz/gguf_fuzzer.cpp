// SPDX-License-Identifier: Apache-2.0
// A GGUF file of any bytes: its header is read or refused, and what was read is taken as far as a model with its sizes.
#include <shardwise/model/files/checkpoint_match.hpp>
#include <shardwise/model/files/checkpoint_tree.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/gguf_config.hpp>
#include <shardwise/model/files/tree_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const header = parse_gguf({reinterpret_cast<char const*>(data), size}, "fuzz");
    if (!header) return 0;
    std::vector<FileTensor> tensors;
    for (auto const& tensor : header->tensors) {
        if (tensor.offset + tensor.bytes.count() > static_cast<std::int64_t>(size)) std::abort();
        tensors.push_back({tensor.name, tensor.shape, tensor.bytes.count(), Dtype::f16});
    }
    (void)tree_from_names(
        tensors.size(), [&tensors](std::uint32_t i) { return tensors[i]; }, "fuzz");
    auto const config = read_gguf_config(*header, "fuzz");
    if (!config) return 0;
    auto const model = describe(*config);
    if (!model || !check_tree_limits(model->tree)) return 0;
    TreeTensors const tree(model->tree);
    if (tree.size() > 100'000) return 0;
    CheckpointMatcher matcher(tree, *model->family, "fuzz", CheckpointMatcher::Layout::gguf, config->layers);
    for (auto const& tensor : tensors) matcher.add(tensor);
    std::vector<std::string> warnings;
    auto const stored = matcher.finish(warnings);
    if (stored) (void)with_stored_sizes(tree, *stored);
    return 0;
}
