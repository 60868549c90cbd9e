// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/gguf_metadata.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Refuses a GGUF file that does not state the epsilon of its norms: sizes do not depend on it, results do. A file that
/// names no architecture was described by something else.
///
/// Source  llama.cpp 0c1e570, src/llama-model.cpp: load_hparams requires one of these keys of every family here
/// Errors  missing_field with the key
[[nodiscard]] inline Result<> check_stated_epsilon(GgufMetadata const& metadata, std::string_view path) {
    auto const family = std::string(metadata.text("general.architecture"));
    if (family.empty()) return {};
    for (std::string_view const key : {".attention.layer_norm_rms_epsilon", ".attention.layer_norm_epsilon"}) {
        if (metadata.find(family + std::string(key))) return {};
    }
    return Error{ErrorCode::missing_field}
        .in(path)
        .at(family + ".attention.layer_norm_rms_epsilon")
        .because("is not stated, and norms have no epsilon that is known without it")
        .fix("convert the model again with llama.cpp's convert_hf_to_gguf.py");
}

/// True for a tensor of a GGUF file that belongs to a layer of the model, or to what stands around the layers, and so takes
/// part in what llama.cpp computes. Frequencies of rotations are read elsewhere; layers beyond the model's are those of
/// multi-token prediction.
[[nodiscard]] inline bool takes_part(std::string_view name, std::int64_t layers) {
    if (name.find("rope_f") != name.npos || name.find("attn_rot_embd") != name.npos) return false;
    for (std::string_view const part : {"blk.", "enc.blk.", "dec.blk."}) {
        if (!name.starts_with(part)) continue;
        auto const number = name.substr(part.size());
        std::int64_t layer = -1;
        (void)std::from_chars(number.data(), number.data() + number.size(), layer);
        return layer >= 0 && layer < layers;
    }
    constexpr std::array<std::string_view, 5> others{"output.bias", "output_norm.bias", "token_embd_norm.weight",
                                                     "token_embd_norm.bias", "position_embd.weight"};
    for (auto const other : others) {
        if (name == other) return true;
    }
    return false;
}

/// Refuses a GGUF file with tensors of the model's own layers that the family does not have: results without them are others.
///
/// Errors  unsupported with the tensor
[[nodiscard]] inline Result<> check_unused_tensors(std::vector<std::string> const& unused, std::int64_t layers,
                                                   std::string_view path) {
    for (auto const& name : unused) {
        if (!takes_part(name, layers)) continue;
        return Error{ErrorCode::unsupported}
            .in(path)
            .at(name)
            .because("is a tensor that this family does not have, and that changes what is computed")
            .fix("give a file of the model that its general.architecture names");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
