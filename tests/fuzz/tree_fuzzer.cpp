// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/tree_json.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const file = read_tree({reinterpret_cast<char const*>(data), size}, "tree.json");
    if (!file) {
        if (file.error().message().empty()) std::abort();
        return 0;
    }
    auto const bytes = sum_tensors(file->tree, [](Tensor const& tensor) { return tensor.bytes().count(); });
    if (bytes < 0 && file->tree.ties().empty()) std::abort();
    // Folded or not, every name of the file leads to its tensor.
    walk_tensors(file->tree, [&file](std::string_view name, Tensor const& tensor) {
        auto const* const found = find_tensor(file->tree, name);
        if (found == nullptr || found->shape != tensor.shape) std::abort();
    });
    return 0;
}
