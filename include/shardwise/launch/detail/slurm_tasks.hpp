// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The tasks of one node out of SLURM's list for all nodes: "2(x2),1" is 2, 2 and 1.
///
/// Errors  invalid_argument where it is no such list, has no such node, or where its sum is not `total`
/// Source  man srun, SLURM_TASKS_PER_NODE
[[nodiscard]] inline Result<std::int32_t> slurm_tasks(std::string_view list, std::string_view name, std::int32_t node,
                                                      std::int32_t total) {
    Error error{ErrorCode::invalid_argument};
    error.in(name).at(list.empty() ? std::string_view("\"\"") : list);
    Error const malformed = Error(error).because("is no list of tasks").fix("let srun set it; it looks like 2(x2),1");
    auto rest = list;
    auto const take = [&rest](std::int32_t& number) {
        auto const [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
        if (problem != std::errc{} || number < 1) return false;
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        return true;
    };
    std::int64_t nodes = 0;
    std::int64_t sum = 0;
    std::int32_t found = 0;
    while (true) {
        std::int32_t tasks = 0;
        std::int32_t times = 1;
        if (!take(tasks)) return malformed;
        if (rest.substr(0, 2) == "(x") {
            rest.remove_prefix(2);
            if (!take(times) || rest.substr(0, 1) != ")") return malformed;
            rest.remove_prefix(1);
        }
        if (node >= nodes && node < nodes + times) found = tasks;
        nodes += times;
        sum += std::int64_t{tasks} * times;
        // Stops before sums could overflow.
        if (sum > total) break;
        if (rest.empty()) break;
        if (rest.substr(0, 1) != ",") return malformed;
        rest.remove_prefix(1);
    }
    if (sum != total) return error.because("is not as many tasks as SLURM_NTASKS").got(sum).expected(total);
    if (found == 0) return error.because("has no node of SLURM_NODEID").got(node).at_most(nodes - 1);
    return found;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
