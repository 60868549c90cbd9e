// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstdint>
#include <cublasLt.h>
#include <memory>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] inline Result<> cublas_result(cublasStatus_t status, std::string_view call) {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return Error{ErrorCode::backend_failure}
        .in(call)
        .because(cublasLtGetStatusString(status))
        .got(static_cast<std::int64_t>(status));
}

/// Products by cuBLASLt: its handle. It chooses the algorithm of each shape itself and is given no workspace, which would
/// have to be one per stream.
class CublasLtProducts {
public:
    [[nodiscard]] static Result<std::unique_ptr<CublasLtProducts>> open() {
        cublasLtHandle_t handle = nullptr;
        auto const made = cublas_result(cublasLtCreate(&handle), "cublasLtCreate");
        if (!made) return made.error();
        return std::unique_ptr<CublasLtProducts>(new CublasLtProducts(handle));
    }
    CublasLtProducts(CublasLtProducts const&) = delete;
    CublasLtProducts& operator=(CublasLtProducts const&) = delete;
    ~CublasLtProducts() { (void)cublasLtDestroy(handle_); }

    template <class T>
    [[nodiscard]] Result<> multiply(GemmCall const& call, cudaStream_t stream) {
        constexpr auto type = type_of(row_element<T>);
        static_assert(std::is_same_v<T, float> || std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>);
        // cuBLASLt counts columns first, so that row-major out = a * b is its out^T = b^T * a^T.
        Operation operation;
        Layout first;
        Layout second;
        Layout sum;
        auto made = operation.make();
        if (made) made = operation.transpose(CUBLASLT_MATMUL_DESC_TRANSA, call.b.is_transposed);
        if (made) made = operation.transpose(CUBLASLT_MATMUL_DESC_TRANSB, call.a.is_transposed);
        if (made) made = first.make(type, call.b, call.k, call.n);
        if (made) made = second.make(type, call.a, call.m, call.k);
        if (made) made = sum.make(type_of(call.out_element), {call.out, call.out_row, 1, false}, call.m, call.n);
        if (!made) return made;
        float const one = 1.0F;
        float const old = call.accumulates ? 1.0F : 0.0F;
        return cublas_result(
            cublasLtMatmul(handle_, operation.value, &one, call.b.data, first.value, call.a.data, second.value, &old,
                           call.out, sum.value, call.out, sum.value, nullptr, nullptr, 0, stream),
            "cublasLtMatmul");
    }

private:
    [[nodiscard]] static constexpr cudaDataType_t type_of(RowElement element) {
        switch (element) {
            case RowElement::f32:
                return CUDA_R_32F;
            case RowElement::bf16:
                return CUDA_R_16BF;
            case RowElement::f16:
                return CUDA_R_16F;
        }
        __builtin_unreachable();
    }

    explicit CublasLtProducts(cublasLtHandle_t handle) : handle_(handle) {}

    struct Operation {
        cublasLtMatmulDesc_t value = nullptr;

        Operation() = default;
        Operation(Operation const&) = delete;
        Operation& operator=(Operation const&) = delete;
        ~Operation() {
            if (value != nullptr) (void)cublasLtMatmulDescDestroy(value);
        }
        [[nodiscard]] Result<> make() {
            return cublas_result(cublasLtMatmulDescCreate(&value, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                 "cublasLtMatmulDescCreate");
        }
        [[nodiscard]] Result<> transpose(cublasLtMatmulDescAttributes_t which, bool is_transposed) {
            cublasOperation_t const how = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
            return cublas_result(cublasLtMatmulDescSetAttribute(value, which, &how, sizeof how),
                                 "cublasLtMatmulDescSetAttribute");
        }
    };
    struct Layout {
        cublasLtMatrixLayout_t value = nullptr;

        Layout() = default;
        Layout(Layout const&) = delete;
        Layout& operator=(Layout const&) = delete;
        ~Layout() {
            if (value != nullptr) (void)cublasLtMatrixLayoutDestroy(value);
        }
        /// `rows` x `columns` as op(factor) has them, row-major.
        [[nodiscard]] Result<> make(cudaDataType_t type, GemmCall::Factor const& factor, std::int64_t rows,
                                    std::int64_t columns) {
            bool const is_turned = factor.is_transposed;
            auto const stored_rows = static_cast<std::uint64_t>(is_turned ? columns : rows);
            auto const stored_columns = static_cast<std::uint64_t>(is_turned ? rows : columns);
            return cublas_result(cublasLtMatrixLayoutCreate(&value, type, stored_columns, stored_rows,
                                                            is_turned ? factor.column : factor.row),
                                 "cublasLtMatrixLayoutCreate");
        }
    };

    cublasLtHandle_t handle_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
