// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>

#include "parallel_cases.hpp"

#include <cstdint>
#include <string_view>
#include <type_traits>

/// A back end of its own that counts the arithmetic of the host's: layers see nothing but the concept.
namespace shardwise::testing {

struct Counting {
    using Context = HostContext;
    using Stream = HostStream;
    using Event = HostEvent;
    using Weight = HostWeight;

    static constexpr std::string_view name = "counting";
    static constexpr std::size_t alignment = Host::alignment;

    /// Of the calling thread's streams, which compute at once.
    struct Flops {
        double products = 0.0;
        double additions = 0.0;
    };
    static Flops& flops() {
        thread_local Flops counted;
        return counted;
    }

    template <class T, std::size_t rank>
    static TensorView<T, rank, Host> host(TensorView<T, rank, Counting> view) {
        if constexpr (rank == 2) {
            return {view.data(), view.extents(), view.stride(0)};
        } else {
            return {view.data(), view.extents()};
        }
    }

    static Result<void*> allocate(Context& context, Bytes bytes) { return Host::allocate(context, bytes); }
    static void release(Context& context, void* memory, Bytes bytes) { Host::release(context, memory, bytes); }
    template <class T>
    static Result<> copy(TensorView<T const, 1, Counting> from, TensorView<T, 1, Counting> to, Stream& stream) {
        return Host::copy<T>(host(from), host(to), stream);
    }
    template <class T>
    static Result<> gemm(TensorView<T const, 2, Counting> a, TensorView<T const, 2, Counting> b,
                         TensorView<float, 2, Counting> out, GemmOptions options, Stream& stream) {
        return Host::gemm<T>(host(a), host(b), host(out), options, stream);
    }
    static Result<Weight> hold_weight(Context& context, WeightSource const& source) {
        return Host::hold_weight(context, source);
    }
    static Result<> multiply(TensorView<float const, 2, Counting> in, Weight const& weight,
                             TensorView<float, 2, Counting> out, Stream& stream) {
        return multiply(in, weight, {0, weight.inputs()}, out, stream);
    }
    static Result<> multiply(TensorView<float const, 2, Counting> in, Weight const& weight, UnitRange inputs,
                             TensorView<float, 2, Counting> out, Stream& stream) {
        flops().products += 2.0 * static_cast<double>(in.extent(0) * inputs.size() * weight.outputs());
        return Host::multiply(host(in), weight, inputs, host(out), stream);
    }
    template <class Body>
    static void launch(std::int64_t count, Body body, Stream& stream) {
        Host::launch(count, body, stream);
    }
};

static_assert(ComputeBackend<Counting>);

template <class T>
TensorView<T, 2, Counting> counted(TensorView<T, 2, Host> view) {
    return {view.data(), view.extents(), view.stride(0)};
}
template <class T>
TensorView<T, 1, Counting> counted(TensorView<T, 1, Host> view) {
    return {view.data(), view.extents()};
}

// What a back end gives beside the concept: kernels and ordered collectives for its views.

template <class T>
Result<> add(TensorView<T const, 2, Counting> a, TensorView<T const, 2, Counting> b, TensorView<T, 2, Counting> out,
             HostStream& stream) {
    Counting::flops().additions += static_cast<double>(out.elements());
    return shardwise::add<T>(Counting::host(a), Counting::host(b), Counting::host(out), stream);
}
template <class T>
Result<> add_row(TensorView<T const, 1, Counting> row, TensorView<T, 2, Counting> to, HostStream& stream) {
    return shardwise::add_row<T>(Counting::host(row), Counting::host(to), stream);
}
template <class T>
Result<> fill(TensorView<T, 2, Counting> out, float value, HostStream& stream) {
    return shardwise::fill<T>(Counting::host(out), value, stream);
}
template <class T>
Result<> activation(TensorView<T const, 2, Counting> in, TensorView<T, 2, Counting> out, ActivationKind kind,
                    HostStream& stream) {
    return shardwise::activation(Counting::host(in), Counting::host(out), kind, stream);
}
template <class T>
Result<> gated_activation(TensorView<T const, 2, Counting> gate, TensorView<T const, 2, Counting> up,
                          TensorView<T, 2, Counting> out, ActivationKind kind, HostStream& stream) {
    return shardwise::gated_activation(Counting::host(gate), Counting::host(up), Counting::host(out), kind, stream);
}
template <class T, Communicator C>
void submit_all_reduce(C& comm, TensorView<T, 1, Counting> data, ReduceOp op, HostStream& stream) {
    shardwise::submit_all_reduce(comm, Counting::host(data), op, stream);
}
template <class T, Communicator C, class Count>
void submit_all_gather(C& comm, TensorView<T const, 1, Counting> in, TensorView<T, 1, Counting> out, Count count,
                       HostStream& stream) {
    shardwise::submit_all_gather(comm, Counting::host(in), Counting::host(out), count, stream);
}

template <class T, Communicator C, class Sent, class Received>
void submit_all_to_all(C& comm, TensorView<T const, 1, Counting> in, Sent sent, TensorView<T, 1, Counting> out,
                       Received received, HostStream& stream) {
    shardwise::submit_all_to_all(comm, Counting::host(in), sent, Counting::host(out), received, stream);
}

}  // namespace shardwise::testing
