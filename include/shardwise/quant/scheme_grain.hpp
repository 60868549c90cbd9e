// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/quantized_bytes.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The inputs of a weight that stay together where shardwise loads it as the scheme packs it: a block of the format that it is held in,
/// or what shares a scale. 1 for what is not packed, and for formats that are decoded while they are loaded.
///
/// Units  elements of a row
[[nodiscard]] constexpr std::int64_t scheme_grain(QuantScheme const& scheme, Weight const& weight,
                                                  MixtureModel const& model = {}) {
    if (!packs(scheme, weight, model)) return 1;
    if (!scheme.is_ggml()) {
        auto const grain = traits(scheme.method).grain;
        return grain == nullptr ? 1 : grain(scheme, weight);
    }
    auto const type = scheme.method == QuantMethod::ggml_file ? stored_type(scheme.file_type, weight, model)
                                                              : stored_type(scheme.type, weight);
    return traits(type).is_multiplied ? traits(type).block_elements : 1;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
