// SPDX-License-Identifier: Apache-2.0
#pragma once

// Published measurements of training and inference: where each figure stands, and what it was measured on.

#include "published_rows.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace published {

namespace detail {

[[nodiscard]] inline Device device(std::string_view name, Link const& network = default_network) {
    auto found = *find_device_preset(name);
    found.id = DeviceId::gpu(0);
    found.network = network;
    return found;
}

/// A GPT of Megatron's kind: learned positions, tied embeddings, four times the hidden size in the MLP.
[[nodiscard]] inline ModelConfig gpt(std::int64_t hidden, std::int64_t layers, std::int64_t heads,
                                     std::int64_t vocabulary, std::int64_t positions) {
    auto config = presets::gpt2;
    config.name = "GPT";
    config.dtype = Dtype::bf16;
    config.hidden_size = hidden;
    config.intermediate_size = 4 * hidden;
    config.layers = layers;
    config.heads = config.kv_heads = heads;
    config.head_dim = hidden / heads;
    config.vocab_size = vocabulary;
    config.max_positions = positions;
    return config;
}

[[nodiscard]] inline EstimateRequest training(std::int64_t batch, std::int64_t context, Recompute recompute,
                                              bool is_sequence_parallel = false) {
    EstimateRequest request;
    request.dtype = Dtype::bf16;
    request.batch = batch;
    request.context = context;
    request.parallel.sequence_parallel = is_sequence_parallel;
    request.training = TrainingPlan{.recompute = recompute};
    return request;
}

/// 200 Gbit/s a GPU: Selene's HDR InfiniBand, and 1600 Gbit/s a node elsewhere.
inline constexpr Link hdr{LinkType::infiniband, 25e9, 10e-6};
/// 400 Gbit/s a GPU.
inline constexpr Link ndr{LinkType::infiniband, 50e9, 10e-6};

/// Narayanan et al. (SC21), table 1; seconds from its achieved TFLOP/s by its equation 3, which counts full
/// recomputation. Micro-batches are not in the table: of 4 sequences without a pipeline, of 1 with one.
inline void add_sc21(std::vector<Row>& rows) {
    struct Line {
        std::int64_t heads, hidden, layers, tp, pp, devices, batch;
        double tflops;
        std::string_view name;
    };
    constexpr Line lines[] = {
        {24, 2304, 24, 1, 1, 32, 512, 137, "1.7B"},          {32, 3072, 30, 2, 1, 64, 512, 138, "3.6B"},
        {32, 4096, 36, 4, 1, 128, 512, 142, "7.5B"},         {48, 6144, 40, 8, 1, 256, 1024, 135, "18.4B"},
        {64, 8192, 48, 8, 2, 512, 1536, 138, "39.1B"},       {80, 10240, 60, 8, 4, 1024, 1792, 140, "76.1B"},
        {96, 12288, 80, 8, 8, 1536, 2304, 148, "145.6B"},    {128, 16384, 96, 8, 16, 1920, 2160, 155, "310.1B"},
        {128, 20480, 105, 8, 35, 2520, 2520, 163, "529.6B"}, {160, 25600, 128, 8, 64, 3072, 3072, 163, "1008B"}};
    for (auto const& line : lines) {
        Row row;
        row.name = "Megatron GPT " + std::string(line.name) + ", " + std::to_string(line.devices) + " A100";
        row.source = "Narayanan et al., SC21 (arXiv 2104.04473), table 1";
        row.config = gpt(line.hidden, line.layers, line.heads, 51200, 2048);
        row.device = device("A100-80GB", hdr);
        row.request = training(line.batch, 2048, Recompute::full);
        auto const dp = line.devices / line.tp / line.pp;
        row.degrees = {.tp = line.tp, .pp = line.pp, .dp = dp};
        row.degrees.micro_batches = line.batch / dp / (line.pp == 1 ? 4 : 1);
        auto const h = static_cast<double>(line.hidden);
        auto const l = static_cast<double>(line.layers);
        auto const flops = 96.0 * static_cast<double>(line.batch) * 2048.0 * l * h * h *
                           (1.0 + 2048.0 / (6.0 * h) + 51200.0 / (16.0 * l * h));
        row.theirs = flops / (line.tflops * 1e12 * static_cast<double>(line.devices));
        rows.push_back(row);
    }
}

/// Korthikanti et al. (2022), tables 3 and 5: iteration times with full recomputation, and with sequence parallelism
/// and selective recomputation.
inline void add_recomputation(std::vector<Row>& rows) {
    struct Line {
        std::int64_t heads, hidden, layers, pp, batch, micro_batch, chunks;
        double full, selective;
        std::string_view name;
    };
    constexpr Line lines[] = {{64, 6144, 48, 1, 4, 4, 1, 1.42, 1.10, "22B"},
                              {96, 12288, 96, 8, 64, 1, 3, 18.13, 13.75, "175B"},
                              {128, 20480, 105, 35, 280, 1, 3, 49.05, 37.83, "530B"},
                              {160, 25600, 128, 64, 512, 1, 1, 94.42, 71.49, "1T"}};
    for (auto const& line : lines) {
        for (bool const is_selective : {false, true}) {
            Row row;
            row.name = "Megatron GPT " + std::string(line.name) + ", " + std::to_string(8 * line.pp) + " A100, " +
                       (is_selective ? "selective" : "full") + " recomputation";
            row.source = "Korthikanti et al. (arXiv 2205.05198), table 5";
            row.is_held_out = true;
            row.config = gpt(line.hidden, line.layers, line.heads, 51200, 2048);
            row.device = device("A100-80GB", hdr);
            row.request =
                training(line.batch, 2048, is_selective ? Recompute::selective : Recompute::full, is_selective);
            row.degrees = {.tp = 8, .pp = line.pp, .micro_batches = line.batch / line.micro_batch};
            row.chunks = line.chunks;
            row.theirs = is_selective ? line.selective : line.full;
            rows.push_back(row);
        }
    }
}

/// MosaicML's table: PyTorch FSDP, which is ZeRO's stage 3.
inline void add_mosaic(std::vector<Row>& rows) {
    struct Line {
        std::string_view model;
        std::int64_t hidden, layers, heads, context, devices;
        std::string_view device;
        std::int64_t micro_batch, accumulation;
        bool is_recomputed;
        double tokens;
    };
    constexpr Line lines[] = {{"MPT-70B", 8192, 80, 64, 2048, 64, "H100-80GB", 8, 4, true, 1039},
                              {"MPT-30B", 7168, 48, 64, 2048, 16, "H100-80GB", 10, 3, true, 2263},
                              {"MPT-30B", 7168, 48, 64, 8192, 8, "H100-80GB", 1, 21, true, 1384},
                              {"MPT-13B", 5120, 40, 40, 2048, 64, "H100-80GB", 2, 1, false, 4800},
                              {"MPT-13B", 5120, 40, 40, 2048, 8, "H100-80GB", 2, 1, false, 4792},
                              {"MPT-7B", 4096, 32, 32, 2048, 8, "H100-80GB", 6, 1, false, 10643},
                              {"MPT-1B", 2048, 24, 16, 2048, 8, "H100-80GB", 14, 1, false, 45455},
                              {"MPT-70B", 8192, 80, 64, 2048, 64, "A100-80GB", 8, 4, true, 410},
                              {"MPT-30B", 7168, 48, 64, 2048, 8, "A100-80GB", 3, 21, true, 916},
                              {"MPT-13B", 5120, 40, 40, 2048, 8, "A100-80GB", 2, 3, false, 2262},
                              {"MPT-7B", 4096, 32, 32, 2048, 8, "A100-80GB", 6, 2, false, 4641},
                              {"MPT-1B", 2048, 24, 16, 2048, 8, "A100-80GB", 14, 4, false, 20513},
                              {"MPT-13B", 5120, 40, 40, 2048, 128, "A100-40GB", 16, 1, true, 1972},
                              {"MPT-7B", 4096, 32, 32, 2048, 128, "A100-40GB", 18, 1, true, 3623}};
    for (auto const& line : lines) {
        Row row;
        row.name = std::string(line.model) + ", FSDP, " + std::to_string(line.context) + " tokens, " +
                   std::to_string(line.devices) + " " + std::string(line.device);
        row.source = "mosaicml/llm-foundry, scripts/train/benchmarking/README.md";
        row.is_held_out = line.model == "MPT-70B" || line.model == "MPT-1B" || line.devices == 128;
        row.config = gpt(line.hidden, line.layers, line.heads, 50368, line.context);
        row.device = device(line.device, line.device == "H100-80GB" ? ndr : hdr);
        row.request = training(line.devices * line.micro_batch * line.accumulation, line.context,
                               line.is_recomputed ? Recompute::full : Recompute::none);
        row.degrees = {.dp = line.devices, .zero = 3, .micro_batches = line.accumulation};
        row.measure = Measure::trained_tokens;
        row.theirs = line.tokens;
        rows.push_back(row);
    }
}

/// Llama 3 405B on 8,192 and 16,384 H100; tokens from the achieved TFLOP/s at six operations a parameter and half of
/// the attention's square.
inline void add_llama3(std::vector<Row>& rows) {
    for (std::int64_t const dp : {64, 128}) {
        Row row;
        row.name = "Llama 3 405B training, " + std::to_string(dp * 128) + " H100";
        row.source = "Llama Team, The Llama 3 Herd of Models (arXiv 2407.21783), table 4";
        row.is_held_out = true;
        row.config = presets::llama_3_1_405b;
        row.device = device("H100-80GB", ndr);
        row.request = training(2048, 8192, Recompute::none, true);
        row.degrees = {.tp = 8, .pp = 16, .dp = dp, .zero = 1, .micro_batches = 2048 / dp};
        row.chunks = 8;
        row.measure = Measure::trained_tokens;
        auto const per_token = 6.0 * 405.85e9 + 6.0 * 126.0 * 16384.0 * 8192.0;
        row.theirs = (dp == 64 ? 430e12 : 400e12) / per_token;
        rows.push_back(row);
    }
}

/// Megatron Bridge's table for DGX H100, 25.11, in fp8: products in 8 bits, gradients in 16.
inline void add_bridge(std::vector<Row>& rows) {
    struct Line {
        ModelConfig const* config;
        std::int64_t context, batch, tp, pp, dp, ep, chunks, micro_batches;
        std::int32_t zero;
        double tokens;
    };
    Line const lines[] = {{&presets::llama_3_8b, 8192, 128, 1, 1, 8, 1, 1, 16, 3, 14451},
                          {&presets::llama_3_70b, 8192, 128, 4, 8, 2, 1, 5, 64, 1, 1602},
                          {&presets::qwen3_30b_a3b, 4096, 512, 1, 2, 1, 8, 24, 32, 1, 5275}};
    for (auto const& line : lines) {
        Row row;
        row.degrees = {.tp = line.tp,
                       .pp = line.pp,
                       .dp = line.dp,
                       .ep = line.ep,
                       .zero = line.zero,
                       .micro_batches = line.micro_batches};
        row.name = std::string(line.config->name.view()) + " training in fp8, " + std::to_string(row.degrees.ranks()) +
                   " H100";
        row.source = "NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, DGX-H100";
        row.is_held_out = true;
        row.config = *line.config;
        row.device = device("H100-80GB", ndr);
        row.request = training(line.batch, line.context, Recompute::none, line.tp > 1);
        row.request.quant = QuantScheme::fp8();
        row.chunks = line.chunks;
        row.measure = Measure::trained_tokens;
        row.theirs = line.tokens;
        rows.push_back(row);
    }
}

/// DeepSeek-V3 on 2,048 H800, which have 200 GB/s of NVLink: 180,000 device hours for each trillion tokens.
inline void add_deepseek(std::vector<Row>& rows) {
    Row row;
    row.name = "DeepSeek-V3 training in fp8, 2048 H800";
    row.source = "DeepSeek-AI, DeepSeek-V3 Technical Report (arXiv 2412.19437), sections 1 and 3.2";
    row.is_held_out = true;
    row.config = presets::deepseek_v3;
    row.device = device("H100-80GB", ndr);
    row.device.link.bandwidth = 200e9;
    row.request = training(15360, 4096, Recompute::none);
    row.request.quant = QuantScheme::fp8();
    row.degrees = {.pp = 16, .dp = 2, .ep = 64, .zero = 1, .micro_batches = 120};
    row.chunks = 2;
    row.measure = Measure::trained_tokens;
    row.theirs = 1e12 / (180e3 * 3600.0);
    rows.push_back(row);
}

/// One sequence, decoded by gpt-fast; a prompt of 5 tokens, 200 new ones. Its A100s are limited to 330 W.
inline void add_gpt_fast(std::vector<Row>& rows) {
    struct Line {
        ModelConfig const* config;
        std::string_view quant;
        std::int64_t tp;
        double tokens;
    };
    Line const lines[] = {{&presets::llama_2_7b, "", 1, 104.9},          {&presets::llama_2_7b, "int8", 1, 155.58},
                          {&presets::llama_2_7b, "int4-g32", 1, 196.8},  {&presets::llama_2_70b, "int8", 1, 19.13},
                          {&presets::llama_2_70b, "int4-g32", 1, 25.25}, {&presets::llama_2_7b, "", 2, 168.84},
                          {&presets::llama_2_7b, "", 4, 254.02},         {&presets::llama_2_7b, "", 8, 328.43},
                          {&presets::llama_2_70b, "", 2, 21.32},         {&presets::llama_2_70b, "", 4, 38.01},
                          {&presets::llama_2_70b, "", 8, 62.5},          {&presets::llama_2_70b, "int8", 8, 80.44},
                          {&presets::llama_2_70b, "int4-g32", 8, 90.77}};
    for (auto const& line : lines) {
        Row row;
        row.name = std::string(line.config->name.view()) + " " + std::string(line.quant.empty() ? "bf16" : line.quant) +
                   ", decoding, " + std::to_string(line.tp) + " A100";
        row.source = "pytorch-labs/gpt-fast, README.md";
        row.config = *line.config;
        row.device = device("A100-80GB");
        row.request.dtype = Dtype::bf16;
        if (!line.quant.empty()) row.request.quant = *parse_quant_scheme(line.quant);
        row.degrees.tp = line.tp;
        row.measure = Measure::decoded_tokens;
        row.prompt = 5;
        row.generated = 200;
        row.theirs = line.tokens;
        rows.push_back(row);
    }
    for (auto const& [quant, tokens] : {std::pair{"", 76.33}, {"int8", 101.86}}) {
        Row row;
        row.name = "Llama-2-7B " + std::string(*quant == 0 ? "bf16" : quant) + ", decoding, half an MI250X";
        row.source = "pytorch-labs/gpt-fast, README.md";
        row.config = presets::llama_2_7b;
        row.device = device("MI250X-128GB");
        row.device.bandwidth /= 2.0;
        row.device.peak.bf16 /= 2.0;
        row.device.peak.fp32 /= 2.0;
        row.request.dtype = Dtype::bf16;
        if (*quant != 0) row.request.quant = *parse_quant_scheme(quant);
        row.measure = Measure::decoded_tokens;
        row.prompt = 5;
        row.generated = 200;
        row.theirs = tokens;
        rows.push_back(row);
    }
}

/// TensorRT-LLM's own tables of version 0.6.1 (latencies: 0.5), static batches.
inline void add_tensorrt(std::vector<Row>& rows) {
    struct Line {
        ModelConfig const* config;
        std::string_view device;
        std::int64_t batch, tp, prompt, generated;
        double figure;
    };
    Line const lines[] = {{&presets::llama_2_7b, "H100-80GB", 768, 1, 128, 128, 19694},
                          {&presets::llama_2_7b, "H100-80GB", 112, 1, 128, 2048, 6818},
                          {&presets::llama_2_7b, "H100-80GB", 80, 1, 2048, 128, 2244},
                          {&presets::llama_2_7b, "H100-80GB", 48, 1, 2048, 2048, 2740},
                          {&presets::llama_2_70b, "H100-80GB", 1024, 2, 128, 128, 2657},
                          {&presets::llama_2_70b, "H100-80GB", 480, 4, 128, 2048, 1486},
                          {&presets::llama_2_70b, "H100-80GB", 96, 2, 2048, 128, 306},
                          {&presets::llama_2_70b, "H100-80GB", 64, 2, 2048, 2048, 547},
                          {&presets::llama_2_7b, "L40S", 64, 1, 128, 128, 3240},
                          {&presets::llama_2_7b, "L40S", 64, 1, 128, 2048, 1622},
                          {&presets::llama_2_7b, "L40S", 32, 1, 2048, 128, 581},
                          {&presets::llama_2_7b, "L40S", 16, 1, 2048, 2048, 531},
                          {&presets::llama_2_7b, "A100-80GB", 384, 1, 128, 128, 5586},
                          {&presets::llama_2_7b, "A100-80GB", 60, 1, 128, 2048, 1928},
                          {&presets::llama_2_7b, "A100-80GB", 52, 1, 2048, 128, 591},
                          {&presets::llama_2_7b, "H100-80GB", 1, 1, 128, 0, 7e-3},
                          {&presets::llama_2_7b, "H100-80GB", 1, 1, 2048, 0, 36e-3},
                          {&presets::llama_2_70b, "H100-80GB", 1, 4, 128, 0, 26e-3},
                          {&presets::llama_2_70b, "H100-80GB", 1, 4, 2048, 0, 109e-3},
                          {&presets::llama_2_7b, "L40S", 1, 1, 128, 0, 14e-3},
                          {&presets::llama_2_7b, "L40S", 1, 1, 2048, 0, 73e-3},
                          {&presets::llama_2_7b, "A100-80GB", 1, 1, 128, 0, 16e-3},
                          {&presets::llama_2_7b, "A100-80GB", 1, 1, 2048, 0, 133e-3},
                          {&presets::llama_2_70b, "A100-80GB", 1, 4, 128, 0, 47e-3},
                          {&presets::llama_2_70b, "A100-80GB", 1, 4, 2048, 0, 377e-3}};
    for (auto const& line : lines) {
        Row row;
        bool const is_latency = line.generated == 0;
        bool const is_fp8 = line.device != "A100-80GB";
        row.name = std::string(line.config->name.view()) + (is_fp8 ? " fp8, " : " fp16, ") +
                   std::to_string(line.batch) + " x " + std::to_string(line.prompt) + " tokens" +
                   (is_latency ? ", first token" : " + " + std::to_string(line.generated)) + ", " +
                   std::to_string(line.tp) + " " + std::string(line.device);
        row.source = is_latency ? "NVIDIA/TensorRT-LLM, docs/source/performance.md, low latency"
                                : "NVIDIA/TensorRT-LLM, docs/source/performance.md, peak throughput";
        row.is_held_out = is_latency;
        row.config = *line.config;
        row.device = device(line.device);
        row.request.dtype = Dtype::f16;
        row.request.batch = line.batch;
        if (is_fp8) {
            row.request.quant = QuantScheme::fp8();
            row.request.kv_dtype = Dtype::f8_e4m3;
        }
        row.degrees.tp = line.tp;
        row.measure = is_latency ? Measure::first_token_seconds : Measure::generated_tokens;
        row.prompt = line.prompt;
        row.generated = line.generated;
        row.theirs = line.figure;
        rows.push_back(row);
    }
}

/// llama-bench's tg128 and, where products run in 16 bits, pp512 of Llama-2-7B.
inline void add_llama_cpp(std::vector<Row>& rows) {
    struct Line {
        std::string_view device, quant;
        Measure measure;
        double tokens;
    };
    constexpr Line lines[] = {{"M2-Ultra-192GB", "F16", Measure::decoded_tokens, 41.02},
                              {"M2-Ultra-192GB", "Q8_0", Measure::decoded_tokens, 66.64},
                              {"M2-Ultra-192GB", "Q4_0", Measure::decoded_tokens, 94.27},
                              {"M2-Ultra-192GB", "F16", Measure::prompt_tokens, 1401.85},
                              {"RTX5090", "Q4_0", Measure::decoded_tokens, 290.02},
                              {"RTX4090", "Q4_0", Measure::decoded_tokens, 186.21},
                              {"RTX3090", "Q4_0", Measure::decoded_tokens, 158.16},
                              {"H100-80GB", "Q4_0", Measure::decoded_tokens, 267.81},
                              {"A100-80GB", "Q4_0", Measure::decoded_tokens, 190.88}};
    for (auto const& line : lines) {
        Row row;
        bool const is_metal = line.device.starts_with("M2");
        row.name = "Llama-2-7B " + std::string(line.quant) +
                   (line.measure == Measure::decoded_tokens ? ", tg128, " : ", pp512, ") + std::string(line.device);
        row.source = is_metal ? "ggml-org/llama.cpp, discussion 4167" : "ggml-org/llama.cpp, discussion 15013";
        row.is_held_out = true;
        row.config = presets::llama_2_7b;
        row.device = device(line.device);
        row.request.quant = *parse_quant_scheme(line.quant);
        row.measure = line.measure;
        row.prompt = line.measure == Measure::decoded_tokens ? 1 : 512;
        row.generated = line.measure == Measure::decoded_tokens ? 128 : 0;
        row.theirs = line.tokens;
        rows.push_back(row);
    }
}

}  // namespace detail

/// Every row.
[[nodiscard]] inline std::vector<Row> rows() {
    std::vector<Row> all;
    detail::add_sc21(all);
    detail::add_recomputation(all);
    detail::add_mosaic(all);
    detail::add_llama3(all);
    detail::add_bridge(all);
    detail::add_deepseek(all);
    detail::add_gpt_fast(all);
    detail::add_tensorrt(all);
    detail::add_llama_cpp(all);
    return all;
}

}  // namespace published
