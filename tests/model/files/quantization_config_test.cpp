// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>

#include <doctest/doctest.h>

#include "config_text.hpp"

#include <string>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("read_config: quantization_config becomes a scheme and the modules it leaves alone") {
    auto const scheme = [](std::string const& members) {
        auto const file = config_of(llama_config("\"quantization_config\": {" + members + "}"));
        REQUIRE(file.quantization);
        return file.quantization->scheme;
    };
    CHECK(scheme(R"("quant_method": "bitsandbytes", "load_in_8bit": true)") == QuantScheme::int8());
    CHECK(scheme(R"("quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                    "bnb_4bit_use_double_quant": true)") == QuantScheme::nf4(true));
    auto const awq = scheme(R"("quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm")");
    CHECK(awq.method == QuantMethod::awq);
    CHECK(awq.group == 64);
    CHECK(scheme(R"("quant_method": "fp8", "weight_block_size": [128, 64])") == QuantScheme::fp8_blocks(128, 64));
    auto const gptq = scheme(R"("quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": true)");
    CHECK(gptq.bits == 8);
    CHECK(gptq.group == -1);
    CHECK(gptq.desc_act);

    auto const oss = read_config_file(SHARDWISE_SOURCE_DIR "/tests/golden/configs/gpt-oss-20b.json");
    REQUIRE(oss);
    REQUIRE(oss->quantization);
    CHECK(oss->quantization->scheme == QuantScheme::mxfp4());
    CHECK(oss->quantization->kept.size() == 4);
    CHECK(oss->quantization->kept[0] == "model.layers.*.self_attn");
    CHECK_FALSE(config_of(llama_config(R"("quantization_config": null)")).quantization);
}

TEST_CASE("read_config: a quantisation that is unknown or malformed names its key") {
    auto const refused = [](std::string const& members) {
        return refusal_of(llama_config("\"quantization_config\": {" + members + "}"));
    };
    CHECK(refusal_code_of(llama_config(R"("quantization_config": {"quant_method": "hqq"})")) == ErrorCode::unsupported);
    CHECK(refused(R"("quant_method": "hqq")").find("hqq") != std::string::npos);
    CHECK(refused(R"("quant_method": "gptq", "bits": "4")") ==
          "config.json: quantization_config.bits: must be an integer, but is a string");
    CHECK(refused(R"("quant_method": "gptq", "bits": 5)").starts_with("config.json: quantization_config.bits: "));
    CHECK(refused(R"("quant_method": "fp8", "weight_block_size": [128])") ==
          "config.json: quantization_config.weight_block_size: must have two numbers");
    CHECK(refused(R"("quant_method": "fp8", "weight_block_size": [0, 128])").find("at least 1") != std::string::npos);
    CHECK(refusal_of(llama_config(R"("quantization_config": "fp8")")).find("must be an object") != std::string::npos);
}
