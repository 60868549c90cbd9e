// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/product_aid.hpp>
#include <shardwise/backend/device_context.hpp>
#include <shardwise/backend/device_event.hpp>
#include <shardwise/backend/device_stream.hpp>
#include <shardwise/backend/gemm_extents.hpp>
#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/backend/weight_upload.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/product_sums.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

struct Host;
template <class Api>
class DeviceWeight;

/// The back end that `Cuda` and `Hip` are: one implementation over a struct of vendor functions (detail::DeviceApi).
/// Everything that runs on the device is in stream order; a failure stops the stream, and `synchronize` returns it.
template <class Api>
struct DeviceBackend {
    /// The vendor's functions.
    using VendorApi = Api;
    using Context = DeviceContext<Api>;
    using Stream = DeviceStream<Api>;
    using Event = DeviceEvent<Api>;
    using Weight = DeviceWeight<Api>;

    static constexpr std::string_view name = Api::name;
    /// What vendors' allocators give; vector loads and the products ask for at most that.
    static constexpr std::size_t alignment = 256;
    /// Allocations take whole ones, and are counted so: parts of one block are then as aligned as what the vendor gives.
    static constexpr std::int64_t allocation_grain = 256;
    /// Threads that run in step, on the vendor's devices where they are most.
    static constexpr std::int32_t warp_size = Api::warp_size;
    /// True where all blocks of a kernel that fits run at once, so that one may wait for another.
    static constexpr bool co_resident_blocks = Api::co_resident_blocks;
    /// Rows that products by weights take without the vendor's: with more arithmetic binds, not the reading of the weight.
    static constexpr std::int64_t max_own_rows = 16;
    /// What the vendor's products of a stream use of memory that is lent to it (DeviceStream::lend_to_products): with less they take
    /// algorithms that need less. None of our own.
    [[nodiscard]] static constexpr Bytes product_workspace() { return Bytes{Api::Products::workspace_bytes}; }
    /// Products that one call of multiply_sums adds up.
    static constexpr std::int64_t max_sum_products = detail::max_sum_products;

    /// Memory of the device, counted; null for no bytes. It is a part of the block that the context has reserved where that has place.
    ///
    /// Errors  out_of_memory; backend_failure
    [[nodiscard]] static Result<void*> allocate(Context& context, Bytes bytes) {
        if (bytes.count() == 0) return static_cast<void*>(nullptr);
        auto const held = counted(bytes);
        if (auto* const part = context.take(held)) {
            context.memory().add(held);
            return part;
        }
        detail::DeviceScope<Api> const scope(context.device());
        if (!scope.result()) return scope.result().error();
        auto memory = Api::allocate(static_cast<std::size_t>(held.count()));
        if (!memory) {
            if (memory.error().code() != ErrorCode::out_of_memory) return memory.error();
            Error error{ErrorCode::out_of_memory};
            error.in(Api::name).needs(bytes).fix("use a smaller batch or context, or more devices");
            if (auto const free = Api::free_memory()) error.has(*free);
            return error;
        }
        context.memory().add(held);
        return memory;
    }
    static void release(Context& context, void* memory, Bytes bytes) {
        bytes = counted(bytes);
        context.memory().remove(bytes);
        // Weights may be given up while they are loaded.
        if (context.upload() != nullptr) (void)context.upload()->finish();
        if (context.give_back(memory, bytes)) return;
        detail::DeviceScope<Api> const scope(context.device());
        Api::release(memory);
    }

    /// Copies values of one size from one view to another; they do not overlap.
    ///
    /// Order   on `stream`: both stay alive until it is done
    /// Errors  shape_mismatch
    template <class T>
    [[nodiscard]] static Result<> copy(TensorView<T const, 1, DeviceBackend> from, TensorView<T, 1, DeviceBackend> to,
                                       Stream& stream) {
        if (auto const known = check_views("copy", from, to); !known) return known;
        return copy_elements<T>(from.data(), from.elements(), to.data(), to.elements(), stream);
    }
    /// The same from the host's memory.
    template <class T>
    [[nodiscard]] static Result<> copy(TensorView<T const, 1, Host> from, TensorView<T, 1, DeviceBackend> to,
                                       Stream& stream) {
        if (auto const known = check_views("copy", from, to); !known) return known;
        return copy_elements<T>(from.data(), from.elements(), to.data(), to.elements(), stream);
    }
    /// The same into the host's memory, which may be read once the stream has been waited for.
    template <class T>
    [[nodiscard]] static Result<> copy(TensorView<T const, 1, DeviceBackend> from, TensorView<T, 1, Host> to,
                                       Stream& stream) {
        if (auto const known = check_views("copy", from, to); !known) return known;
        return copy_elements<T>(from.data(), from.elements(), to.data(), to.elements(), stream);
    }

    /// out = op(a) * op(b), sums in float, by the vendor's product where there is one. The result is float, or rounded to the
    /// factors' type.
    ///
    /// Shapes  a [m, k], b [k, n], out [m, n]; a [k, m] or b [n, k] where transposed
    /// Memory  `out` overlaps neither factor; both stay alive until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch; unsupported for factors that are to be rounded
    template <class T, class Out>
    [[nodiscard]] static Result<> gemm(TensorView<T const, 2, DeviceBackend> a, TensorView<T const, 2, DeviceBackend> b,
                                       TensorView<Out, 2, DeviceBackend> out, GemmOptions options, Stream& stream) {
        auto const done = multiply_matrices<T>(a, b, nullptr, out, options, stream);
        return done ? Result<>{} : Result<>(done.error());
    }

    /// Brings a weight into the order in which `multiply` reads it; `source` is not needed afterwards.
    /// Defined in backend/device_weight.hpp.
    ///
    /// Errors  unsupported for a format that has no kernel; shape_mismatch where data or scales do not have the size that the
    ///         format asks for; out_of_memory; deadline_exceeded where the upload takes longer than the context's limit
    [[nodiscard]] static Result<Weight> hold_weight(Context& context, WeightSource const& source);

    /// A weight without values, which `quantize` gives it. Defined in backend/device_weight.hpp.
    ///
    /// Errors  unsupported for a format that has no kernel, and for int4 by groups that are neither a power of two times 32 nor a whole
    ///         row; shape_mismatch; out_of_memory
    [[nodiscard]] static Result<Weight> allocate_weight(Context& context, WeightFormat format, std::int64_t outputs,
                                                        std::int64_t inputs, std::int64_t group = 0);

    /// out = in * weight^T for one row or many, sums in float. Rows are float, bfloat16 or halves; of the two the results are as the rows or
    /// float. Defined in backend/device_product.hpp.
    ///
    /// Shapes  in [rows, inputs], out [rows, outputs]
    /// Memory  `out` does not overlap `in`; both and the weight stay alive until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch
    template <class T, class Out>
    [[nodiscard]] static Result<> multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           TensorView<Out, 2, DeviceBackend> out, Stream& stream);
    template <class T, class Out>
    [[nodiscard]] static Result<> multiply(TensorView<T, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
        return multiply(TensorView<T const, 2, DeviceBackend>(in), weight, out, stream);
    }

    /// The same with a bias, a number for each output, where the vendor's product adds it: returns whether it did. If not, all else is
    /// done, and the bias is left to the caller. Defined in backend/device_product.hpp.
    ///
    /// Errors  shape_mismatch
    template <class T, class Out>
    [[nodiscard]] static Result<bool> multiply_with_bias(TensorView<T const, 2, DeviceBackend> in,
                                                         DeviceWeight<Api> const& weight,
                                                         TensorView<float const, 1, DeviceBackend> bias,
                                                         TensorView<Out, 2, DeviceBackend> out, Stream& stream);

    /// out = in * weight[:, inputs]^T by a kernel whose sums do not depend on where in the weight the inputs lie or on the rows
    /// and outputs beside, as those of the product above may. Defined in backend/device_product.hpp.
    ///
    /// Shapes  in [rows, inputs.size()], out [rows, outputs]; inputs begin and end where the format's blocks do
    /// Memory  as above
    /// Order   on `stream`
    /// Errors  shape_mismatch
    template <class T, class Out>
    [[nodiscard]] static Result<> multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, Stream& stream);
    template <class T, class Out>
    [[nodiscard]] static Result<> multiply(TensorView<T, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                           UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
        return multiply(TensorView<T const, 2, DeviceBackend>(in), weight, inputs, out, stream);
    }

    /// The sums of products by ranges of the weight's inputs, in the order of their steps, in one launch. A product's order is that of
    /// its inputs, so that a result depends on its row, its output and its ranges alone: not on where the weight holds these, or on
    /// what is computed beside it. The bits are those of no `multiply`. Defined in backend/device_sums.hpp.
    ///
    /// Shapes  in [rows, sums.inputs.size()], out [sums.sums, rows, outputs]; ranges follow each other and are whole blocks
    /// Memory  as above
    /// Order   on `stream`
    /// Errors  shape_mismatch; capacity_exceeded for more than max_sum_products products or additions
    template <class T>
    [[nodiscard]] static Result<> multiply_sums(TensorView<T const, 2, DeviceBackend> in,
                                                DeviceWeight<Api> const& weight, ProductSums const& sums,
                                                TensorView<float, 3, DeviceBackend> out, Stream& stream);
    template <class T>
    [[nodiscard]] static Result<> multiply_sums(TensorView<T, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                                ProductSums const& sums, TensorView<float, 3, DeviceBackend> out,
                                                Stream& stream) {
        return multiply_sums(TensorView<T const, 2, DeviceBackend>(in), weight, sums, out, stream);
    }

    /// Runs body(begin, end) over pieces of [0, count) of at most `grain`, a device thread each. The call operator of Body is
    /// marked SHARDWISE_DEVICE. Defined in backend/device.cuh: a device compiler instantiates it.
    ///
    /// Order  on `stream`
    template <class Body>
    static void launch(std::int64_t count, Body body, Stream& stream, std::int64_t grain = 1);

private:
    [[nodiscard]] static Bytes counted(Bytes bytes) {
        bool const is_more = bytes.count() > std::numeric_limits<std::int64_t>::max() - allocation_grain;
        return is_more ? bytes : Bytes{round_up(bytes.count(), allocation_grain)};
    }
    /// As `gemm`, with a number for each column of `out`, or null: true where the product has added them.
    template <class T, class Out>
    static Result<bool> multiply_matrices(TensorView<T const, 2, DeviceBackend> a,
                                          TensorView<T const, 2, DeviceBackend> b, float const* bias,
                                          TensorView<Out, 2, DeviceBackend> out, GemmOptions options, Stream& stream) {
        static_assert(std::same_as<Out, float> || std::same_as<Out, T>, "products are floats, or as their factors");
        if (auto const known = check_views("gemm", a, b, out); !known) return known.error();
        auto const factor = [](TensorView<T const, 2, DeviceBackend> const& view, bool is_transposed) {
            auto const row = row_distance(view);
            return is_transposed ? detail::GemmCall::Factor{view.data(), 1, row, true}
                                 : detail::GemmCall::Factor{view.data(), row, 1, false};
        };
        if (auto const known = refuse_rounding("gemm", options); !known) return known.error();
        auto const extents = gemm_extents("gemm", a, b, out, options);
        if (!extents) return extents.error();
        auto const [m, n, k] = *extents;
        if (out.empty()) return false;
        detail::GemmCall const call{factor(a, options.is_a_transposed),
                                    factor(b, options.is_b_transposed),
                                    out.data(),
                                    row_distance(out),
                                    m,
                                    n,
                                    k,
                                    options.accumulates,
                                    detail::row_element<Out>};
        if (k == 0) {
            if (!options.accumulates) clear(out, stream);
            return false;
        }
        auto const products = stream.context().products();
        if (!products) return stream.fail(products.error()), false;
        bool has_bias = false;
        stream.submit([&](typename Api::Stream native) -> Result<> {
            detail::ProductAid const aid{bias, stream.lent_to_products()};
            auto const done = (*products)->template multiply<T>(call, aid, native);
            if (!done) return done.error();
            has_bias = *done;
            return {};
        });
        return has_bias;
    }
    /// By the vendor's product, or our own kernel. True where `bias`, which may be null, was added.
    template <class T, class Out>
    static Result<bool> multiply_either(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                        float const* bias, TensorView<Out, 2, DeviceBackend> out, Stream& stream);
    /// The product by a range of inputs; where `is_fixed`, in an order that does not depend on the number of rows.
    template <class T, class Out>
    static Result<> submit_product(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                   UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, bool is_fixed,
                                   Stream& stream);
    template <class T>
    static void clear(TensorView<T, 2, DeviceBackend> out, Stream& stream) {
        auto const width = static_cast<std::size_t>(out.extent(1)) * sizeof(T);
        for (std::int64_t row = 0; row < out.extent(0); ++row) {
            stream.submit([&](typename Api::Stream native) { return Api::clear(out.row(row), width, native); });
        }
    }
    template <class T>
    static Result<> copy_elements(T const* from, std::int64_t from_count, T* to, std::int64_t to_count,
                                  Stream& stream) {
        if (from_count != to_count) {
            return Error{ErrorCode::shape_mismatch}
                .in("copy")
                .because("the two sides differ in size")
                .got(from_count)
                .expected(to_count);
        }
        if (from_count == 0) return {};
        stream.submit([=](typename Api::Stream native) {
            return Api::copy(to, from, static_cast<std::size_t>(from_count) * sizeof(T), native);
        });
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
