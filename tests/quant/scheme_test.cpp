// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/scheme.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardwise;

TEST_CASE("Schemes parse in any case and give their names back") {
    for (std::string_view const name :
         {"int8", "int4-g128", "int4-g64", "nf4", "nf4-dq", "fp4", "fp4-dq", "fp8", "fp8-block", "gptq-int4-g128",
          "gptq-int8-g32", "gptq-int3-g128", "awq-g128", "mxfp4", "Q4_K_M", "Q4_0", "Q4_0-pure", "Q4_K", "F16",
          "IQ4_XS", "MXFP4_MOE", "MXFP4-pure"}) {
        CAPTURE(name);
        auto upper = std::string(name);
        for (auto& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        auto const scheme = parse_quant_scheme(upper);
        REQUIRE(scheme);
        auto const again = parse_quant_scheme(name_of(*scheme).view());
        REQUIRE(again);
        CHECK(*again == *scheme);
        CHECK(parse_quant_scheme(name).value() == *scheme);
        CHECK(name_of(*scheme).view() == name);
    }
}

TEST_CASE("Groups default to 128 and bits of GPTQ to four") {
    CHECK(parse_quant_scheme("int4").value() == QuantScheme::int4(128));
    CHECK(parse_quant_scheme("gptq").value() == QuantScheme::gptq(4, 128));
    CHECK(parse_quant_scheme("gptq-int8").value() == QuantScheme::gptq(8, 128));
    CHECK(parse_quant_scheme("awq").value() == QuantScheme::awq(128));
}

TEST_CASE("A name of llama-quantize means its file, a block type alone or with -pure packs every matrix alike") {
    CHECK(parse_quant_scheme("q6_k").value().method == QuantMethod::ggml_file);
    CHECK(parse_quant_scheme("q5_k").value().method == QuantMethod::ggml_pure);
    CHECK(parse_quant_scheme("q6_k-pure").value() == QuantScheme::ggml_pure(GgmlType::q6_k));
}

TEST_CASE("Unknown names are errors that list the known ones") {
    for (std::string_view const name :
         {"", "int5", "int4-g", "int4-g0", "int4-gx", "int4-g99999999", "nf4-g64", "gptq-int5", "gptq-int", "q4_k_x",
          "-pure", "i8", "f64", "q4_0_4_4", "awq-64"}) {
        CAPTURE(name);
        auto const scheme = parse_quant_scheme(name);
        REQUIRE_FALSE(scheme);
        CHECK(scheme.error().code() == ErrorCode::unknown_name);
        CHECK(scheme.error().advice().find("int8") != std::string_view::npos);
    }
}

static_assert(parse_quant_scheme("q4_k_m").value() == QuantScheme::ggml(GgmlFileType::q4_k_m));
static_assert(name_of(QuantScheme::gptq(3, -1)).view() == "gptq-int3");
