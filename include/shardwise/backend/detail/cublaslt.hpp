// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/detail/lt_products.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] inline Result<> cublas_result(cublasStatus_t status, std::string_view call) {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return Error{ErrorCode::backend_failure}
        .in(call)
        .because(cublasLtGetStatusString(status))
        .got(static_cast<std::int64_t>(status));
}

/// cuBLASLt as LtProducts calls it.
struct CublasLt {
    using Api = CudaApi;
    using Handle = cublasLtHandle_t;
    using Operation = cublasLtMatmulDesc_t;
    using Layout = cublasLtMatrixLayout_t;
    using Preference = cublasLtMatmulPreference_t;
    using Algorithm = cublasLtMatmulAlgo_t;

    /// What NVIDIA's documents recommend for Hopper.
    static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20U;

    /// A bias is of the result's type (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE).
    static constexpr bool may_add_bias(RowElement out) { return out == RowElement::f32; }

    static Result<Handle> create() {
        Handle handle = nullptr;
        auto const made = cublas_result(cublasLtCreate(&handle), "cublasLtCreate");
        if (!made) return made.error();
        return handle;
    }
    static void destroy(Handle handle) { (void)cublasLtDestroy(handle); }

    static Result<Operation> make_operation() {
        Operation operation = nullptr;
        auto const made = cublas_result(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                        "cublasLtMatmulDescCreate");
        if (!made) return made.error();
        return operation;
    }
    static Result<> transpose(Operation operation, bool is_first, bool is_second) {
        auto const done = set(operation, CUBLASLT_MATMUL_DESC_TRANSA, is_first ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (!done) return done;
        return set(operation, CUBLASLT_MATMUL_DESC_TRANSB, is_second ? CUBLAS_OP_T : CUBLAS_OP_N);
    }
    static Result<> add_bias(Operation operation, float const* bias) {
        auto done = set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        if (done) done = set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void const*>(bias));
        return done;
    }
    static void destroy_operation(Operation operation) { (void)cublasLtMatmulDescDestroy(operation); }

    static Result<Layout> make_layout(RowElement element, std::int64_t rows, std::int64_t columns,
                                      std::int64_t column) {
        Layout layout = nullptr;
        auto const made =
            cublas_result(cublasLtMatrixLayoutCreate(&layout, type_of(element), static_cast<std::uint64_t>(rows),
                                                     static_cast<std::uint64_t>(columns), column),
                          "cublasLtMatrixLayoutCreate");
        if (!made) return made.error();
        return layout;
    }
    static void destroy_layout(Layout layout) { (void)cublasLtMatrixLayoutDestroy(layout); }

    static Result<Preference> make_preference(std::int64_t workspace, LtAlignment const& alignment) {
        Preference preference = nullptr;
        auto done = cublas_result(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
        if (!done) return done.error();
        auto const limit = static_cast<std::uint64_t>(workspace);
        done = prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limit);
        auto const align = [&](cublasLtMatmulPreferenceAttributes_t which, std::int64_t bytes) {
            if (done) done = prefer(preference, which, static_cast<std::uint32_t>(bytes));
        };
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment.first);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment.second);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment.sum);
        align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment.sum);
        if (done) return preference;
        destroy_preference(preference);
        return done.error();
    }
    static void destroy_preference(Preference preference) { (void)cublasLtMatmulPreferenceDestroy(preference); }

    static Result<std::optional<Algorithm>> find(Handle handle, Operation operation, Layout first, Layout second,
                                                 Layout sum, Preference preference) {
        cublasLtMatmulHeuristicResult_t found{};
        int count = 0;
        auto const status =
            cublasLtMatmulAlgoGetHeuristic(handle, operation, first, second, sum, sum, preference, 1, &found, &count);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::optional<Algorithm>{};
        auto const done = cublas_result(status, "cublasLtMatmulAlgoGetHeuristic");
        if (!done) return done.error();
        bool const is_there = count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
        return is_there ? std::optional<Algorithm>(found.algo) : std::nullopt;
    }
    static Result<> matmul(Handle handle, LtMatmul<CublasLt> const& call, cudaStream_t stream) {
        float const one = 1.0F;
        float const old = call.accumulates ? 1.0F : 0.0F;
        return cublas_result(
            cublasLtMatmul(handle, call.operation, &one, call.first, call.first_layout, call.second, call.second_layout,
                           &old, call.sum, call.sum_layout, call.sum, call.sum_layout, &call.algorithm, call.workspace,
                           static_cast<std::size_t>(call.workspace_bytes), stream),
            "cublasLtMatmul");
    }

private:
    static constexpr cudaDataType_t type_of(RowElement element) {
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
    template <class Value>
    static Result<> set(Operation operation, cublasLtMatmulDescAttributes_t which, Value value) {
        return cublas_result(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value),
                             "cublasLtMatmulDescSetAttribute");
    }
    template <class Value>
    static Result<> prefer(Preference preference, cublasLtMatmulPreferenceAttributes_t which, Value value) {
        return cublas_result(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value),
                             "cublasLtMatmulPreferenceSetAttribute");
    }
};

static_assert(LtLibrary<CublasLt>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
