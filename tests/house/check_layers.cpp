// SPDX-License-Identifier: Apache-2.0
// check_layers ROOT: prints what breaks docs/layers.txt and the file rules of style.md; exit 1 when anything does.
#include "layers.hpp"

#include <iostream>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: check_layers ROOT\n";
        return 2;
    }
    std::vector<std::string> const violations = house::check_layers(argv[1]);
    for (std::string const& violation : violations) std::cout << violation << '\n';
    return violations.empty() ? 0 : 1;
}
