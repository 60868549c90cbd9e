// SPDX-License-Identifier: Apache-2.0
// The only translation unit that carries doctest itself: one object for all test executables of a configuration.
#include "skip.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace {

constexpr int skipped_exit_code = 77;
int skips = 0;

bool is_ci() {
    char const* const ci = std::getenv("CI");
    return ci != nullptr && std::string_view{ci} == "true";
}

}  // namespace

void shardwise::testing::note_skip(std::string_view reason) {
    if (is_ci()) FAIL("in CI this test must run: " << std::string{reason});
    std::cout << "SKIPPED: " << reason << '\n';
    ++skips;
}

void shardwise::testing::note_absent_tool(std::string_view tool) {
    if (is_ci()) FAIL_CHECK("in CI this test must run: " << std::string{tool} << " is not installed");
    MESSAGE("not checked: " << std::string{tool} << " is not installed");
}

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    context.setOption("no-intro", true);
    int const status = context.run();
    if (context.shouldExit() || status != 0) return status;
    return skips == 0 ? 0 : skipped_exit_code;
}
