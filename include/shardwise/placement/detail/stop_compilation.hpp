// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// Not constexpr, and defined nowhere: a constant expression that reaches one of them ends with an error that shows its name.
void request_is_not_legal();
void family_is_not_in_the_list();
void sizes_are_beyond_63_bits();
void ranks_are_more_than_are_listed();
void model_is_not_supported();
void config_lacks_a_field();
void config_has_an_impossible_field();
void shapes_do_not_agree();
void devices_lack_what_the_strategy_needs();
void strategy_leaves_a_unit_without_a_device();
void strategy_gives_no_legal_placement();
void strategy_fails_otherwise();

/// A template: a plain function that no constant expression can leave is ill-formed.
template <class Code>
consteval void stop_compilation(Code code) {
    switch (code) {
        case ErrorCode::invalid_argument: return request_is_not_legal();
        case ErrorCode::unknown_name: return family_is_not_in_the_list();
        case ErrorCode::size_overflow: return sizes_are_beyond_63_bits();
        case ErrorCode::capacity_exceeded: return ranks_are_more_than_are_listed();
        case ErrorCode::unsupported: return model_is_not_supported();
        case ErrorCode::missing_field: return config_lacks_a_field();
        case ErrorCode::invalid_field: return config_has_an_impossible_field();
        case ErrorCode::shape_mismatch: return shapes_do_not_agree();
        case ErrorCode::no_such_device: return devices_lack_what_the_strategy_needs();
        case ErrorCode::not_covered: return strategy_leaves_a_unit_without_a_device();
        case ErrorCode::out_of_memory:
        case ErrorCode::file_not_found:
        case ErrorCode::file_unreadable:
        case ErrorCode::malformed_file:
        case ErrorCode::unsafe_path:
        case ErrorCode::backend_failure:
        case ErrorCode::deadline_exceeded:
        case ErrorCode::rank_lost:
        case ErrorCode::collective_mismatch:
        case ErrorCode::file_unwritable: return strategy_fails_otherwise();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
