// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/detail/lt_products.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The texts of statuses are in another library.
[[nodiscard]] inline Result<> hipblas_result(hipblasStatus_t status, std::string_view call) {
    if (status == HIPBLAS_STATUS_SUCCESS) return {};
    return Error{ErrorCode::backend_failure}
        .in(call)
        .because("failed with a hipblasStatus_t")
        .got(static_cast<std::int64_t>(status));
}

/// hipBLASLt as LtProducts calls it.
struct HipblasLt {
    using Api = HipApi;
    using Handle = hipblasLtHandle_t;
    using Operation = hipblasLtMatmulDesc_t;
    using Layout = hipblasLtMatrixLayout_t;
    using Preference = hipblasLtMatmulPreference_t;
    using Algorithm = hipblasLtMatmulAlgo_t;

    /// As much as cuBLASLt has; hipBLASLt's documents name no size.
    static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20U;

    /// A bias is of the result's type or, as here, of the scale's (hipblaslt.h, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE).
    static constexpr bool may_add_bias(RowElement) { return true; }

    static Result<Handle> create() {
        Handle handle = nullptr;
        auto const made = hipblas_result(hipblasLtCreate(&handle), "hipblasLtCreate");
        if (!made) return made.error();
        return handle;
    }
    static void destroy(Handle handle) { (void)hipblasLtDestroy(handle); }

    static Result<Operation> make_operation() {
        Operation operation = nullptr;
        auto const made = hipblas_result(hipblasLtMatmulDescCreate(&operation, HIPBLAS_COMPUTE_32F, HIP_R_32F),
                                         "hipblasLtMatmulDescCreate");
        if (!made) return made.error();
        return operation;
    }
    static Result<> transpose(Operation operation, bool is_first, bool is_second) {
        auto const done = set(operation, HIPBLASLT_MATMUL_DESC_TRANSA, is_first ? HIPBLAS_OP_T : HIPBLAS_OP_N);
        if (!done) return done;
        return set(operation, HIPBLASLT_MATMUL_DESC_TRANSB, is_second ? HIPBLAS_OP_T : HIPBLAS_OP_N);
    }
    static Result<> add_bias(Operation operation, float const* bias) {
        auto done = set(operation, HIPBLASLT_MATMUL_DESC_EPILOGUE, HIPBLASLT_EPILOGUE_BIAS);
        if (done) done = set(operation, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, HIP_R_32F);
        if (done) done = set(operation, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void const*>(bias));
        return done;
    }
    static void destroy_operation(Operation operation) { (void)hipblasLtMatmulDescDestroy(operation); }

    static Result<Layout> make_layout(RowElement element, std::int64_t rows, std::int64_t columns,
                                      std::int64_t column) {
        Layout layout = nullptr;
        auto const made =
            hipblas_result(hipblasLtMatrixLayoutCreate(&layout, type_of(element), static_cast<std::uint64_t>(rows),
                                                       static_cast<std::uint64_t>(columns), column),
                           "hipblasLtMatrixLayoutCreate");
        if (!made) return made.error();
        return layout;
    }
    static void destroy_layout(Layout layout) { (void)hipblasLtMatrixLayoutDestroy(layout); }

    /// hipBLASLt is not told how matrices are aligned.
    static Result<Preference> make_preference(std::int64_t workspace, LtAlignment const&) {
        Preference preference = nullptr;
        auto done = hipblas_result(hipblasLtMatmulPreferenceCreate(&preference), "hipblasLtMatmulPreferenceCreate");
        if (!done) return done.error();
        auto const limit = static_cast<std::uint64_t>(workspace);
        done = hipblas_result(hipblasLtMatmulPreferenceSetAttribute(
                                  preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit),
                              "hipblasLtMatmulPreferenceSetAttribute");
        if (done) return preference;
        destroy_preference(preference);
        return done.error();
    }
    static void destroy_preference(Preference preference) { (void)hipblasLtMatmulPreferenceDestroy(preference); }

    static Result<std::optional<Algorithm>> find(Handle handle, Operation operation, Layout first, Layout second,
                                                 Layout sum, Preference preference) {
        hipblasLtMatmulHeuristicResult_t found{};
        int count = 0;
        auto const status =
            hipblasLtMatmulAlgoGetHeuristic(handle, operation, first, second, sum, sum, preference, 1, &found, &count);
        if (status == HIPBLAS_STATUS_NOT_SUPPORTED) return std::optional<Algorithm>{};
        auto const done = hipblas_result(status, "hipblasLtMatmulAlgoGetHeuristic");
        if (!done) return done.error();
        bool const is_there = count > 0 && found.state == HIPBLAS_STATUS_SUCCESS;
        return is_there ? std::optional<Algorithm>(found.algo) : std::nullopt;
    }
    static Result<> matmul(Handle handle, LtMatmul<HipblasLt> const& call, hipStream_t stream) {
        float const one = 1.0F;
        float const old = call.accumulates ? 1.0F : 0.0F;
        return hipblas_result(
            hipblasLtMatmul(handle, call.operation, &one, call.first, call.first_layout, call.second,
                            call.second_layout, &old, call.sum, call.sum_layout, call.sum, call.sum_layout,
                            &call.algorithm, call.workspace, static_cast<std::size_t>(call.workspace_bytes), stream),
            "hipblasLtMatmul");
    }

private:
    static constexpr hipDataType type_of(RowElement element) {
        switch (element) {
            case RowElement::f32:
                return HIP_R_32F;
            case RowElement::bf16:
                return HIP_R_16BF;
            case RowElement::f16:
                return HIP_R_16F;
        }
        __builtin_unreachable();
    }
    template <class Value>
    static Result<> set(Operation operation, hipblasLtMatmulDescAttributes_t which, Value value) {
        return hipblas_result(hipblasLtMatmulDescSetAttribute(operation, which, &value, sizeof value),
                              "hipblasLtMatmulDescSetAttribute");
    }
};

static_assert(LtLibrary<HipblasLt>);

/// The products of HIP where the build has the library (SHARDWISE_HIPBLASLT).
class HipProducts : public LtProducts<HipblasLt> {};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
