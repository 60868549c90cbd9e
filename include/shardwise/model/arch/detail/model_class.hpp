#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/config.hpp>

#include <initializer_list>
#include <string_view>

namespace shardwise::inline v0_2_0::detail {

/// Takes the first of a family's classes for a config that names none, and refuses a class that the family does not
/// count.
///
/// Errors  unsupported, which names the class
[[nodiscard]] constexpr Result<> check_class(ModelConfig& config, std::initializer_list<std::string_view> classes) {
    if (config.model_class.empty()) config.model_class.assign(*classes.begin());
    for (auto const known : classes) {
        if (config.model_class.view() == known) return {};
    }
    return Error{ErrorCode::unsupported}
        .in(config.model_class.view())
        .at("architectures")
        .because("is not a class of this family that can be counted")
        .fix(did_you_mean(*classes.begin()).view());
}

}  // namespace shardwise::inline v0_2_0::detail
