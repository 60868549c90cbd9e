// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/quant/quant_method_table.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What vLLM and SGLang, and what TGI, call a method that they apply or read; "" where they lack it. Blocks of fp8 and scales of
/// scales are stored, not made by an engine.
struct QuantWords {
    QuantMethod method;
    std::string_view word;
    std::string_view tgi_word;
};

/// Every method in the order of the enumeration.
///
/// Source  tests/golden/deploy/flags.txt names the files: vLLM 0.33.0 (which has no bitsandbytes), SGLang 0.5.23, TGI 3.3.5;
///         llama.cpp and TEI take none
inline constexpr std::array<QuantWords, 10> quant_words_table{{{QuantMethod::int8, "", "bitsandbytes"},
                                                               {QuantMethod::int4, "", ""},
                                                               {QuantMethod::nf4, "", "bitsandbytes-nf4"},
                                                               {QuantMethod::fp4, "", "bitsandbytes-fp4"},
                                                               {QuantMethod::fp8, "fp8", "fp8"},
                                                               {QuantMethod::gptq, "gptq", "gptq"},
                                                               {QuantMethod::awq, "awq", "awq"},
                                                               {QuantMethod::mxfp4, "", ""},
                                                               {QuantMethod::ggml_file, "", ""},
                                                               {QuantMethod::ggml_pure, "", ""}}};
static_assert(has_each_method(quant_words_table), "quant_words_table has one row for each method, in their order");

}  // namespace detail

/// The word of an engine for a quantisation that it applies or reads where the checkpoint does not say so: "" where it
/// says nothing (files of llama.cpp), nothing where the engine lacks it.
[[nodiscard]] inline Optional<std::string_view> quant_word(Engine engine, QuantScheme const& scheme) {
    if (engine == Engine::llama_server) {
        if (scheme.is_ggml()) return std::string_view{};
        return std::nullopt;
    }
    if (engine == Engine::tei || scheme.block_rows > 0 || scheme.double_quant) return std::nullopt;
    auto const& row = detail::quant_words_table[static_cast<std::size_t>(scheme.method)];
    auto const word = engine == Engine::tgi ? row.tgi_word : row.word;
    if (word.empty()) return std::nullopt;
    return word;
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
