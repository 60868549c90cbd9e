// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <exception>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// work(), which returns Result<> and is the including program's: what it throws becomes an error of `code` in `subject`, with the
/// exception's own words. A program without exceptions has none to catch.
#if defined(__cpp_exceptions)
template <class Work>
[[nodiscard]] Result<> catch_exceptions(ErrorCode code, std::string_view subject, Work&& work) {
    try {
        return work();
    } catch (std::exception const& problem) {
        return Error{code}.in(subject).because("threw: " + std::string(problem.what()));
    } catch (...) {
        return Error{code}.in(subject).because("threw an exception");
    }
}
#else
template <class Work>
[[nodiscard]] Result<> catch_exceptions(ErrorCode, std::string_view, Work&& work) {
    return work();
}
#endif

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
