// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/described_sizes.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const file = read_config({reinterpret_cast<char const*>(data), size}, "config.json");
    if (!file) {
        if (file.error().message().empty()) std::abort();
        return 0;
    }
    // What the reader accepts, the family describes, and its sizes stay within 63 bits (UBSan watches).
    auto const model = describe(file->config);
    if (!model || count_parameters(model->tree) < 0) std::abort();
    auto const bytes = sum_tensors(model->tree, [](Tensor const& tensor) { return tensor.bytes().count(); });
    if (bytes < 0) std::abort();
    // So do the sizes that a packing gives to the modules that it does not keep.
    TreeTensors const tensors(model->tree);
    if (!file->quantization || tensors.size() > 2000 || size > 20'000) return 0;
    auto const packed = described_sizes(tensors, model->config, *file->quantization);
    if (!packed) return packed.error().message().empty() ? (std::abort(), 0) : 0;
    auto const stored = with_stored_sizes(tensors, *packed);
    if (sum_tensors(stored, [](Tensor const& tensor) { return tensor.bytes().count(); }) < 0) std::abort();
    return 0;
}
