// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/dlpack_view.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <dlpack/dlpack.h>
#include <memory>

namespace {

using namespace shardwise;

/// What a consumer of DLPack does at the end.
struct Delete {
    void operator()(DLManagedTensor* managed) const { managed->deleter(managed); }
};
using Shared = std::unique_ptr<DLManagedTensor, Delete>;

TEST_CASE("A tensor goes out to DLPack and comes back as the same memory") {
    std::array<float, 12> memory{};
    TensorView<float, 2, Host> const view(memory.data(), {3, 2}, 4);
    Shared const shared(to_dlpack(view));
    auto const& tensor = shared->dl_tensor;
    CHECK(tensor.data == memory.data());
    CHECK(tensor.ndim == 2);
    CHECK(tensor.shape[0] == 3);
    CHECK(tensor.strides[0] == 4);
    CHECK(tensor.dtype.code == kDLFloat);
    CHECK(tensor.dtype.bits == 32);
    CHECK(tensor.device.device_type == kDLCPU);

    auto const back = from_dlpack<float const, 2>(tensor);
    REQUIRE(back);
    CHECK(back->data() == memory.data());
    CHECK(back->extents() == view.extents());
    CHECK(back->strides() == view.strides());
}

TEST_CASE("The consumer's deleter frees the buffer that was moved in") {
    HostContext context;
    auto buffer = Buffer<Bfloat16, Host>::allocate(context, 10);
    REQUIRE(buffer);
    auto const view = buffer->view();
    {
        Shared const shared(to_dlpack(view, std::move(*buffer)));
        CHECK(shared->dl_tensor.dtype.code == kDLBfloat);
        CHECK(context.memory().current() == Bytes{20});
    }
    CHECK(context.memory().current() == Bytes{0});
}

TEST_CASE("A buffer's view and the buffer itself go out in one call") {
    HostContext context;
    auto buffer = Buffer<float, Host>::allocate(context, 6);
    REQUIRE(buffer);
    auto const* const memory = buffer->data();
    {
        Shared const shared(to_dlpack(buffer->matrix(2, 3), std::move(*buffer)));
        CHECK(shared->dl_tensor.data == memory);
        CHECK(shared->dl_tensor.shape[1] == 3);
        CHECK(context.memory().current() == Bytes{24});
    }
    CHECK(context.memory().current() == Bytes{0});

    // An owner that others hold too is copied.
    auto const several = std::make_shared<std::array<int, 4>>();
    {
        Shared const shared(to_dlpack(TensorView<int, 1, Host>(several->data(), {4}), several));
        CHECK(several.use_count() == 2);
    }
    CHECK(several.use_count() == 1);
}

TEST_CASE("Tensors of the devices' back ends go in and out with the number of their device") {
    using Cuda = DeviceBackend<detail::CudaApi>;
    using Hip = DeviceBackend<detail::HipApi>;
    std::array<float, 4> memory{};
    Shared const shared(to_dlpack(TensorView<float, 1, Cuda>(memory.data(), {4}), nullptr, 1));
    CHECK(shared->dl_tensor.device.device_type == kDLCUDA);
    CHECK(shared->dl_tensor.device.device_id == 1);
    auto const back = from_dlpack<float, 1, Cuda>(shared->dl_tensor, 1);
    REQUIRE(back);
    CHECK(back->data() == memory.data());
    auto const elsewhere = from_dlpack<float, 1, Cuda>(shared->dl_tensor);
    REQUIRE_FALSE(elsewhere);
    CHECK(elsewhere.error().message().find("another device of its kind (got 1, expected 0)") != std::string::npos);
    CHECK_FALSE(from_dlpack<float, 1, Hip>(shared->dl_tensor, 1));
    CHECK_FALSE(from_dlpack<float, 1>(shared->dl_tensor, 1));
    Shared const other(to_dlpack(TensorView<float, 1, Hip>(memory.data(), {4})));
    CHECK(other->dl_tensor.device.device_type == kDLROCM);
}

TEST_CASE("Truth values have DLPack's own kind") {
    // kDLBool in DLPack's header from 0.8 on, and what torch and numpy export.
    CHECK(dlpack_type<bool>().code == 6);
    CHECK(dlpack_type<bool>().bits == 8);
    CHECK(dlpack_type<std::uint8_t>().code == kDLUInt);
}

TEST_CASE("A foreign tensor is read with its offset, and dense where it names no strides") {
    std::array<std::int64_t, 6> memory{0, 1, 2, 3, 4, 5};
    std::array<std::int64_t, 2> shape{2, 2};
    DLTensor tensor{};
    tensor.data = memory.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 2;
    tensor.dtype = dlpack_type<std::int64_t>();
    tensor.shape = shape.data();
    tensor.byte_offset = 16;
    auto const view = from_dlpack<std::int64_t, 2>(tensor);
    REQUIRE(view);
    CHECK(view->row(1)[1] == 5);

    SUBCASE("another element type") {
        auto const other = from_dlpack<double, 2>(tensor);
        REQUIRE_FALSE(other);
        CHECK(other.error().code() == ErrorCode::invalid_argument);
        CHECK_FALSE(from_dlpack<std::int32_t, 2>(tensor));
    }
    SUBCASE("another device") {
        tensor.device.device_type = kDLCUDA;
        auto const other = from_dlpack<std::int64_t, 2>(tensor);
        REQUIRE_FALSE(other);
        CHECK(other.error().message().find("another kind of memory") != std::string::npos);
    }
    SUBCASE("another shape") {
        CHECK_FALSE(from_dlpack<std::int64_t, 1>(tensor));
        shape[0] = -1;
        CHECK_FALSE(from_dlpack<std::int64_t, 2>(tensor));
    }
    SUBCASE("elements nowhere") {
        tensor.data = nullptr;
        tensor.byte_offset = 0;
        auto const other = from_dlpack<std::int64_t, 2>(tensor);
        REQUIRE_FALSE(other);
        CHECK(other.error().code() == ErrorCode::invalid_argument);
        shape[0] = 0;
        CHECK(from_dlpack<std::int64_t, 2>(tensor));
        // Nothing lies after nowhere, either.
        tensor.byte_offset = 16;
        auto const empty = from_dlpack<std::int64_t, 2>(tensor);
        REQUIRE(empty);
        CHECK(empty->data() == nullptr);
    }
    SUBCASE("more bytes than 63 bits count") {
        constexpr auto most = std::int64_t{1} << 31;
        std::array<std::int64_t, 2> strides{2, 1};
        auto const is_refused = [&] {
            auto const other = from_dlpack<std::int64_t, 2>(tensor);
            return !other && other.error().code() == ErrorCode::size_overflow;
        };
        // 2^60 - 2^29 elements of 8 bytes are countable, 2^60 are not.
        shape = {most, most / 4 - 1};
        CHECK(from_dlpack<std::int64_t, 2>(tensor));
        shape = {most, most / 4 * 2};
        CHECK(is_refused());
        shape = {most * most, most * most};
        CHECK(is_refused());
        // Rows that lie too far apart, in both directions.
        tensor.strides = strides.data();
        shape = {3, 1};
        for (auto const stride : {most * most, -most * most, INT64_MAX, INT64_MIN}) {
            strides[0] = stride;
            CHECK(is_refused());
        }
        strides[0] = -(std::int64_t{1} << 58);
        CHECK(from_dlpack<std::int64_t, 2>(tensor));
        // Without elements distances mean nothing.
        strides[0] = INT64_MIN;
        shape = {0, 3};
        CHECK(from_dlpack<std::int64_t, 2>(tensor));
        // But extents do.
        shape = {most * most, 0};
        CHECK(is_refused());
    }
    SUBCASE("elements between multiples of their alignment") {
        tensor.byte_offset = 4;
        auto const other = from_dlpack<std::int64_t, 2>(tensor);
        REQUIRE_FALSE(other);
        CHECK(other.error().message().find("alignment (got 4, expected 0)") != std::string::npos);
    }
    SUBCASE("vectors of elements") {
        tensor.dtype.lanes = 2;
        CHECK_FALSE(from_dlpack<std::int64_t, 2>(tensor));
    }
    SUBCASE("columns that do not lie side by side") {
        std::array<std::int64_t, 2> strides{1, 2};
        tensor.strides = strides.data();
        auto const other = from_dlpack<std::int64_t, 2>(tensor);
        REQUIRE_FALSE(other);
        CHECK(other.error().code() == ErrorCode::shape_mismatch);
    }
}

}  // namespace
