#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/plan_search.hpp>

namespace shardwise::inline v0 {

[[nodiscard]] inline Error plan_shortfall(PlanSearch&) { return Error{ErrorCode::out_of_memory}.because("no cut fits"); }

}  // namespace shardwise::inline v0
