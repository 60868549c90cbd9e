// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/training_gradients.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The first parameter or tie whose checksums differ; -1: none.
[[nodiscard]] inline std::int64_t first_difference(std::vector<std::uint64_t> const& one,
                                                   std::vector<std::uint64_t> const& other) {
    for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i] != other[i]) return static_cast<std::int64_t>(i);
    }
    return -1;
}

/// Which rank's gradients were not the same twice, with parameter and bucket; or that the sums alone were not. `step` is counted from 1.
/// All ranks call it and get the same.
///
/// Errors  as a collective
template <Communicator C>
[[nodiscard]] Result<std::optional<Error>> find_difference(C& comm, TrainingLayout const& layout,
                                                           TrainingGradients const& gradients,
                                                           GradientChecksums const& one, GradientChecksums const& other,
                                                           std::int64_t step) {
    auto const find = [&](std::int64_t region) {
        auto const at = static_cast<std::size_t>(region);
        auto const number = region < 0 ? -1 : static_cast<std::int64_t>(layout.whole_number(at));
        return first_bad_gradient(comm, number, 0, region < 0 ? -1 : gradients.bucket_of(at));
    };
    auto const own = find(first_difference(one.own, other.own));
    if (!own) return own.error();
    if (*own) {
        auto const name = layout.whole_name(static_cast<std::size_t>((*own)->parameter));
        return std::optional<Error>(
            (*own)->error(name, step, "the gradient is another one where it is computed again"));
    }
    auto const sum = first_difference(one.sums, other.sums);
    std::int32_t differing = sum < 0 ? 0 : 1;
    if (auto const done = all_reduce(comm, TensorView<std::int32_t, 1, Host>{&differing, {1}}); !done)
        return done.error();
    if (differing == 0) return std::optional<Error>{};
    auto const sums = find(sum);
    if (!sums) return sums.error();
    auto const name = layout.whole_name(static_cast<std::size_t>((*sums)->parameter));
    auto error = (*sums)->error(name, step, "the sum of all ranks' gradients is another one where it is made again");
    // What one of them spoiled, each rank may have.
    if (differing > 1) error.in("step " + std::to_string(step));
    return std::optional<Error>(error);
}

/// Makes the sums of a step's gradients by `sum()`: there is no difference to be seen.
///
/// Errors  those of `sum`
template <class Sum>
[[nodiscard]] Result<std::optional<Error>> sum_once(Sum const& sum) {
    if (auto const done = sum(); !done) return done.error();
    return std::optional<Error>{};
}

/// Makes the sums of a step's gradients by `sum()` twice, from the same data, and compares: what a processor or its memory gets wrong once
/// is seen, also where it is a number. What differs is returned; the sums are those of the second time. `sum` sets the deadline.
///
/// Order   waits for the stream
/// Errors  those of `sum`, and as a collective
template <Communicator C, class Sum>
[[nodiscard]] Result<std::optional<Error>> sum_twice(C& comm, TrainingLayout const& layout,
                                                     TrainingGradients& gradients, std::int64_t step,
                                                     HostStream& stream, Deadline const& deadline, Sum const& sum) {
    std::array<std::shared_ptr<GradientChecksums>, 2> taken;
    for (auto& checksums : taken) {
        checksums = std::make_shared<GradientChecksums>(gradients.regions());
        gradients.clear();
        gradients.take_checksums(checksums);
        auto const done = sum();
        gradients.take_checksums({});
        if (!done) return done.error();
        if (auto const ended = stream.synchronize(deadline); !ended) return ended.error();
        gradients.add_sums_to(*checksums);
    }
    return find_difference(comm, layout, gradients, *taken[0], *taken[1], step);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
