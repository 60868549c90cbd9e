// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whether `quantize` knows a format: all but the K types, whose scales ggml finds by a search.
[[nodiscard]] constexpr bool can_quantize(WeightFormat format) {
    return traits(format).encode != nullptr;
}

namespace detail {

[[nodiscard]] inline Result<> check_quantized_format(WeightFormat format) {
    if (can_quantize(format)) return {};
    return Error{ErrorCode::unsupported}
        .in("quantize")
        .at(name_of(format))
        .because("weights are not quantized to this format here")
        .fix("quantize the checkpoint with llama.cpp, or use q4_0, q5_0 or q8_0");
}

/// Checks that a matrix is as large as the weight that it is made of or becomes.
template <class T, class Backend>
[[nodiscard]] Result<> check_quantized_shape(std::string_view kernel, bool is_output,
                                             TensorView<T, 2, Backend> const& matrix, std::int64_t outputs,
                                             std::int64_t inputs) {
    if (matrix.extent(0) == outputs && matrix.extent(1) == inputs) return {};
    bool const has_rows = matrix.extent(0) == outputs;
    Error error{ErrorCode::shape_mismatch};
    error.in(kernel);
    if (is_output) {
        error.because(has_rows ? "the output has another shape than the weight: its width"
                               : "the output has another shape than the weight: its rows");
    } else {
        error.because(has_rows ? "the input has another shape than the weight: its width"
                               : "the input has another shape than the weight: its rows");
    }
    return error.got(matrix.extent(has_rows ? 1 : 0)).expected(has_rows ? inputs : outputs);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
