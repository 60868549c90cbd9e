// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether a processor of AMD's multiplies small matrices of bfloat16 by a unit of its own that MatrixTile<HipApi> takes: MFMA of CDNA 2
/// and 3, WMMA of RDNA 3. It chooses as backend/detail/matrix_tile.cuh does where kernels are compiled.
[[nodiscard]] constexpr bool has_amd_matrix_unit(std::string_view processor) {
    for (std::string_view const name : {"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx11"}) {
        if (processor.starts_with(name)) return true;
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
