// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/enumerator_count.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the weights of a model are packed.
enum class QuantMethod : std::uint8_t {
    int8,       // bitsandbytes LLM.int8: a row's absmax in fp32
    int4,       // ours: symmetric, an fp16 scale for each group of a row
    nf4,        // bitsandbytes, normal-float code
    fp4,        // bitsandbytes, float code
    fp8,        // E4M3 with a scale for the matrix or for blocks of it
    gptq,       // AutoGPTQ / GPTQModel
    awq,        // AutoAWQ, gemm version
    mxfp4,      // OCP MX blocks of 32 with a power of two, experts only (gpt-oss)
    ggml_file,  // GGUF as llama.cpp's quantiser mixes it
    ggml_pure,  // GGUF, every matrix in one type
};
inline constexpr std::size_t quant_method_count = enumerator_count<QuantMethod>();

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
