// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What made the loss or the norm of a step no number: a gradient with its rank and parameter, and the bucket in which ranks exchange it;
/// or the sums of all. `step` is counted from 1. All ranks call it and get the same.
///
/// Errors  as a collective
template <Communicator C>
[[nodiscard]] Result<Optional<Error>> find_bad_step(C& comm, TrainingLayout const& layout, TrainingGradients& gradients,
                                                    std::int64_t step, bool has_norm) {
    auto const own = gradients.find_bad();
    auto const element = own ? layout.whole_element(own->region, own->element) : 0;
    auto const number = own ? static_cast<std::int64_t>(layout.whole_number(own->region)) : -1;
    auto const found = first_bad_gradient(comm, number, element, own ? gradients.bucket_of(own->region) : -1);
    if (!found) return found.error();
    if (!*found) return Optional<Error>(no_number(step, has_norm));
    auto const name = layout.whole_name(static_cast<std::size_t>((*found)->parameter));
    return Optional<Error>((*found)->error(name, step));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
