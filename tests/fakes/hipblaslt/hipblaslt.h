// SPDX-License-Identifier: Apache-2.0
// The names of hipBLASLt's interface that backend/detail/hipblaslt.hpp uses, for a machine without it, so that the header is compiled there
// (cmake/optional_headers.cmake). Declared only: nothing links it. The library's own header has compiled in its place as of ROCm 6.3.
#pragma once

#include <hip/hip_runtime_api.h>
#include <hip/library_types.h>
#include <stddef.h>
#include <stdint.h>

enum hipblasStatus_t { HIPBLAS_STATUS_SUCCESS, HIPBLAS_STATUS_NOT_SUPPORTED };
enum hipblasOperation_t { HIPBLAS_OP_N, HIPBLAS_OP_T };
enum hipblasComputeType_t { HIPBLAS_COMPUTE_32F };
enum hipblasLtEpilogue_t { HIPBLASLT_EPILOGUE_BIAS };
enum hipblasLtMatmulDescAttributes_t {
    HIPBLASLT_MATMUL_DESC_TRANSA,
    HIPBLASLT_MATMUL_DESC_TRANSB,
    HIPBLASLT_MATMUL_DESC_EPILOGUE,
    HIPBLASLT_MATMUL_DESC_BIAS_POINTER,
    HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
};
enum hipblasLtMatmulPreferenceAttributes_t { HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES };

#if HIP_VERSION_MAJOR < 6
// Of ROCm 6.
inline constexpr hipDataType HIP_R_16BF = static_cast<hipDataType>(14);
#endif

typedef void* hipblasLtHandle_t;
typedef struct FakeHipblasLtMatmulDesc* hipblasLtMatmulDesc_t;
typedef struct FakeHipblasLtMatrixLayout* hipblasLtMatrixLayout_t;
typedef struct FakeHipblasLtPreference* hipblasLtMatmulPreference_t;
struct hipblasLtMatmulAlgo_t {
    uint8_t data[16];
};
struct hipblasLtMatmulHeuristicResult_t {
    hipblasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    hipblasStatus_t state;
};

extern "C" {
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t*);
hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t const);
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t*, hipblasComputeType_t, hipDataType);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t, hipblasLtMatmulDescAttributes_t, void const*,
                                                size_t);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t const);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t*, hipDataType, uint64_t, uint64_t, int64_t);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t const);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t*);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t,
                                                      hipblasLtMatmulPreferenceAttributes_t, void const*, size_t);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t const);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t, hipblasLtMatmulDesc_t, hipblasLtMatrixLayout_t,
                                                hipblasLtMatrixLayout_t, hipblasLtMatrixLayout_t,
                                                hipblasLtMatrixLayout_t, hipblasLtMatmulPreference_t, int,
                                                hipblasLtMatmulHeuristicResult_t*, int*);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t, hipblasLtMatmulDesc_t, void const*, void const*,
                                hipblasLtMatrixLayout_t, void const*, hipblasLtMatrixLayout_t, void const*, void const*,
                                hipblasLtMatrixLayout_t, void*, hipblasLtMatrixLayout_t, hipblasLtMatmulAlgo_t const*,
                                void*, size_t, hipStream_t);
}
