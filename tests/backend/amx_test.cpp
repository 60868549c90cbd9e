// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include "memory_tiles.hpp"
#include "quantised_source.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

using namespace shardwise;
using test::inputs_of;
using test::QuantisedWeight;
using test::Recipe;

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace {

/// With products of bytes, tdpbsud.
class ByteTiles : public test::MemoryTiles {
public:
    template <int sums, int values, int codes>
    void add_products() {
        begin_product<sums, values, codes>();
        for (int row = 0; row < shapes_.rows[sums]; ++row) {
            for (int column = 0; column < shapes_.row_bytes[sums] / 4; ++column) {
                std::int32_t sum;
                std::memcpy(&sum, tiles_[sums][row] + 4 * column, 4);
                for (int i = 0; i < shapes_.row_bytes[values]; ++i) {
                    auto const value = static_cast<std::int8_t>(tiles_[values][row][i]);
                    sum += value * tiles_[codes][i / 4][4 * column + i % 4];
                }
                std::memcpy(tiles_[sums][row] + 4 * column, &sum, 4);
            }
        }
    }
};

using Floats = std::vector<float>;

/// A product by a kernel, of which the calling thread makes all.
Floats product(detail::ProductKernel const& kernel, HostWeight const& weight, Floats const& in, std::int64_t rows) {
    UnitRange const inputs{0, weight.inputs()};
    auto const stride = detail::prepared_row_bytes(kernel, inputs);
    std::vector<std::byte> prepared(static_cast<std::size_t>(rows * stride));
    Floats out(static_cast<std::size_t>(rows * weight.outputs()));
    for (std::int64_t row = 0; row < rows; ++row)
        detail::prepare_range(kernel, in.data() + row * weight.inputs(), inputs, prepared.data() + row * stride);
    detail::run_product(kernel, {.weight = weight.packed(),
                                 .inputs = inputs,
                                 .in = in.data(),
                                 .in_stride = weight.inputs(),
                                 .prepared = prepared.data(),
                                 .prepared_stride = stride,
                                 .rows = rows,
                                 .first_panel = 0,
                                 .last_panel = ceil_divide(weight.outputs(), detail::panel_outputs),
                                 .out = out.data(),
                                 .out_stride = weight.outputs()});
    return out;
}

/// Every format by a kernel of its own and by the portable level's, which have to be the same bits.
template <class KernelOf>
void check_kernels(KernelOf const& kernel_of) {
    std::mt19937 random(21);
    std::normal_distribution<float> normal;
    HostContext context({.threads = 1});
    for (auto const format : test::quantised_formats) {
        if (!has_int8_product(format)) continue;
        auto const ragged = format == WeightFormat::int8 ? 9 : 0;
        Recipe const recipe{format, 37, inputs_of(format, 3) + ragged};
        QuantisedWeight const source(recipe, random, [&] { return 0.01F * normal(random); });
        auto weight = Host::hold_weight(context, source.source());
        REQUIRE(weight);
        for (std::int64_t const rows : {1, 2, 15, 16, 17, 33, 100}) {
            Floats in(static_cast<std::size_t>(rows * recipe.inputs));
            for (auto& value : in) value = normal(random);
            auto const expected = product(detail::rounded_kernel(format, IsaLevel::portable), *weight, in, rows);
            auto const made = product(kernel_of(format), *weight, in, rows);
            CHECK_MESSAGE(std::memcmp(made.data(), expected.data(), made.size() * sizeof(float)) == 0, name_of(format),
                          " ", rows);
        }
    }
}

}  // namespace

TEST_CASE("amx: products by emulated tiles have the portable level's bits, and shapes that the processor takes") {
    // What is around the tiles.
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    using Unit = detail::quant_amx::TileUnit<ByteTiles>;
    ByteTiles::faults = 0;
    ByteTiles::products = 0;
    check_kernels([](WeightFormat format) {
        return detail::quant_avx512_bf16::rounded_kernels<Unit>[static_cast<std::size_t>(format)];
    });
    CHECK(ByteTiles::faults == 0);
    CHECK(ByteTiles::products > 0);
}

TEST_CASE("amx: products by the processor's tiles have the portable level's bits") {
    if (!has_isa(IsaLevel::amx)) return;
    check_kernels([](WeightFormat format) { return detail::rounded_kernel(format, IsaLevel::amx); });
}

#endif
