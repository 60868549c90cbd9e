// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/detail/amd_matrix_unit.hpp>

#include <doctest/doctest.h>

TEST_CASE(
    "has_amd_matrix_unit: CDNA 2 and 3 and RDNA 3 have one that kernels take, with or without features in the name") {
    using shardwise::detail::has_amd_matrix_unit;
    for (auto const* const name : {"gfx90a:sramecc+:xnack-", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx11-generic"})
        CHECK_MESSAGE(has_amd_matrix_unit(name), name);
    for (auto const* const name :
         {"gfx900", "gfx906", "gfx908", "gfx1030", "gfx1200", "gfx12-generic", "gfx9-generic", ""})
        CHECK_FALSE_MESSAGE(has_amd_matrix_unit(name), name);
}
