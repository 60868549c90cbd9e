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

}  // namespace

void shardwise::testing::note_skip(std::string_view reason) {
    char const* const ci = std::getenv("CI");
    if (ci != nullptr && std::string_view{ci} == "true") FAIL("in CI this test must run: " << std::string{reason});
    std::cout << "SKIPPED: " << reason << '\n';
    ++skips;
}

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    context.setOption("no-intro", true);
    int const status = context.run();
    if (context.shouldExit() || status != 0) return status;
    return skips == 0 ? 0 : skipped_exit_code;
}
