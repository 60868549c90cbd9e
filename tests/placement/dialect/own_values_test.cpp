// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/memory_size.hpp>

#include <doctest/doctest.h>

#include "dialect_cases.hpp"
#include "golden_json.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace {

using namespace shardwise;

JsonDocument own_values() {
    return testing::golden_json("accelerate/own_values.json");
}

TEST_CASE("the sizes of accelerate's own tests: every module and tensor of its models") {
    auto const values = own_values();
    auto const cases = *values.root().find("sizes");
    std::size_t count = 0;
    for (auto const one : cases) {
        auto const source = read_tree(*one.find("tree")->string(), "golden case");
        REQUIRE(source);
        auto const tree = expand(source->tree);
        REQUIRE(tree);
        auto const sizes = detail::accelerate_sizes(*tree, dialect_cases::read_question(one).accelerate);
        std::map<std::string, std::int64_t> found;
        for (ExpandedTree::Index i = 0; i < tree->module_count(); ++i) found[tree->path(i)] = sizes.of_module(i);
        for (ExpandedTree::Index i = 0; i < tree->tensor_count(); ++i) found[tree->tensor_path(i)] = sizes.of_tensor(i);
        std::map<std::string, std::int64_t> expected;
        auto const expect = one.find("expect");
        for (auto const entry : *expect) expected[std::string(entry.key())] = *entry.integer() * 8;
        CHECK(found == expected);
        ++count;
    }
    CHECK(count == 2);
}

TEST_CASE("the texts and dtypes of accelerate's own tests have its sizes, and what it refuses is refused") {
    auto const values = own_values();
    std::size_t refused = 0;
    auto const texts = values.root().find("texts");
    for (auto const entry : *texts) {
        CAPTURE(std::string(entry.key()));
        auto const bytes = parse_memory_size(entry.key());
        auto const expected = entry.integer();
        CHECK(bytes.has_value() == expected.has_value());
        if (bytes && expected) CHECK(bytes->count() == *expected);
        if (!bytes) ++refused;
    }
    CHECK(refused == 3);
    auto const dtypes = values.root().find("dtypes");
    for (auto const entry : *dtypes) {
        CAPTURE(std::string(entry.key()));
        auto const dtype = parse_dtype(entry.key());
        REQUIRE(dtype);
        CHECK(detail::accelerate_bits(*dtype) == *entry.integer());
    }
}

}  // namespace
