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

/// Four leaves of 400 bytes on two GPUs of 2000.
DialectMap map_of_four_leaves(TransformersOptions const& options) {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {tensor("weight", Dtype::f32, 100)});
    tree.set_root(tree.add("Model", List<Child>{numbered(0, 4, leaf)}));
    auto const expanded = expand(tree);
    REQUIRE(expanded);
    MaxMemory limits;
    REQUIRE(limits.add(DeviceId::gpu(0), Bytes{2000}));
    REQUIRE(limits.add(DeviceId::gpu(1), Bytes{2000}));
    return infer_transformers_map(*expanded, limits, options);
}

Optional<Bytes> first_budget(TransformersOptions const& options) { return map_of_four_leaves(options).devices[0].budget; }

TEST_CASE("transformers 5.0 fills unused reserved memory, but never beyond the limit that was given") {
    TransformersOptions options;
    options.rules = TransformersRules::v5_0;
    // 1600 / 2 + int(1.25 * 400)
    CHECK(first_budget(options) == Bytes{1300});
    options.unused_reserved = {{DeviceId::gpu(0), Bytes{300}}};
    CHECK(first_budget(options) == Bytes{1600});
    options.unused_reserved = {{DeviceId::gpu(0), Bytes{3000}}};
    CHECK(first_budget(options) == Bytes{2000});
    options.unused_reserved.clear();
    options.budget_share = 0.9;
    auto const map = map_of_four_leaves(options);
    CHECK(map.devices[0].budget == Bytes{1170});
    CHECK(map.devices[1].budget == Bytes{1800});
}

// 5.23 adds it to what the driver reports as free, before the limits that the caller gives lower both.
TEST_CASE("transformers 5.23 adds no unused reserved memory to limits that were given") {
    TransformersOptions options;
    CHECK(first_budget(options) == Bytes{1300});
    options.unused_reserved = {{DeviceId::gpu(0), Bytes{300}}};
    CHECK(first_budget(options) == Bytes{1300});
}

}  // namespace
