// SPDX-License-Identifier: Apache-2.0
// check_layers ROOT: prints what breaks docs/layers.txt, the rules of files, of names and of descriptions; exit 1 when anything does.
#include "descriptions.hpp"
#include "layers.hpp"
#include "type_names.hpp"

#include <iostream>
#include <utility>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: check_layers ROOT\n";
        return 2;
    }
    auto violations = house::check_layers(argv[1]);
    for (auto& violation : house::check_descriptions(argv[1])) violations.push_back(std::move(violation));
    for (auto& violation : house::check_type_names(argv[1])) violations.push_back(std::move(violation));
    for (std::string const& violation : violations) std::cout << violation << '\n';
    return violations.empty() ? 0 : 1;
}
