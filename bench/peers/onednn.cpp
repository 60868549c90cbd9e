// SPDX-License-Identifier: Apache-2.0
#include "matmul_peers.hpp"

#if defined(BENCH_HAS_ONEDNN)
#include <cstring>
#include <memory>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#endif

namespace bench {

#if defined(BENCH_HAS_ONEDNN)

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

/// A matrix of somebody's floats in the type and order that a primitive asks for.
memory reordered(dnnl::engine const& engine, memory::desc const& from, float const* values, memory::desc const& to) {
    memory source(from, engine, const_cast<float*>(values));
    memory target(to, engine);
    dnnl::stream stream(engine);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
    return target;
}

template <class Primitive, class Description>
std::function<void()> way(PeerProduct const& product, dnnl::engine const& engine, Description const& description,
                          memory::desc const& plain_in, memory::desc const& plain_weight) {
    auto const in = reordered(engine, plain_in, product.in, description.src_desc());
    auto const weight = reordered(engine, plain_weight, product.weight, description.weights_desc());
    memory const out(description.dst_desc(), engine, product.out);
    Primitive const primitive(description);
    return [primitive, in, weight, out, stream = dnnl::stream(engine), threads = product.threads]() mutable {
        omp_set_num_threads(threads);
        primitive.execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, out}});
        stream.wait();
    };
}

}  // namespace

PeerWays onednn_ways(PeerProduct const& product) {
    omp_set_num_threads(product.threads);
    dnnl::engine const engine(dnnl::engine::kind::cpu, 0);
    auto const type = product.elements == PeerElements::f32    ? Type::f32
                      : product.elements == PeerElements::bf16 ? Type::bf16
                                                               : Type::s8;
    memory::dims const in_extents{product.rows, product.inputs};
    memory::dims const out_extents{product.rows, product.outputs};
    memory::desc const plain_in(in_extents, Type::f32, Tag::ab);
    memory::desc const in(in_extents, type, Tag::ab);
    memory::desc const out(out_extents, Type::f32, Tag::ab);
    PeerWays ways;
    try {
        memory::dims const extents{product.inputs, product.outputs};
        dnnl::matmul::primitive_desc const description({in, {extents, type, Tag::any}, out}, engine);
        ways.push_back(way<dnnl::matmul>(product, engine, description, plain_in, {extents, Type::f32, Tag::ba}));
    } catch (dnnl::error const&) {
    }
    try {
        memory::dims const extents{product.outputs, product.inputs};
        dnnl::inner_product_forward::primitive_desc const description(
            {dnnl::prop_kind::forward_inference, in, {extents, type, Tag::any}, out}, engine);
        ways.push_back(
            way<dnnl::inner_product_forward>(product, engine, description, plain_in, {extents, Type::f32, Tag::ab}));
    } catch (dnnl::error const&) {
    }
    return ways;
}

std::string_view onednn_configuration() {
    return "oneDNN 2, OpenMP, matmul and inner product, weights packed";
}

#else

PeerWays onednn_ways(PeerProduct const&) {
    return {};
}
std::string_view onednn_configuration() {
    return "oneDNN is not here";
}

#endif

}  // namespace bench
