// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/dialect/transformers.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

Tensor tensor(std::string_view name, Dtype dtype, std::int64_t count) {
    Tensor out{};
    out.name = name;
    out.shape = Shape{count};
    out.dtype = dtype;
    return out;
}

Bytes used(ModuleTree const& tree, TransformersOptions options) {
    auto const expanded = expand(tree);
    REQUIRE(expanded);
    MaxMemory limits;
    REQUIRE(limits.add(DeviceId::gpu(0), 1_GiB));
    options.strategy = DialectStrategy::sequential;
    return infer_transformers_map(*expanded, limits, options).devices.front().used;
}

TEST_CASE("Elements take what they take in memory: a bool is a byte, a quantised weight what its quantizer says") {
    ModuleTree tree;
    tree.set_root(tree.add("Model", {tensor("weight", Dtype::f32, 10), tensor("mask", Dtype::boolean, 10),
                                     tensor("packed", Dtype::f8_e4m3, 10), tensor("index", Dtype::i64, 10)}));
    CHECK(used(tree, {}) == Bytes{40 + 10 + 10 + 80});
    TransformersOptions options;
    options.dtype = Dtype::bf16;
    CHECK(used(tree, options) == Bytes{20 + 10 + 10 + 80});
    options.element_bits = {{"weight", 4}};
    CHECK(used(tree, options) == Bytes{5 + 10 + 10 + 80});
}

TEST_CASE("Unused reserved memory is filled, but never beyond the limit that was given") {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {tensor("weight", Dtype::f32, 100)});
    tree.set_root(tree.add("Model", List<Child>{numbered(0, 4, leaf)}));
    auto const expanded = expand(tree);
    REQUIRE(expanded);
    MaxMemory limits;
    REQUIRE(limits.add(DeviceId::gpu(0), Bytes{2000}));
    REQUIRE(limits.add(DeviceId::gpu(1), Bytes{2000}));
    TransformersOptions options;
    // 1600 / 2 + int(1.25 * 400)
    CHECK(infer_transformers_map(*expanded, limits, options).devices[0].budget == Bytes{1300});
    options.unused_reserved = {{DeviceId::gpu(0), Bytes{300}}};
    CHECK(infer_transformers_map(*expanded, limits, options).devices[0].budget == Bytes{1600});
    options.unused_reserved = {{DeviceId::gpu(0), Bytes{3000}}};
    CHECK(infer_transformers_map(*expanded, limits, options).devices[0].budget == Bytes{2000});
    options.unused_reserved.clear();
    options.budget_share = 0.9;
    auto const map = infer_transformers_map(*expanded, limits, options);
    CHECK(map.devices[0].budget == Bytes{1170});
    CHECK(map.devices[1].budget == Bytes{1800});
}

}  // namespace
