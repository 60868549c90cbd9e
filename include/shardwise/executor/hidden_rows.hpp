// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/kernels/copy_rows.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Receives a stage's input, of elements of that type, from the stage before it.
///
/// Order   on `stream`
template <ComputeBackend Backend, class Links>
void receive_hidden(Links const& links, Dtype activations, std::byte* to, std::int64_t elements,
                    typename Backend::Stream& stream) {
    visit_activations<Backend>(
        activations, [&]<class T>(T) { submit_receive<Backend>(links, reinterpret_cast<T*>(to), elements, stream); });
}

/// Sends what a stage has made to the stage after it; the last one copies it to `out`, as many rows as that has.
///
/// Order   on `stream`
/// Errors  as copy_rows
template <ComputeBackend Backend, class Links>
[[nodiscard]] Result<> hand_on(Links const& links, Dtype activations, TensorView<std::byte const, 2, Backend> hidden,
                               TensorView<std::byte, 2, Backend> out, typename Backend::Stream& stream) {
    Result<> copied;
    visit_activations<Backend>(activations, [&]<class T>(T) {
        auto const* const rows = reinterpret_cast<T const*>(hidden.data());
        if (links.to >= 0) return submit_send<Backend>(links, rows, hidden.elements(), stream);
        copied = copy_rows<T>(TensorView<T const, 2, Backend>{rows, {out.extent(0), out.extent(1)}}, view_as<T>(out),
                              stream);
    });
    return copied;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
