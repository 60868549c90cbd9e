#include "golden_tree.hpp"

#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using shardwise::TensorKind;

struct Case {
    std::string name;
    std::string model_type;
};

std::string const folder = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/";

/// The rows of families/index.tsv.
std::vector<Case> golden_cases() {
    std::ifstream file(folder + "families/index.tsv");
    std::vector<Case> cases;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream columns(line);
        Case row;
        std::getline(columns, row.name, '\t');
        std::getline(columns, row.model_type, '\t');
        cases.push_back(row);
    }
    return cases;
}

bool is_registered(std::string const& model_type) {
    return shardwise::Architectures::with(model_type, [](auto) {});
}

golden::Json read_golden(std::string const& name) {
    std::ifstream file(folder + "families/" + name + ".json");
    return golden::Json::parse(file);
}

shardwise::Result<shardwise::Model> describe_case(golden::Json const& golden) {
    auto const file = shardwise::read_config_file(folder + golden.at("config").get<std::string>());
    if (!file) return file.error();
    return shardwise::describe(file->config);
}

std::int64_t sum_bytes(shardwise::ModuleTree const& tree, bool is_transient) {
    return shardwise::sum_tensors(tree, [=](shardwise::Tensor const& tensor) {
        return (tensor.kind == TensorKind::transient_buffer) == is_transient ? tensor.bytes().count() : 0;
    });
}

/// Calls visit(golden file, our model) for every golden case.
template <class Visit>
void for_each_case(Visit visit) {
    for (auto const& row : golden_cases()) {
        if (!is_registered(row.model_type)) continue;
        CAPTURE(row.name);
        auto const golden = read_golden(row.name);
        auto const model = describe_case(golden);
        REQUIRE_MESSAGE(model.has_value(), model.error().message());
        visit(golden, *model);
    }
}

}  // namespace

TEST_CASE("Every golden configuration belongs to a family that this version knows") {
    auto const cases = golden_cases();
    REQUIRE(cases.size() >= 120);
    std::set<std::string> unknown;
    for (auto const& row : cases) {
        if (!is_registered(row.model_type)) unknown.insert(row.model_type);
    }
    std::string list;
    for (auto const& name : unknown) list += name + ' ';
    CHECK(list == "");
}

TEST_CASE("Trees have the modules, parameters and buffers of transformers in its order") {
    for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        golden::Lines wanted;
        golden::expand(golden.at("modules"), "", wanted);
        REQUIRE(wanted.size() == golden.at("tree_lines").get<std::size_t>());
        CHECK(golden::difference(wanted, golden::lines_of(model.tree)) == "");
    });
}

TEST_CASE("Trees tie the parameters that transformers ties") {
    for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        CHECK(golden::difference(golden::ties_of(golden), golden::ties_of(model.tree)) == "");
    });
}

TEST_CASE("Trees keep whole the classes that transformers never splits") {
    for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        auto const& classes = model.tree.no_split_classes();
        golden::Lines found(classes.begin(), classes.end());
        std::sort(found.begin(), found.end());
        CHECK(golden::difference(golden.at("no_split").get<golden::Lines>(), found) == "");
    });
}

TEST_CASE("Parameters and bytes come out as transformers counts them") {
    for_each_case([](golden::Json const& golden, shardwise::Model const& model) {
        CHECK(shardwise::count_parameters(model.tree) == golden.at("parameters").get<std::int64_t>());
        CHECK(sum_bytes(model.tree, false) == golden.at("state_bytes").get<std::int64_t>());
        CHECK(sum_bytes(model.tree, true) == golden.at("transient_bytes").get<std::int64_t>());
    });
}
