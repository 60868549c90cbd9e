// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Numbers of a row of a matrix in shared memory.
constexpr int matrix_inputs = 32;
/// Where the eight numbers `eight` of a row lie: those of eight rows below each other, which are read at once, in different banks.
[[nodiscard]] SHARDWISE_DEVICE constexpr int matrix_place(int row, int eight) {
    return row * matrix_inputs + ((eight ^ (row / 2 % 4)) * 8);
}

/// How a warp multiplies small matrices of bfloat16 that lie in shared memory: sums [16, 8] += left [16, 16] * right [8, 16]^T, in float.
/// Where `is_there` is false a vendor has none, and its products of many rows are those of few.
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
