// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/dialect/accelerate.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

using Map = std::map<std::string, std::string>;

Tensor fp32(std::string_view name, std::initializer_list<std::int64_t> shape, TensorKind kind = TensorKind::parameter) {
    Tensor tensor{};
    tensor.name = name;
    tensor.shape = Shape{shape};
    tensor.dtype = Dtype::f32;
    tensor.kind = kind;
    return tensor;
}

ModuleId linear(ModuleTree& tree, std::int64_t in, std::int64_t out, std::int64_t buffer = 0) {
    List<Tensor> tensors{fp32("weight", {out, in}), fp32("bias", {out})};
    if (buffer > 0) tensors.push_back(fp32("buffer", {buffer}, TensorKind::buffer));
    return tree.add("Linear", std::span<Tensor const>{tensors}, {});
}

/// linear1 of 64 bytes, batchnorm of 72, linear2 of 100: the model of accelerate's own tests.
ModuleId small_model(ModuleTree& tree, bool has_buffers = false) {
    List<Tensor> norm{fp32("weight", {4}), fp32("bias", {4}), fp32("running_mean", {4}, TensorKind::buffer),
                             fp32("running_var", {4}, TensorKind::buffer)};
    norm.push_back(fp32("num_batches_tracked", {}, TensorKind::buffer));
    norm.back().dtype = Dtype::i64;
    if (has_buffers) norm.push_back(fp32("buffer", {30}, TensorKind::buffer));
    auto const first = linear(tree, 3, 4, has_buffers ? 20 : 0);
    auto const second = tree.add("BatchNorm1d", std::span<Tensor const>{norm}, {});
    auto const third = linear(tree, 4, 5, has_buffers ? 30 : 0);
    return tree.add("ModelForTest", List<Child>{{"linear1", first}, {"batchnorm", second}, {"linear2", third}});
}

MaxMemory gpus(std::initializer_list<std::int64_t> limits) {
    MaxMemory out;
    std::int32_t index = 0;
    for (auto const limit : limits) CHECK(out.add(DeviceId::gpu(index++), Bytes{limit}));
    return out;
}

DialectMap infer(ModuleTree const& tree, MaxMemory const& limits, AccelerateOptions const& options) {
    auto const expanded = expand(tree);
    REQUIRE(expanded);
    return infer_accelerate_map(*expanded, limits, options);
}

Map as_map(DialectMap const& map) {
    Map out;
    for (auto const& entry : map.entries) out[entry.prefix] = device_key(entry.device);
    return out;
}

AccelerateOptions sequential() {
    AccelerateOptions options;
    options.strategy = DialectStrategy::sequential;
    return options;
}

List<std::int64_t> budgets(DialectMap const& map) {
    List<std::int64_t> out;
    for (auto const& device : map.devices) {
        if (device.budget) out.push_back(device.budget->count());
    }
    return out;
}

// The cases below are accelerate's own (tests/test_modeling_utils.py), as facts/placement.md lists them.

TEST_CASE("A model is spread over devices, with room for the largest layer left on the first") {
    ModuleTree tree;
    tree.set_root(small_model(tree));
    Map const expected{{"linear1", "0"}, {"batchnorm", "1"}, {"linear2", "1"}};
    CHECK(as_map(infer(tree, gpus({200, 200}), sequential())) == expected);
    CHECK(as_map(infer(tree, gpus({200, 172, 200}), sequential())) == expected);
    auto const map = infer(tree, gpus({200, 200}), sequential());
    REQUIRE(map.devices.size() == 3);
    CHECK(map.devices[0].used == Bytes{64});
    CHECK(map.devices[1].used == Bytes{172});
    CHECK(map.devices[2].device == DeviceId::disk());
    CHECK_FALSE(map.devices[2].budget);
}

TEST_CASE("Tied layers go to one device and are counted once") {
    ModuleTree tree;
    auto const first = tree.add("Linear", {fp32("weight", {5, 4}), fp32("bias", {4})});
    auto const norm = tree.add("BatchNorm1d", {fp32("weight", {18})});
    auto const second = linear(tree, 4, 5);
    tree.set_root(
        tree.add("ModelForTest", List<Child>{{"linear1", first}, {"batchnorm", norm}, {"linear2", second}}));
    tree.tie("linear1.weight", "linear2.weight");
    CHECK(as_map(infer(tree, gpus({200, 200}), sequential())) == Map{{"", "0"}});
}

TEST_CASE("A module that does not fit is split, unless its class is kept whole") {
    ModuleTree tree;
    auto const part = small_model(tree);
    tree.set_root(tree.add("Sequential", List<Child>{numbered(0, 3, part)}));
    CHECK(as_map(infer(tree, gpus({500, 500}), sequential())) ==
          Map{{"0", "0"}, {"1.linear1", "0"}, {"1.batchnorm", "0"}, {"1.linear2", "1"}, {"2", "1"}});
    auto options = sequential();
    options.no_split = {"ModelForTest"};
    CHECK(as_map(infer(tree, gpus({500, 500}), options)) == Map{{"0", "0"}, {"1", "1"}, {"2", "1"}});
}

TEST_CASE("A tied module is split where it does not fit as a whole") {
    ModuleTree tree;
    auto const part = small_model(tree);
    tree.set_root(tree.add("Sequential", List<Child>{{"layer1", part}, {"layer2", part}, {"layer3", part}}));
    tree.tie("layer1.linear2.weight", "layer3.linear2.weight");
    CHECK(as_map(infer(tree, gpus({400, 500}), sequential())) == Map{{"layer1", "0"},
                                                                     {"layer3.linear2", "0"},
                                                                     {"layer2", "1"},
                                                                     {"layer3.linear1", "1"},
                                                                     {"layer3.batchnorm", "1"}});
}

TEST_CASE("A tied layer further back is pulled to the device of the first") {
    ModuleTree tree;
    auto const narrow = linear(tree, 4, 4);
    auto const wide = linear(tree, 6, 6);
    tree.set_root(
        tree.add("Sequential",
                 List<Child>{{"linear1", narrow}, {"linear2", wide}, {"linear3", narrow}, {"linear4", wide}}));
    tree.tie("linear1.weight", "linear3.weight");
    tree.tie("linear1.bias", "linear3.bias");
    CHECK(as_map(infer(tree, gpus({250, 400}), sequential())) ==
          Map{{"linear1", "0"}, {"linear2", "1"}, {"linear3", "0"}, {"linear4", "1"}});
}

TEST_CASE("Offloaded buffers that fit no GPU are warned of, unless they are offloaded too") {
    ModuleTree tree;
    tree.set_root(small_model(tree, true));
    auto limits = gpus({400});
    CHECK(limits.add("cpu", "1GB"));
    auto options = sequential();
    auto const map = infer(tree, limits, options);
    CHECK(as_map(map) == Map{{"linear1", "0"}, {"batchnorm", "cpu"}, {"linear2", "cpu"}});
    REQUIRE(map.warnings.size() == 1);
    CHECK(map.warnings[0].find("280 B") != std::string::npos);
    options.offload_buffers = true;
    CHECK(infer(tree, limits, options).warnings.empty());
}

TEST_CASE("Fallback lets a smaller module go first where nothing else fits") {
    ModuleTree tree;
    auto const inner = tree.add("Sequential", List<Child>{{"linear1", linear(tree, 10, 4)},
                                                                 {"linear2", linear(tree, 4, 4)},
                                                                 {"linear3", linear(tree, 4, 8)}});
    tree.set_root(tree.add("Sequential", List<Child>{{"module", inner}}));
    auto options = sequential();
    CHECK(as_map(infer(tree, gpus({256}), options)) == Map{{"", "disk"}});
    options.fallback_allocation = true;
    CHECK(as_map(infer(tree, gpus({256}), options)) ==
          Map{{"module.linear1", "disk"}, {"module.linear2", "0"}, {"module.linear3", "disk"}});
}

TEST_CASE("Fallback does not separate what fits together") {
    ModuleTree tree;
    auto const layer = linear(tree, 10, 10);
    tree.set_root(tree.add("Tied", List<Child>{{"linear1", layer}, {"linear2", layer}}));
    tree.tie("linear1.weight", "linear2.weight");
    auto options = sequential();
    options.fallback_allocation = true;
    CHECK(as_map(infer(tree, gpus({600}), options)) == Map{{"", "0"}});
}

TEST_CASE("Balanced budgets leave the last GPU its limit and skip GPUs without memory") {
    ModuleTree tree;
    tree.set_root(small_model(tree));
    using List = List<std::int64_t>;
    AccelerateOptions const balanced;
    CHECK(budgets(infer(tree, gpus({200, 200}), balanced)) == List{200, 200});
    CHECK(budgets(infer(tree, gpus({300, 300}), balanced)) == List{215, 300});
    CHECK(budgets(infer(tree, gpus({300, 500}), balanced)) == List{215, 500});
    CHECK(budgets(infer(tree, gpus({0, 300, 300}), balanced)) == List{0, 215, 300});
    auto with_cpu = gpus({0});
    CHECK(with_cpu.add(DeviceId::cpu(), Bytes{100}));
    CHECK(budgets(infer(tree, with_cpu, balanced)) == List{0, 100});
}

TEST_CASE("Bool elements are counted as bits and narrow dtypes are not widened") {
    ModuleTree tree;
    auto mask = fp32("mask", {64});
    mask.dtype = Dtype::boolean;
    auto half = fp32("half", {10});
    half.dtype = Dtype::f16;
    tree.set_root(tree.add("Model", {mask, half, fp32("full", {10})}));
    auto options = sequential();
    CHECK(infer(tree, gpus({1000}), options).devices[0].used == Bytes{8 + 20 + 40});
    options.dtype = Dtype::f32;
    CHECK(infer(tree, gpus({1000}), options).devices[0].used == Bytes{8 + 20 + 40});
    options.dtype = Dtype::i4;
    CHECK(infer(tree, gpus({1000}), options).devices[0].used == Bytes{8 + 5 + 5});
    options.special_dtypes = {{"full", Dtype::f32}, {"no_such", Dtype::f32}};
    CHECK(infer(tree, gpus({1000}), options).devices[0].used == Bytes{8 + 5 + 40});
}

// What accelerate does not survive.

TEST_CASE("A tied parameter whose module was split already is placed all the same") {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {fp32("weight", {10})});
    auto const holder = tree.add("Holder", {fp32("weight", {10})}, {{"leaf", leaf}});
    tree.set_root(tree.add("Model", List<Child>{{"x", leaf}, {"a", holder}}));
    tree.tie("x.weight", "a.weight");
    auto const map = infer(tree, gpus({100, 100}), sequential());
    CHECK(map.is_repaired);
    REQUIRE_FALSE(map.warnings.empty());
    CHECK(map.warnings.back().find("accelerate raises") != std::string::npos);
    CHECK(as_map(map) == Map{{"", "0"}});
    CHECK(map.devices[0].used == Bytes{80});
}

TEST_CASE("balanced_low_0 takes the first of GPUs that are not numbered from 0") {
    ModuleTree tree;
    tree.set_root(small_model(tree));
    MaxMemory limits;
    for (std::int32_t const index : {3, 5, 7}) CHECK(limits.add(DeviceId::gpu(index), Bytes{120}));
    AccelerateOptions options;
    options.strategy = DialectStrategy::balanced_low_0;
    auto const map = infer(tree, limits, options);
    CHECK(map.is_repaired);
    CHECK(budgets(map) == List<std::int64_t>{0, 120, 120});
}

TEST_CASE("An own buffer of a split module is lost as in accelerate, but not in silence") {
    ModuleTree tree;
    auto const leaf = tree.add("Leaf", {fp32("weight", {10})});
    auto const holder =
        tree.add("Holder", {fp32("mask", {2}, TensorKind::transient_buffer)}, {{"x", leaf}, {"y", leaf}, {"z", leaf}});
    tree.set_root(tree.add("Model", List<Child>{{"layer", holder}}));
    auto const map = infer(tree, gpus({80, 80}), sequential());
    CHECK(as_map(map) == Map{{"layer.x", "0"}, {"layer.y", "1"}, {"layer.z", "1"}});
    REQUIRE(map.warnings.size() == 1);
    CHECK(map.warnings[0].find("layer.mask") != std::string::npos);
}

TEST_CASE("A model without modules, and a machine without devices, have maps") {
    ModuleTree const none;
    CHECK(infer(none, gpus({100}), AccelerateOptions{}).entries.empty());
    ModuleTree tree;
    tree.set_root(small_model(tree));
    CHECK(as_map(infer(tree, {}, AccelerateOptions{})) == Map{{"", "disk"}});
    CHECK(as_map(infer(tree, gpus({INT64_MAX, INT64_MAX, INT64_MAX}), sequential())) == Map{{"", "0"}});
}

}  // namespace
