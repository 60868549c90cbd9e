// SPDX-License-Identifier: Apache-2.0
#include "degree_flags.hpp"

#include <shardwise/memory/check_model_request.hpp>

#include <string>
#include <string_view>

namespace shardwise::cli {

Result<> check_degrees(Model const& model, Parallelism const& degrees) {
    auto const checked = check_request(model, {.parallel = degrees});
    if (checked) return {};
    for (std::string_view const degree : {"tp", "pp", "ep"}) {
        if (checked.error().place() == degree) return Error{checked.error()}.in("--" + std::string(degree)).at({});
    }
    return {};
}

bool is_degree_flag(Error const& error) {
    for (std::string_view const flag : {"--tp", "--pp", "--ep"}) {
        if (error.subject().ends_with(flag)) return true;
    }
    return false;
}

}  // namespace shardwise::cli
