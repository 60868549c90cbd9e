// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"
#include "golden_tree.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace {

using shardwise::TensorKind;

std::int64_t sum_bytes(shardwise::ModuleTree const& tree, bool is_transient) {
    return shardwise::sum_tensors(tree, [=](shardwise::Tensor const& tensor) {
        return (tensor.kind == TensorKind::transient_buffer) == is_transient ? tensor.bytes().count() : 0;
    });
}

}  // namespace

TEST_CASE("Every golden configuration belongs to a family that this version knows") {
    auto const cases = golden::golden_cases();
    REQUIRE(cases.size() >= 120);
    std::set<std::string> unknown;
    for (auto const& row : cases) {
        if (!golden::is_registered(row.model_type)) unknown.insert(row.model_type);
    }
    std::string list;
    for (auto const& name : unknown) list += name + ' ';
    CHECK(list == "");
}

TEST_CASE("Trees have the modules, parameters and buffers of transformers in its order" *
          doctest::test_suite("large")) {
    golden::for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        golden::Lines wanted;
        golden::expand(golden.at("modules"), "", wanted);
        REQUIRE(wanted.size() == golden.at("tree_lines").get<std::size_t>());
        CHECK(golden::difference(wanted, golden::lines_of(model.tree)) == "");
    });
}

TEST_CASE("Trees tie the parameters that transformers ties") {
    golden::for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        CHECK(golden::difference(golden::ties_of(golden), golden::ties_of(model.tree)) == "");
    });
}

TEST_CASE("Trees keep whole the classes that transformers never splits") {
    golden::for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        auto const& classes = model.tree.no_split_classes();
        golden::Lines found(classes.begin(), classes.end());
        std::sort(found.begin(), found.end());
        CHECK(golden::difference(golden.at("no_split").get<golden::Lines>(), found) == "");
    });
}

TEST_CASE("Parameters and bytes come out as transformers counts them") {
    golden::for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        CHECK(shardwise::count_parameters(model.tree) == golden.at("parameters").get<std::int64_t>());
        CHECK(sum_bytes(model.tree, false) == golden.at("state_bytes").get<std::int64_t>());
        CHECK(sum_bytes(model.tree, true) == golden.at("transient_bytes").get<std::int64_t>());
    });
}
