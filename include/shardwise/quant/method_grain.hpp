// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/quant_scheme.hpp>
#include <shardwise/quant/weight.hpp>

#include <cstdint>
#include <numeric>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// The inputs of a packed weight that stay together in the format that it is held in once it is loaded.

[[nodiscard]] constexpr std::int64_t int4_grain(QuantScheme const& scheme, Weight const&) {
    return scheme.group > 0 ? std::lcm(std::int64_t{2}, scheme.group) : 2;
}
/// Rows that are not whole blocks are decoded.
[[nodiscard]] constexpr std::int64_t nf4_grain(QuantScheme const&, Weight const& weight) {
    return weight.inputs() % 64 == 0 ? 64 : 1;
}
[[nodiscard]] constexpr std::int64_t mxfp4_grain(QuantScheme const&, Weight const&) {
    return 32;
}
/// Q5_0 or Q8_0 where its blocks of 32 lie within groups, else decoded.
[[nodiscard]] constexpr std::int64_t block_grain(std::int64_t inputs, std::int64_t group) {
    return inputs % 32 == 0 && (group % 32 == 0 || group >= inputs) ? 32 : 1;
}
/// int4 in groups; a whole row's scale is repeated for every 128 inputs.
[[nodiscard]] constexpr std::int64_t int4_group_grain(std::int64_t group) {
    return group > 128 && group % 128 == 0 ? 128 : group;
}
/// int4 where all values fit.
///
/// Source  executor/assemble_packed.hpp (grouped_format), which knows the files themselves
[[nodiscard]] constexpr std::int64_t gptq_grain(QuantScheme const& scheme, Weight const& weight) {
    auto const group = scheme.group > 0 ? scheme.group : weight.inputs();
    if (scheme.desc_act) return 1;
    bool const is_int4 = scheme.bits < 4 || (scheme.bits == 4 && scheme.symmetric);
    if (is_int4 && group % 2 == 0) return int4_group_grain(group);
    return scheme.bits <= 4 || scheme.symmetric ? block_grain(weight.inputs(), group) : 1;
}
[[nodiscard]] constexpr std::int64_t awq_grain(QuantScheme const& scheme, Weight const& weight) {
    return block_grain(weight.inputs(), scheme.group > 0 ? scheme.group : weight.inputs());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
