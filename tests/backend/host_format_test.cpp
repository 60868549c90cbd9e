// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/device_format.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/table.hpp>
#include <shardwise/backend/host/weight.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace shardwise;

TEST_CASE("host formats: each has what its product needs, at each level") {
    using detail::HostProduct;
    for (auto const& row : detail::host_format_table) {
        CAPTURE(name_of(row.format));
        CHECK((row.pack != nullptr) == (row.product == HostProduct::elements));
        CHECK((row.read != nullptr) == detail::is_quantised(row.format));
        CHECK((row.scales != detail::ScaleForm::none) == detail::is_quantised(row.format));
        for (auto const level : isa_level_list) {
            for (auto const activations :
                 {ProductActivations::full, ProductActivations::int8, ProductActivations::bf16}) {
                auto const kernel = detail::product_kernel(row.format, level, activations);
                CHECK((kernel.multiply != nullptr) == has_host_product(row.format));
                CHECK((kernel.prepare != nullptr) == (kernel.prepared_bytes != nullptr));
            }
        }
    }
}

TEST_CASE("host formats: a format without a product is refused by name") {
    CHECK(detail::check_runs(detail::host_format(WeightFormat::q4_k)));
    auto const refused = detail::check_runs({.format = WeightFormat::q4_k});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(std::string(refused.error().message()).find("q4_k") != std::string::npos);
}

TEST_CASE("host formats: the layout of a panel is as quant_layout.hpp describes it") {
    constexpr auto all = std::numeric_limits<std::int64_t>::max();
    struct Expected {
        WeightFormat format;
        std::int64_t stretch;
        // Of 16 outputs in a stretch, or of 512 inputs where all are one.
        std::int64_t scale_bytes;
    };
    for (auto const& row : {Expected{WeightFormat::int8, all, 64}, Expected{WeightFormat::int4, 128, 64},
                            Expected{WeightFormat::nf4, 64, 64}, Expected{WeightFormat::mxfp4, 128, 64},
                            Expected{WeightFormat::q4_0, 64, 64}, Expected{WeightFormat::q4_1, 32, 64},
                            Expected{WeightFormat::q5_0, 64, 64}, Expected{WeightFormat::q5_1, 32, 64},
                            Expected{WeightFormat::q8_0, 64, 64}, Expected{WeightFormat::q4_k, 256, 256},
                            Expected{WeightFormat::q5_k, 256, 256}, Expected{WeightFormat::q6_k, 512, 576}}) {
        CAPTURE(name_of(row.format));
        CHECK(detail::stretch_inputs(row.format, 64) == row.stretch);
        CHECK(detail::stretch_scale_bytes(row.format, row.stretch == all ? 512 : row.stretch, 64) == row.scale_bytes);
    }
    // Groups that end within a block, and those that a stretch cannot hold twice.
    CHECK(detail::stretch_inputs(WeightFormat::int4, 20) == all);
    CHECK(detail::stretch_inputs(WeightFormat::int4, all - all % 32) == all);
}

TEST_CASE("device formats: every format runs on devices, in as many bytes as its blocks or a few more") {
    for (auto const& unit : weight_format_table) {
        CAPTURE(unit.name);
        CHECK(has_device_products(unit.format));
        auto const& device = detail::device_format(unit.format);
        CHECK(device.quant_bits + device.plane_bits == unit.bits);
        if (unit.block_bytes == 0) continue;
        auto const count = std::max<std::int64_t>(256, unit.block_elements);
        auto const scales = device.scale_elements > 0 ? count / device.scale_elements * device.scale_bytes : 0;
        auto const bytes = count * unit.bits / 8 + scales + count / 256 * device.super_bytes;
        auto const stored = count / unit.block_elements * unit.block_bytes;
        CHECK(bytes >= stored);
        CHECK(bytes <= stored + stored / 32);
    }
}
