// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shardwise::testing {

/// Notes that this test case cannot run here; a run with skips and no failures ends with code 77, which ctest shows.
/// In CI (CI=true), where everything can be installed, it is a failure instead.
void note_skip(std::string_view reason);

/// Says that a tool is missing without which one case of many cannot run; the others still count. In CI it is a failure:
/// scripts/setup.sh installs the tool there.
void note_absent_tool(std::string_view tool);

}  // namespace shardwise::testing

/// Leaves the test case because something outside the repository is missing. Only in the suites "models" and "long".
#define SHARDWISE_SKIP(reason)                   \
    do {                                         \
        ::shardwise::testing::note_skip(reason); \
        return;                                  \
    } while (false)
