// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/shardwise.hpp>

// Without NDEBUG assertions are on, constant expressions pass them, and the namespace says so.
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

namespace {

using namespace shardwise;

static_assert(SHARDWISE_ASSERTIONS == 1);
static_assert(std::string_view{NAME_OF(SHARDWISE_NAMESPACE)}.ends_with("_assert"));

constexpr bool use_all() {
    List<int> list{1, 2, 3};
    list.pop_back();
    list.erase(list.begin());
    Optional<int> const some = 4;
    Result<int> const result = 5;
    Result<> const refused = Error{ErrorCode::unsupported};
    int values[] = {1, 2, 3, 4, 5, 6};
    TensorView<int, 2, void> const view(values, {2, 3});
    return list[0] == 2 && *some == 4 && *result == 5 && refused.error().code() == ErrorCode::unsupported &&
           *view.row(1) == 4 && view.rows(2, 0).empty() && *view.columns(2, 1).data() == 3 &&
           Span<int>{values}.last(2).front() == 5;
}
static_assert(use_all());

}  // namespace
