// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/deploy/deploy_request.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The word of an engine for a quantisation that it applies or reads where the checkpoint does not say so: "" where it
/// says nothing (files of llama.cpp), nothing where the engine lacks it.
///
/// Source  tests/golden/deploy/flags.txt names the files: vLLM 0.33.0 (which has no bitsandbytes), SGLang 0.5.23, TGI 3.3.5;
///         llama.cpp and TEI take none
[[nodiscard]] inline Optional<std::string_view> quant_word(Engine engine, QuantScheme const& scheme) {
    if (engine == Engine::llama_server) {
        if (scheme.is_ggml()) return std::string_view{};
        return std::nullopt;
    }
    if (engine == Engine::tei || scheme.is_ggml()) return std::nullopt;
    bool const is_tgi = engine == Engine::tgi;
    switch (scheme.method) {
        case QuantMethod::awq: return std::string_view{"awq"};
        case QuantMethod::gptq: return std::string_view{"gptq"};
        case QuantMethod::fp8:
            // Blocks are stored, not made by an engine.
            if (scheme.block_rows > 0) return std::nullopt;
            return std::string_view{"fp8"};
        case QuantMethod::int8:
            if (is_tgi) return std::string_view{"bitsandbytes"};
            return std::nullopt;
        case QuantMethod::nf4:
            if (is_tgi && !scheme.double_quant) return std::string_view{"bitsandbytes-nf4"};
            return std::nullopt;
        case QuantMethod::fp4:
            if (is_tgi && !scheme.double_quant) return std::string_view{"bitsandbytes-fp4"};
            return std::nullopt;
        case QuantMethod::int4:
        case QuantMethod::mxfp4:
        case QuantMethod::ggml_file:
        case QuantMethod::ggml_pure: return std::nullopt;
    }
    return std::nullopt;
}

/// What each engine takes by --quant, for messages.
[[nodiscard]] constexpr std::string_view quant_words_of(Engine engine) {
    switch (engine) {
        case Engine::vllm: return "awq, gptq, fp8, or a quantised checkpoint";
        case Engine::sglang: return "awq, gptq, fp8, or a quantised checkpoint";
        case Engine::tgi: return "awq, gptq, fp8, int8, nf4, fp4, eetq, marlin, exl2";
        case Engine::llama_server: return "GGUF types such as Q4_K_M and Q8_0";
        case Engine::tei: return "no quantisation";
    }
    return "";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
