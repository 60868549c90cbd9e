// SPDX-License-Identifier: Apache-2.0
#include "matmul_peers.hpp"

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#define BENCH_HAS_EIGEN 1
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#define BENCH_HAS_EIGEN 1
#endif

namespace bench {

#if defined(BENCH_HAS_EIGEN)

PeerWays eigen_ways(PeerProduct const& product) {
    if (product.elements != PeerElements::f32) return {};
    using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using Columns = Eigen::MatrixXf;
    Eigen::setNbThreads(product.threads);
    auto const row_major = [product] {
        Eigen::Map<Rows const> const in(product.in, product.rows, product.inputs);
        Eigen::Map<Rows const> const weight(product.weight, product.outputs, product.inputs);
        Eigen::Map<Rows>(product.out, product.rows, product.outputs).noalias() = in * weight.transpose();
    };
    auto const column_major = [product] {
        Eigen::Map<Columns const> const in(product.in, product.inputs, product.rows);
        Eigen::Map<Columns const> const weight(product.weight, product.inputs, product.outputs);
        Eigen::Map<Columns>(product.out, product.outputs, product.rows).noalias() = weight.transpose() * in;
    };
    return {row_major, column_major};
}

std::string_view eigen_configuration() {
#if defined(_OPENMP)
    return "Eigen 3.4, -O3 -march=native -fopenmp";
#else
    return "Eigen 3.4, -O3 -march=native, one thread (no OpenMP)";
#endif
}

#else

PeerWays eigen_ways(PeerProduct const&) {
    return {};
}
std::string_view eigen_configuration() {
    return "Eigen is not here";
}

#endif

}  // namespace bench
