// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/deploy/engines/tei.hpp>
#include <shardwise/deploy/images.hpp>
#include <shardwise/deploy/memory_fraction.hpp>
#include <shardwise/deploy/quant_words.hpp>
#include <shardwise/plan/legal_degrees.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// True for engines that cut a model into stages of a pipeline.
[[nodiscard]] constexpr bool has_pipeline(Engine engine) {
    switch (engine) {
        case Engine::vllm:
        case Engine::sglang:
        case Engine::llama_server: return true;
        case Engine::tgi:
        case Engine::tei: return false;
    }
    return false;
}

/// The tensor-parallel degrees up to `most` that an engine runs: "1, 2, 4, 8".
[[nodiscard]] inline std::string legal_tensor_degrees(ModelConfig const& config, std::int64_t most) {
    std::string degrees;
    for (std::int64_t tp = 1; tp <= most; ++tp) {
        if (is_even_tp(config, tp)) degrees += (degrees.empty() ? "" : ", ") + std::to_string(tp);
    }
    return degrees;
}

/// Refuses a degree that heads are not divisible by.
///
/// Errors  invalid_argument with the degrees that are legal
[[nodiscard]] inline Result<> check_heads(ModelConfig const& config, std::int64_t tp) {
    if (is_even_tp(config, tp)) return {};
    bool const is_query = config.heads % tp != 0;
    auto const heads = std::to_string(is_query ? config.heads : config.kv_heads);
    auto const most = config.heads < 64 ? config.heads : 64;
    return Error{ErrorCode::invalid_argument}
        .in("--devices")
        .because(heads + (is_query ? " heads" : " key-value heads") + " are not divisible by tp " + std::to_string(tp))
        .fix("name as many devices as one of the legal tensor-parallel degrees: " +
             legal_tensor_degrees(config, most));
}

namespace detail {

[[nodiscard]] inline Error refuse_deploy(std::string_view subject, std::string_view reason, std::string_view advice) {
    return Error{ErrorCode::invalid_argument}.in(subject).because(reason).fix(advice);
}

[[nodiscard]] inline Result<> check_quant(DeployRequest const& request) {
    auto const engine = std::string(name_of(request.engine));
    auto const lacks = [&] {
        return refuse_deploy("--quant", engine + " has no such quantisation",
                             engine + " takes " + std::string(quant_words_of(request.engine)));
    };
    if (request.engine == Engine::tgi && !request.dtype.empty() && (request.quant || !request.engine_quant.empty())) {
        return refuse_deploy("--dtype, --quant", "tgi takes one of them, as --dtype excludes --quantize",
                             "leave --dtype out");
    }
    if (request.engine_quant == "exl2" && request.tp > 1) {
        return refuse_deploy("--quant exl2", "tgi runs it on one shard, and the plan has " + std::to_string(request.tp),
                             "name one device, or use --quant gptq");
    }
    bool const is_asked = request.quant && request.quant != request.stored_quant;
    if (is_asked && request.is_gguf()) {
        return refuse_deploy("--quant", "cannot change the types of a GGUF file, which " + engine + " loads as it is",
                             "leave it out, or quantise the file by llama.cpp's llama-quantize");
    }
    if (is_asked && request.engine_quant.empty() && !quant_word(request.engine, *request.quant)) return lacks();
    bool const is_packed = static_cast<bool>(request.stored_quant);
    bool const is_bitsandbytes = is_packed && traits(request.stored_quant->method).is_bitsandbytes;
    if (is_bitsandbytes && request.engine == Engine::vllm) {
        return refuse_deploy("MODEL", "is quantised by bitsandbytes, which vllm 0.33 does not read",
                             "deploy tgi, or give the model as it was before quantisation");
    }
    if (is_packed && request.engine == Engine::tei) {
        return refuse_deploy("MODEL", "is a quantised checkpoint, and tei reads plain ones",
                             "give the model as it was before quantisation");
    }
    return {};
}

[[nodiscard]] inline Result<> check_model_of(DeployRequest const& request) {
    auto const engine = std::string(name_of(request.engine));
    // vLLM 0.33.0 has no reader of GGUF files any more.
    bool const reads_gguf = request.engine == Engine::llama_server || request.engine == Engine::sglang;
    if (request.is_gguf() && !reads_gguf) {
        return refuse_deploy("MODEL", "is a GGUF file, which " + engine + " does not read",
                             "give a folder of safetensors, or deploy llama-server");
    }
    bool const is_local = request.place != ModelPlace::hub;
    if (request.engine == Engine::llama_server && is_local && !request.is_gguf()) {
        return refuse_deploy("MODEL", "is no GGUF file, and llama-server reads nothing else",
                             "convert it with llama.cpp's convert_hf_to_gguf.py, or deploy vllm");
    }
    if (request.engine != Engine::llama_server && request.place == ModelPlace::file && !request.is_gguf()) {
        return refuse_deploy("MODEL", "is one file, and " + engine + " reads a folder or org/name",
                             "give the folder that holds it");
    }
    if (is_local && request.model.find(':') != std::string::npos) {
        return refuse_deploy("MODEL", "has a colon in its path, where container runtimes end it",
                             "give it a path without colons");
    }
    auto const family = request.config.model_type.view();
    if (request.engine == Engine::tei && !is_tei_family(family)) {
        return refuse_deploy("MODEL", "is of the family " + std::string(family) + ", which tei does not serve",
                             "deploy vllm, or give a model of bert, roberta, qwen2, qwen3, mistral or gemma3");
    }
    bool const generates = request.engine == Engine::tgi || request.engine == Engine::llama_server;
    if (is_tei_encoder(family) && generates && !request.is_gguf())
        return refuse_deploy("MODEL", "is an encoder, and " + engine + " serves text generation", "deploy tei");
    return {};
}

/// What each engine takes by --dtype.
[[nodiscard]] constexpr std::string_view dtype_words_of(Engine engine) {
    switch (engine) {
        case Engine::vllm:
        case Engine::sglang: return "float16, bfloat16, float32";
        case Engine::tgi: return "float16, bfloat16";
        case Engine::tei: return "float16, float32";
        case Engine::llama_server: return "no element type but the file's";
    }
    return "";
}

[[nodiscard]] inline Result<> check_dtype(DeployRequest const& request) {
    auto const engine = std::string(name_of(request.engine));
    auto const words = dtype_words_of(request.engine);
    // No word is a part of another's end.
    bool const is_known = request.dtype.empty() || (", " + std::string(words)).find(", " + request.dtype) != std::string::npos;
    if (!is_known) {
        return refuse_deploy("--dtype", "is " + request.dtype + ", in which " + engine + " runs no model",
                             engine + " takes " + std::string(words));
    }
    if (request.engine != Engine::tei) return {};
    auto const family = request.config.model_type.view();
    auto const only = tei_dtype(family, request.devices.empty());
    bool const has_one = needs_tei_gpu(family) || only == "float32";
    if (needs_tei_gpu(family) && request.devices.empty()) {
        return refuse_deploy("--devices", "are the processor, on which tei has no kernels for " + std::string(family),
                             "name a GPU, or give a model of bert, roberta or qwen3");
    }
    if (has_one && !request.dtype.empty() && request.dtype != only) {
        return refuse_deploy("--dtype", "is " + request.dtype + ", and tei runs " + std::string(family) + " here in " +
                                            std::string(only) + " only",
                             "leave --dtype out");
    }
    return {};
}

/// Engines refuse to start with more tokens than a model has positions; llama-server and TEI do not ask for a number.
[[nodiscard]] inline Result<> check_context(DeployRequest const& request) {
    auto const most = request.config.max_positions;
    bool const is_strict = request.engine == Engine::vllm || request.engine == Engine::sglang;
    if (!is_strict || most < 1 || request.context <= most) return {};
    return refuse_deploy("--context",
                         std::to_string(request.context) + " tokens are more than the model's " + std::to_string(most) +
                             ", with which " + std::string(name_of(request.engine)) + " does not start",
                         "write at most " + std::to_string(most));
}

/// "9.0" for 90.
[[nodiscard]] inline std::string capability_text(std::int32_t capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

[[nodiscard]] inline Result<> check_devices_of(DeployRequest const& request) {
    auto const engine = std::string(name_of(request.engine));
    if (request.engine == Engine::tei && request.device_count() > 1)
        return refuse_deploy("--devices", "tei runs on one device", "name one of them, and start one tei for each");
    auto const nodes = request.node_count();
    bool const has_groups = request.engine == Engine::vllm || request.engine == Engine::sglang;
    if (nodes > 1 && !has_groups) {
        return refuse_deploy("--devices", "are on " + std::to_string(nodes) + " nodes, and " + engine + " runs on one",
                             "name the devices of one node, or deploy vllm or sglang");
    }
    std::int64_t on_node = 0;
    for (std::size_t i = 0; i < request.devices.size(); ++i) {
        ++on_node;
        bool const is_last = i + 1 == request.devices.size() || request.devices[i + 1].node != request.devices[i].node;
        if (!is_last) continue;
        if (on_node * nodes != request.device_count()) {
            return refuse_deploy("--devices", "are not equally many on each of the " + std::to_string(nodes) + " nodes",
                                 "name as many of each, like 2x(8xH100-80GB)");
        }
        on_node = 0;
    }
    for (auto const& device : request.devices) {
        if (device.kind != request.kind())
            return refuse_deploy("--devices", "are of several vendors", "name those of one: --prefer cuda or hip");
        bool const is_known = device.kind == DeviceKind::cuda || device.kind == DeviceKind::hip;
        if (!is_known) return refuse_deploy("--devices", "are neither NVIDIA's nor AMD's GPUs", "name such devices");
        auto const capability = capability_of(device.architecture);
        auto const least = min_capability(request.engine);
        if (device.kind == DeviceKind::cuda && capability && *capability < least) {
            return refuse_deploy("--devices",
                                 device.name + " has compute capability " + capability_text(*capability) + ", and " + engine +
                                     " needs " + capability_text(least) + " or later",
                                 "name newer devices, or deploy llama-server");
        }
        auto const image = tei_image_capability(request.image);
        if (request.engine == Engine::tei && capability && image > 0 && !is_tei_capability(*capability, image)) {
            return refuse_deploy("--image", "is built for compute capability " + capability_text(image) + ", and " +
                                                device.name + " has " + capability_text(*capability),
                                 "leave --image out, which takes the right one");
        }
    }
    return {};
}

}  // namespace detail

/// Refuses what the engine could not do, before anything starts.
///
/// Errors  invalid_argument with the reason and the smallest change; out_of_memory where less is free than it would take
[[nodiscard]] inline Result<> check_deploy(DeployRequest const& request) {
    if (request.port < 0 || request.port > 65535)
        return detail::refuse_deploy("--port", "is out of range", "write a port from 1 to 65535");
    if (request.context < 2) return detail::refuse_deploy("--context", "is too short", "write 2 tokens or more");
    if (auto const checked = detail::check_model_of(request); !checked) return checked;
    if (auto const checked = detail::check_context(request); !checked) return checked;
    if (auto const checked = detail::check_quant(request); !checked) return checked;
    if (auto const checked = detail::check_devices_of(request); !checked) return checked;
    if (auto const checked = detail::check_dtype(request); !checked) return checked;
    if (request.engine != Engine::llama_server) {
        if (auto const checked = check_heads(request.config, request.tp); !checked) return checked;
    }
    return check_free_memory(request.memory);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
