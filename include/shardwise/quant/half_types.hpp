// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The dtype of a C++ element type; only types that tensors have are known.
template <class T>
inline constexpr Dtype dtype_of = T::this_type_is_not_an_element_type;
template <>
inline constexpr Dtype dtype_of<double> = Dtype::f64;
template <>
inline constexpr Dtype dtype_of<float> = Dtype::f32;
template <>
inline constexpr Dtype dtype_of<Bfloat16> = Dtype::bf16;
template <>
inline constexpr Dtype dtype_of<Float16> = Dtype::f16;
template <>
inline constexpr Dtype dtype_of<std::int64_t> = Dtype::i64;
template <>
inline constexpr Dtype dtype_of<std::int32_t> = Dtype::i32;
template <>
inline constexpr Dtype dtype_of<std::int16_t> = Dtype::i16;
template <>
inline constexpr Dtype dtype_of<std::int8_t> = Dtype::i8;
template <>
inline constexpr Dtype dtype_of<std::uint8_t> = Dtype::u8;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
