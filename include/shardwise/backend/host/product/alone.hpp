// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_avx2.hpp>
#include <shardwise/backend/host/product/quant_avx512.hpp>
#include <shardwise/backend/host/product/quant_neon.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

// Kernels that are included once for each instruction set level (*.inc) have nothing of their level where an editor parses them
// alone (`__INCLUDE_LEVEL__ == 0`): they take that of one of these, without its instruction set. The suite parses them so
// (ctest `headers.clang`, `headers.gcc`).
#if defined(SHARDWISE_HAS_X86_LEVELS)
namespace alone_level = quant_avx2;
namespace alone_byte_level = quant_avx512_bf16;
namespace alone {
/// ARM's levels alone have it.
quant_avx2::Ints signed_dot(quant_avx2::Ints sum, quant_avx2::Ints codes, quant_avx2::Ints factors);
}  // namespace alone
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
namespace alone_level = quant_neon;
namespace alone_byte_level = quant_neon_i8mm;
#endif

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
