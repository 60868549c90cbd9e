// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/event.hpp>
#include <shardwise/backend/host/stream.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/backend/host/weight_chunks.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/op/product_sums.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a host context is made of.
struct HostOptions {
    /// Threads that share the work of one kernel, the caller's included; 0: as many as the cores that the caller may use.
    int threads = 0;
    /// Keeps the threads of the pool on cores of their own, and those of queued streams, which are their callers, on the
    /// `first_core`-th: CorePin does that for the thread that uses the context.
    bool is_pinned = false;
    StreamMode streams = StreamMode::immediate;
    /// The instruction set of the products, one that the machine has; unset: what choose_isa() says.
    std::optional<IsaLevel> isa = std::nullopt;
    /// What products make of activations.
    ProductActivations product_activations = ProductActivations::full;
    /// Where pinned: the caller's core, counted among those that it may use; the context's threads take the next ones.
    int first_core = 0;
};

class HostWeight;

/// Everything that the host back end keeps between calls: its threads and the count of its memory. The caller owns it; two
/// contexts do not meet.
class HostContext {
public:
    explicit HostContext(HostOptions const& options = {})
        : options_(options),
          isa_(options.isa ? check_isa(*options.isa) : choose_isa()),
          pool_(options.threads > 0 ? options.threads : detail::default_threads(), options.is_pinned,
                options.first_core) {}

    [[nodiscard]] ThreadPool& pool() { return pool_; }
    [[nodiscard]] MemoryCounter& memory() { return memory_; }
    /// Where hold_weight puts weights of moderate size.
    [[nodiscard]] detail::WeightChunks& weight_chunks() { return weight_chunks_; }
    /// Products by held weights so far, whatever their rows: what a step costs in reads of weights.
    [[nodiscard]] std::int64_t products() const { return products_.load(std::memory_order_relaxed); }
    void count_product() { products_.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] ProductActivations product_activations() const { return options_.product_activations; }
    /// The instruction set of its products, or why the one that was asked for cannot be had.
    [[nodiscard]] Result<IsaLevel> const& isa() const { return isa_; }
    [[nodiscard]] HostStream make_stream() {
        return HostStream(options_.streams, &pool_, isa_, options_.is_pinned ? options_.first_core : -1,
                          options_.product_activations);
    }

private:
    HostOptions options_;
    Result<IsaLevel> isa_;
    MemoryCounter memory_;
    detail::WeightChunks weight_chunks_;
    std::atomic<std::int64_t> products_{0};
    ThreadPool pool_;
};

/// The back end that runs in the including program's own threads and memory. It is complete, and the oracle for the others.
struct Host {
    using Context = HostContext;
    using Stream = HostStream;
    using Event = HostEvent;
    using Weight = HostWeight;

    static constexpr std::string_view name = "host";
    static constexpr bool is_host_memory = true;
    /// A cache line, and the width of an AVX-512 register.
    static constexpr std::size_t alignment = 64;
    /// What a process can address on x86-64 and arm64: allocators need not be asked for more.
    static constexpr std::int64_t address_space = std::int64_t{1} << 47U;

    /// Aligned memory, counted; null for no bytes.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] static Result<void*> allocate(Context& context, Bytes bytes) {
        if (bytes.count() == 0) return static_cast<void*>(nullptr);
        auto* const memory = bytes.count() > address_space ? nullptr
                                                           : ::operator new (static_cast<std::size_t>(bytes.count()),
                                                                             std::align_val_t{alignment}, std::nothrow);
        if (memory == nullptr) {
            return Error{ErrorCode::out_of_memory}.in("host memory").needs(bytes).fix("use a smaller batch or context");
        }
        context.memory().add(bytes);
        return memory;
    }
    static void release(Context& context, void* memory, Bytes bytes) {
        ::operator delete (memory, std::align_val_t{alignment});
        context.memory().remove(bytes);
    }

    /// Copies values of one size from one view to another; they do not overlap.
    ///
    /// Order   on `stream`: both stay alive until it is done
    /// Errors  shape_mismatch
    template <class T>
    [[nodiscard]] static Result<> copy(TensorView<T const, 1, Host> from, TensorView<T, 1, Host> to, Stream& stream) {
        if (auto const known = check_views("copy", from, to); !known) return known;
        if (from.elements() != to.elements()) {
            return Error{ErrorCode::shape_mismatch}
                .in("copy")
                .because("the two sides differ in size")
                .got(from.elements())
                .expected(to.elements());
        }
        stream.submit([from, to] {
            if (!from.empty())
                std::memcpy(to.data(), from.data(), static_cast<std::size_t>(from.elements()) * sizeof(T));
            return Result<>{};
        });
        return {};
    }

    /// out = op(a) * op(b), sums in float, each in an order that depends on the inner extent, on the instruction set and on whether
    /// floats are rounded to bf16 only. Rounded ones are multiplied by the level's unit for them, where it has one: it takes what is
    /// below 2^-126 for zero. Defined in backend/host/gemm.hpp.
    ///
    /// Shapes  a [m, k], b [k, n], out [m, n]; a [k, m] or b [n, k] where transposed
    /// Memory  `out` overlaps neither factor; both stay alive until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch; what the stream says of its instruction set
    template <class T>
    [[nodiscard]] static Result<> gemm(TensorView<T const, 2, Host> a, TensorView<T const, 2, Host> b,
                                       TensorView<float, 2, Host> out, GemmOptions options, Stream& stream);

    /// Brings a weight into the order in which `multiply` reads it; `source` is not needed afterwards.
    /// Defined in backend/host/weight.hpp.
    ///
    /// Errors  shape_mismatch where data or scales do not have the size that the format asks for; out_of_memory
    [[nodiscard]] static Result<HostWeight> hold_weight(Context& context, WeightSource const& source);

    /// out = in * weight^T for one row or many: each element is summed in an order that depends on the weight's format and
    /// inputs and on the instruction set only, not on the rows, the outputs or the threads. Defined in backend/host/multiply.hpp.
    /// The stream says whether weights of whole numbers take activations of eight bits (ProductActivations::int8), by blocks of 32
    /// inputs from the first one of the product on; the bits are then those of every instruction set. Or weights of bf16 activations
    /// of bf16.
    ///
    /// Contexts may share a weight: each multiplies on the threads of its stream.
    ///
    /// Shapes  in [rows, inputs], out [rows, outputs]
    /// Memory  `out` does not overlap `in`; both and the weight stay alive until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch; what the stream says of its instruction set
    [[nodiscard]] static Result<> multiply(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                           TensorView<float, 2, Host> out, Stream& stream);

    /// out = in * weight[:, inputs]^T: the bits of a product by a weight that holds these inputs alone, where they begin on a
    /// block of 32 inputs (bf16, f16 and fp32: anywhere).
    ///
    /// Shapes  in [rows, inputs.size()], out [rows, outputs]; inputs begin and end where the format's blocks do
    /// Order   on `stream`
    /// Errors  as multiply
    [[nodiscard]] static Result<> multiply(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                           UnitRange inputs, TensorView<float, 2, Host> out, Stream& stream);

    /// The sums of products by ranges of the weight's inputs, in the order of their steps: the bits of `multiply` by each range
    /// and of additions. The weight is read once, in its order; nothing but results is written to memory.
    ///
    /// Shapes  in [rows, sums.inputs.size()], out [sums.sums, rows, outputs]; ranges begin and end where the format's blocks do
    /// Memory  as multiply; `sums` stays alive until it is done, too
    /// Order   on `stream`
    /// Errors  as multiply; shape_mismatch where a step leaves the slots, of which 1024 may be scratch, or the inputs
    [[nodiscard]] static Result<> multiply_sums(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                                ProductSums const& sums, TensorView<float, 3, Host> out,
                                                Stream& stream);

    /// Runs body(begin, end) over pieces of [0, count), on the threads of the stream's context.
    ///
    /// Order  on `stream`
    template <class Body>
    static void launch(std::int64_t count, Body body, Stream& stream, std::int64_t grain = 1) {
        stream.submit_ranges(count, grain, body);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
