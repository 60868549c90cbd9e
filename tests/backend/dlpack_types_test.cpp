// SPDX-License-Identifier: Apache-2.0
// The matrix of the suites of DLPack's consumers: every kind of type by every width and lane count (numpy 2.3,
// numpy/_core/tests/test_dlpack.py), shapes from no element on by strides (torch 2.9, test/test_dlpack.py).
#include <shardwise/backend/dlpack_view.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <dlpack/dlpack.h>
#include <vector>

namespace {

using namespace shardwise;

alignas(64) std::array<std::byte, 4096> memory{};

DLTensor tensor_of(DLDataType type, std::vector<std::int64_t>& shape, std::vector<std::int64_t>* strides = nullptr) {
    DLTensor tensor{};
    tensor.data = memory.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape.size());
    tensor.dtype = type;
    tensor.shape = shape.data();
    tensor.strides = strides == nullptr ? nullptr : strides->data();
    return tensor;
}

/// Counts the types of DLPack that are taken for T.
template <class T>
int taken(unsigned code, unsigned bits) {
    int count = 0;
    for (unsigned of = 0; of <= 17; ++of) {
        for (unsigned const width : {1U, 2U, 4U, 6U, 8U, 16U, 32U, 64U, 128U}) {
            for (unsigned const lanes : {0U, 1U, 2U, 4U}) {
                std::vector<std::int64_t> shape{2, 3};
                auto const tensor = tensor_of({static_cast<std::uint8_t>(of), static_cast<std::uint8_t>(width),
                                               static_cast<std::uint16_t>(lanes)},
                                              shape);
                auto const view = from_dlpack<T, 2>(tensor);
                bool const is_it = of == code && width == bits && lanes == 1;
                CAPTURE(of);
                CAPTURE(width);
                CAPTURE(lanes);
                CHECK(view.has_value() == is_it);
                if (!view) CHECK(view.error().code() == ErrorCode::invalid_argument);
                count += view ? 1 : 0;
            }
        }
    }
    return count;
}

}  // namespace

TEST_CASE("from_dlpack: of every kind, width and number of lanes only an element type's own is taken") {
    CHECK(taken<std::int8_t>(kDLInt, 8) == 1);
    CHECK(taken<std::int16_t>(kDLInt, 16) == 1);
    CHECK(taken<std::int32_t>(kDLInt, 32) == 1);
    CHECK(taken<std::int64_t>(kDLInt, 64) == 1);
    CHECK(taken<std::uint8_t>(kDLUInt, 8) == 1);
    CHECK(taken<std::uint16_t>(kDLUInt, 16) == 1);
    CHECK(taken<std::uint32_t>(kDLUInt, 32) == 1);
    CHECK(taken<std::uint64_t>(kDLUInt, 64) == 1);
    CHECK(taken<Float16>(kDLFloat, 16) == 1);
    CHECK(taken<float>(kDLFloat, 32) == 1);
    CHECK(taken<double>(kDLFloat, 64) == 1);
    CHECK(taken<Bfloat16>(kDLBfloat, 16) == 1);
    CHECK(taken<bool>(6, 8) == 1);
}

TEST_CASE("from_dlpack: shapes of any extent, with no element too, and rows apart are taken; other layouts are not") {
    DLDataType const type{kDLFloat, 32, 1};
    for (std::int64_t const rows : {0, 1, 2, 5}) {
        for (std::int64_t const columns : {0, 1, 3, 8}) {
            std::vector<std::int64_t> shape{rows, columns};
            std::vector<std::int64_t> dense{columns, 1}, apart{columns + 4, 1}, transposed{1, rows};
            CAPTURE(rows);
            CAPTURE(columns);
            for (auto* const strides : {static_cast<std::vector<std::int64_t>*>(nullptr), &dense, &apart}) {
                auto const view = from_dlpack<float, 2>(tensor_of(type, shape, strides));
                REQUIRE(view);
                CHECK(view->extents() == std::array<std::int64_t, 2>{rows, columns});
            }
            // The last dimension is not contiguous, where it has more than one element.
            if (columns > 1 && rows > 1)
                CHECK(from_dlpack<float, 2>(tensor_of(type, shape, &transposed)).error().code() == ErrorCode::shape_mismatch);
            CHECK(from_dlpack<float, 1>(tensor_of(type, shape)).error().code() == ErrorCode::shape_mismatch);
        }
    }
}
