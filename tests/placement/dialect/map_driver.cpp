// SPDX-License-Identifier: Apache-2.0
// Answers the cases that scripts/golden/accelerate_*.py --check writes to its input; with the argument
// transformers or transformers-5.0, that library's cases.
// Not part of the suite; build it by hand:
// g++ -std=c++20 -O1 -fsanitize=address,undefined -I include tests/placement/dialect/map_driver.cpp -o map_driver

#include "dialect_cases.hpp"

#include <iostream>
#include <string>

int main(int argc, char** argv) {
    using namespace shardwise;
    bool const is_old = argc > 1 && std::string(argv[1]) == "transformers-5.0";
    std::string line;
    std::string tree_text;
    while (std::getline(std::cin, line) && std::getline(std::cin, tree_text)) {
        auto const document = parse_json(line);
        auto const file = read_tree(tree_text, "case");
        if (!document || !file) return 1;
        auto const tree = expand(file->tree);
        if (!tree) return 1;
        auto question = dialect_cases::read_question(document->root());
        if (is_old) question.transformers.rules = TransformersRules::v5_0;
        auto const map = argc > 1 ? infer_transformers_map(*tree, question.max_memory, question.transformers)
                                  : infer_accelerate_map(*tree, question.max_memory, question.accelerate);
        std::string separator;
        std::cout << "{\"map\":{";
        for (auto const& entry : map.entries) {
            std::cout << separator << '"' << entry.prefix << "\":\"" << device_key(entry.device) << '"';
            separator = ",";
        }
        separator.clear();
        std::cout << "},\"budgets\":{";
        for (auto const& device : map.devices) {
            if (!device.budget) continue;
            std::cout << separator << '"' << device_key(device.device) << "\":" << device.budget->count();
            separator = ",";
        }
        std::cout << std::boolalpha << "},\"warns\":" << dialect_cases::warns_of_buffers(map)
                  << ",\"is_repaired\":" << map.is_repaired << "}\n";
    }
}
