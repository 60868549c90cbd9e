// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/checkpoint_scheme.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string_view>

using namespace shardwise;

TEST_CASE("Every known quantization_config becomes its scheme") {
    // bitsandbytes, with and without a method
    CHECK(checkpoint_scheme({.quant_method = "bitsandbytes", .load_in_8bit = true}).value() == QuantScheme::int8());
    CHECK(checkpoint_scheme({.load_in_8bit = false, .load_in_4bit = true, .bnb_4bit_quant_type = "nf4"}).value() ==
          QuantScheme::nf4());
    CHECK(checkpoint_scheme({.quant_method = "bitsandbytes",
                             .load_in_4bit = true,
                             .bnb_4bit_quant_type = "nf4",
                             .bnb_4bit_use_double_quant = true})
              .value() == QuantScheme::nf4(true));
    CHECK(checkpoint_scheme({.quant_method = "bitsandbytes", .load_in_4bit = true}).value() == QuantScheme::fp4());
    // gptq, awq
    auto const gptq = checkpoint_scheme(
        {.quant_method = "gptq", .bits = 8, .group_size = -1, .desc_act = true, .sym = false});
    REQUIRE(gptq);
    CHECK(gptq->bits == 8);
    CHECK(gptq->group == -1);
    CHECK(gptq->desc_act);
    CHECK_FALSE(gptq->symmetric);
    CHECK(checkpoint_scheme({.quant_method = "awq", .bits = 4, .group_size = 64, .version = "GEMM"}).value() ==
          QuantScheme::awq(64));
    // fp8 as DeepSeek-V3 writes it, and with one scale
    CHECK(checkpoint_scheme({.quant_method = "fp8",
                             .block_rows = 128,
                             .block_columns = 128,
                             .activation_scheme = "dynamic"})
              .value() == QuantScheme::fp8_blocks());
    CHECK(checkpoint_scheme({.quant_method = "fp8", .activation_scheme = "static"}).value().static_activations);
    CHECK(checkpoint_scheme({.quant_method = "mxfp4"}).value() == QuantScheme::mxfp4());
}

TEST_CASE("Contradictory and unknown configurations are errors that name the key") {
    struct Row {
        QuantizationConfig config;
        ErrorCode code;
        std::string_view place;
    };
    for (auto const& row : {
             Row{{}, ErrorCode::missing_field, "quant_method"},
             Row{{.quant_method = "aqlm"}, ErrorCode::unsupported, "aqlm"},
             Row{{.quant_method = "bitsandbytes"}, ErrorCode::missing_field, "load_in_8bit"},
             Row{{.load_in_4bit = true, .bnb_4bit_quant_type = "nf5"}, ErrorCode::invalid_field, "bnb_4bit_quant_type"},
             Row{{.quant_method = "gptq"}, ErrorCode::missing_field, "bits"},
             Row{{.quant_method = "gptq", .bits = 5}, ErrorCode::invalid_field, "bits"},
             Row{{.quant_method = "awq", .bits = 8}, ErrorCode::invalid_field, "bits"},
             Row{{.quant_method = "gptq", .bits = 4, .group_size = 0}, ErrorCode::invalid_field, "group_size"},
             Row{{.quant_method = "awq", .bits = 4, .version = "gemv"}, ErrorCode::unsupported, "version"},
             Row{{.quant_method = "fp8", .block_rows = 128}, ErrorCode::invalid_field, "weight_block_size"},
             Row{{.quant_method = "fp8", .block_rows = 0, .block_columns = 128},
                 ErrorCode::invalid_field,
                 "weight_block_size"},
         }) {
        CAPTURE(row.place);
        auto const scheme = checkpoint_scheme(row.config);
        REQUIRE_FALSE(scheme);
        CHECK(scheme.error().code() == row.code);
        CHECK(scheme.error().place() == row.place);
        CHECK_FALSE(scheme.error().message().empty());
    }
}
