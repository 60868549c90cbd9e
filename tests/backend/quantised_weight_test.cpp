// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include "quantised_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace shardwise;
using test::inputs_of;
using test::QuantisedWeight;
using test::Recipe;

namespace {

HostOptions const portable{
    .threads = 1, .is_pinned = false, .streams = StreamMode::immediate, .isa = IsaLevel::portable};

}  // namespace

TEST_CASE("hold_weight: keeps a quantised weight in the bytes of its checkpoint, as packed_weight_bytes says") {
    std::mt19937 random(9);
    for (auto const format : test::quantised_formats) {
        for (std::int64_t const outputs : {1, 16, 33}) {
            Recipe const recipe{format, outputs, inputs_of(format, 4)};
            QuantisedWeight const weight(recipe, random, [] { return 1.0F; });
            HostContext context(portable);
            auto const kept = Host::hold_weight(context, weight.source());
            REQUIRE_MESSAGE(kept, kept.error().message());
            auto const& held = *kept;
            CHECK(held.bytes() == context.memory().current());
            CHECK(held.bytes() == packed_weight_bytes(format, outputs, recipe.inputs, recipe.group));
            auto const stored = detail::source_bytes(weight.source());
            auto const panels = (outputs + 15) / 16;
            CHECK(held.bytes().count() == (stored->data + stored->scales) / outputs * 16 * panels);
        }
    }
    CHECK(packed_weight_bytes(WeightFormat::int8, 16, 33) == Bytes{2 * 512 + 64});
    CHECK(packed_weight_bytes(WeightFormat::int4, 16, 33, 20) == Bytes{2 * 256 + 2 * 32});
    CHECK(packed_weight_bytes(WeightFormat::q4_k, 16, std::numeric_limits<std::int64_t>::max()) == std::nullopt);
}

TEST_CASE("hold_weight: the stretches of a quantised panel begin on cache lines and fill it") {
    for (auto const format : test::quantised_formats) {
        for (std::int64_t const multiple : {1, 2, 3, 4, 5, 15, 16, 17}) {
            for (std::int64_t const group : {32, 64, 96, 20}) {
                auto const inputs = inputs_of(format, multiple);
                std::int64_t bytes = 0;
                for (std::int64_t begin = 0, end = 0; begin < inputs; begin = end) {
                    end = begin + std::min(detail::stretch_inputs(format, group), inputs - begin);
                    CHECK(detail::stretch_scale_bytes(format, end - begin, group) % detail::panel_alignment == 0);
                    bytes += detail::stretch_bytes(format, end - begin, group);
                }
                CHECK_MESSAGE(bytes == detail::panel_bytes(format, inputs, group), name_of(format));
            }
        }
    }
}

TEST_CASE("hold_weight: refuses quantised data and scales of another size, and blocks that would be cut") {
    std::mt19937 random(10);
    HostContext context(portable);
    auto const code_of = [&](WeightSource const& source) {
        auto const held = Host::hold_weight(context, source);
        REQUIRE(!held);
        return held.error().code();
    };
    for (auto const format : test::quantised_formats) {
        QuantisedWeight const weight({format, 3, inputs_of(format, 2)}, random, [] { return 1.0F; });
        auto source = weight.source();
        source.data = source.data.first(source.data.size() - 1);
        CHECK(code_of(source) == ErrorCode::shape_mismatch);
        source = weight.source();
        std::vector<std::byte> const more(source.scales.size() + 1);
        source.scales = more;
        CHECK(code_of(source) == ErrorCode::shape_mismatch);
        if (format == WeightFormat::int8 || format == WeightFormat::int4) continue;
        source = weight.source();
        source.inputs -= 1;
        CHECK(code_of(source) == ErrorCode::shape_mismatch);
    }
    QuantisedWeight const weight({WeightFormat::int4, 3, 64, 32}, random, [] { return 1.0F; });
    auto source = weight.source();
    source.group = 0;
    CHECK(code_of(source) == ErrorCode::invalid_argument);
    CHECK(context.memory().current() == Bytes{0});
}
