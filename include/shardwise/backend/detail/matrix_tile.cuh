// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Numbers of a row of a matrix in shared memory.
constexpr int matrix_inputs = 32;
/// Where the eight numbers `eight` of a row lie: those of eight rows below each other, which are read at once, in different banks.
[[nodiscard]] SHARDWISE_DEVICE constexpr int matrix_place(int row, int eight) {
    return row * matrix_inputs + ((eight ^ (row / 2 % 4)) * 8);
}

/// The number `k` of a row; they lie in words of two.
[[nodiscard]] SHARDWISE_DEVICE inline float matrix_number(std::uint16_t const* rows, int row, int k) {
    auto const at = matrix_place(row, k / 8) + k % 8;
    auto const word = reinterpret_cast<std::uint32_t const*>(rows)[at / 2];
    return float_of_bits(at % 2 == 0 ? word << 16U : word & 0xFFFF0000U);
}

/// How a warp multiplies small matrices of bfloat16 that lie in shared memory: sums [16, columns] += left [16, 16] * right [columns, 16]^T,
/// in float. Where `is_there` is false a vendor has none, and its products of many rows are those of few.
template <class Api>
struct MatrixTile {
    static constexpr bool is_there = false;
};

#if defined(__CUDACC__) || defined(SHARDWISE_CUDA_JIT)
/// mma.sync of compute capability 8.0 and later.
///
/// Source  PTX ISA 8.0, 9.7.13.4.8 (mma.m16n8k16) and 9.7.13.4.15 (ldmatrix)
template <>
struct MatrixTile<CudaApi> {
    static constexpr bool is_there = true;
    static constexpr int columns = 8;
    /// Results up to which multiply_rows is faster. On an H200 tiles take 1.35 us for 32 inputs, however few they are, in which
    /// multiply_rows makes as many results.
    static constexpr std::int64_t few_results = 420'000;
    /// Of the sums, in each lane.
    static constexpr int values = 4;
    struct Left {
        std::uint32_t words[4];
    };
    struct Right {
        std::uint32_t words[2];
    };

    static __device__ int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
    static __device__ int column(int lane, int i) { return lane % 4 * 2 + i % 2; }

    /// The first or the second sixteen numbers of sixteen rows.
    static __device__ Left load_left(std::uint16_t const* rows, int half, int lane) {
        Left left;
        load_four(rows + matrix_place(lane % 16, 2 * half + lane / 16), left.words);
        return left;
    }
    /// Of eight rows the first and the second sixteen.
    static __device__ void load_right(std::uint16_t const* rows, int lane, Right (&right)[2]) {
        std::uint32_t words[4];
        load_four(rows + matrix_place(lane % 8, lane / 8), words);
        right[0] = {{words[0], words[1]}};
        right[1] = {{words[2], words[3]}};
    }
    static __device__ void multiply(Left const& left, Right const& right, int, float (&sums)[values]) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]), "r"(right.words[0]),
              "r"(right.words[1]));
    }

private:
    static __device__ void load_four(std::uint16_t const* at, std::uint32_t (&words)[4]) {
        auto const address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address)
                     : "memory");
    }
};
#endif

#if defined(__HIPCC__) || defined(SHARDWISE_HAS_HIP_CPU) || defined(SHARDWISE_HIP_JIT)
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define SHARDWISE_HIP_MFMA 1
#elif defined(__GFX11__)
#define SHARDWISE_HIP_WMMA 1
#endif

/// MFMA of CDNA 2 and 3 (gfx90a, gfx942), which flushes numbers below the normal ones on gfx90a; WMMA of RDNA 3 (gfx11); plain sums
/// on what has neither (has_amd_matrix_unit), where products are those of few rows: they multiply once for each number and activation,
/// plain sums once for each of the parts of both.
///
/// Source  AMD Instinct MI200 ISA, 7.1 (V_MFMA_F32_16X16X16BF16_1K), and CDNA 3 ISA, 7.1; RDNA 3 ISA, 7.9 (V_WMMA_F32_16X16X16_BF16)
template <>
struct MatrixTile<HipApi> {
    static constexpr bool is_there = true;
    static constexpr int columns = 16;
    /// As on NVIDIA's: no AMD device has measured it.
    static constexpr std::int64_t few_results = 420'000;
    static constexpr int values = 256 / DeviceCode<HipApi>::warp_size;
    static constexpr bool is_narrow = DeviceCode<HipApi>::warp_size == 32;

#if defined(SHARDWISE_HIP_MFMA)
    /// Four numbers of a lane's row: those of its sixteenth of the warp.
    using Numbers = short __attribute__((ext_vector_type(4)));
    struct Left {
        Numbers numbers;
    };
#elif defined(SHARDWISE_HIP_WMMA)
    /// The sixteen numbers of a lane's row, which both halves of the warp have.
    using Numbers = short __attribute__((ext_vector_type(16)));
    struct Left {
        Numbers numbers;
    };
#else
    /// Where the rows lie.
    struct Left {
        std::uint16_t const* rows;
        int half;
    };
#endif
    using Right = Left;

    static __device__ int row(int lane, int i) {
        return is_narrow ? 2 * i + lane / 16 : lane / 16 * 4 + i;
    }
    static __device__ int column(int lane, int) {
        return lane % 16;
    }

    /// The first or the second sixteen numbers of sixteen rows.
    static __device__ Left load_left(std::uint16_t const* rows, int half, [[maybe_unused]] int lane) {
#if defined(SHARDWISE_HIP_MFMA)
        auto const* const at = rows + matrix_place(lane % 16, 2 * half + lane / 32) + lane / 16 % 2 * 4;
        return *reinterpret_cast<Left const*>(at);
#elif defined(SHARDWISE_HIP_WMMA)
        using Eight = short __attribute__((ext_vector_type(8)));
        auto const first = *reinterpret_cast<Eight const*>(rows + matrix_place(lane % 16, 2 * half));
        auto const second = *reinterpret_cast<Eight const*>(rows + matrix_place(lane % 16, 2 * half + 1));
        return {__builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
#else
        return {rows, half};
#endif
    }
    /// Of sixteen rows the first and the second sixteen.
    static __device__ void load_right(std::uint16_t const* rows, int lane, Right (&right)[2]) {
        right[0] = load_left(rows, 0, lane);
        right[1] = load_left(rows, 1, lane);
    }
    static __device__ void multiply(Left const& left, Right const& right, [[maybe_unused]] int lane,
                                    float (&sums)[values]) {
#if defined(SHARDWISE_HIP_MFMA) || defined(SHARDWISE_HIP_WMMA)
        using Sums = float __attribute__((ext_vector_type(values)));
        Sums made;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < values; ++i) made[i] = sums[i];
#if defined(SHARDWISE_HIP_MFMA)
        made = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left.numbers, right.numbers, made, 0, 0, 0);
#else
        made = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(left.numbers, right.numbers, made);
#endif
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < values; ++i) sums[i] = made[i];
#else
        auto const number = [](Left const& of, int row, int k) {
            return matrix_number(of.rows, row, 16 * of.half + k);
        };
        for (int k = 0; k < 16; ++k) {
            auto const other = number(right, column(lane, 0), k);
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < values; ++i) sums[i] += number(left, row(lane, i), k) * other;
        }
#endif
    }
};
#undef SHARDWISE_HIP_MFMA
#undef SHARDWISE_HIP_WMMA
#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
