// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "fake_vendor.hpp"

namespace shardwise::testing {

/// What a test leaves behind is a leak, and what it has set is the next one's trouble.
struct Clean {
    Clean() { CHECK(FakeMachine::get().is_empty()); }
    Clean(Clean const&) = delete;
    Clean& operator=(Clean const&) = delete;
    ~Clean() {
        auto& machine = FakeMachine::get();
        machine.mend();
        machine.devices = 2;
        machine.warp_size = FakeApi::least_warp_size;
        machine.rows_without_algorithm = -1;
        FakeApi::current() = 0;
        CHECK(machine.is_empty());
    }
};

}  // namespace shardwise::testing
