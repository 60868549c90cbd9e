// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/arg_max.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/attention_temperature.hpp>
#include <shardwise/kernels/backward/activation.hpp>
#include <shardwise/kernels/backward/add.hpp>
#include <shardwise/kernels/backward/attention.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>
#include <shardwise/kernels/backward/embedding.hpp>
#include <shardwise/kernels/backward/layer_norm.hpp>
#include <shardwise/kernels/backward/linear.hpp>
#include <shardwise/kernels/backward/rms_norm.hpp>
#include <shardwise/kernels/backward/rope.hpp>
#include <shardwise/kernels/backward/scale.hpp>
#include <shardwise/kernels/backward/soft_cap.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/dropout.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/quantize.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/rope_turns.hpp>
#include <shardwise/kernels/route.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/kernels/scale.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/soft_cap.hpp>
#include <shardwise/kernels/softmax.hpp>
#include <shardwise/kernels/square_sums.hpp>
#include <shardwise/kernels/store_rows.hpp>
#include <shardwise/kernels/take_rows.hpp>
#include <shardwise/kernels/weigh_rows.hpp>
#include <shardwise/parallel/attend_heads.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/row_linear.hpp>
#include <shardwise/parallel/sharded_norm.hpp>
#include <shardwise/parallel/vocab_head.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace shardwise;

namespace {

/// Views of the extents that calls ask for; each in turn without memory.
struct Views {
    int missing = -1;
    int next = 0;
    // 32 doubles for each view, and some after the last.
    std::vector<double> memory = std::vector<double>(1024);

    template <class T = float, std::size_t dimensions>
    TensorView<T, dimensions, Host> view(std::int64_t const (&extents)[dimensions]) {
        std::array<std::int64_t, dimensions> given{};
        for (std::size_t i = 0; i < dimensions; ++i) given[i] = extents[i];
        auto* const place = memory.data() + std::size_t{32} * static_cast<std::size_t>(next);
        return {next++ == missing ? nullptr : reinterpret_cast<T*>(place), given};
    }
};

/// Calls with all memory, which must do, and then without that of each view.
template <class Call>
void check(char const* name, Call const& call) {
    CAPTURE(name);
    Views whole;
    auto const done = call(whole);
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    for (int missing = 0; missing < whole.next; ++missing) {
        CAPTURE(missing);
        Views views{missing};
        auto const refused = call(views);
        REQUIRE(!refused);
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
        CHECK(refused.error().reason() == "has elements but no memory");
    }
}

}  // namespace

TEST_CASE("Kernels, products and copies refuse views that have elements but no memory") {
    HostContext context({.threads = 1});
    auto s = context.make_stream();
    using F = float const;
    using I = std::int32_t const;
    check("activation", [&](Views& v) {
        return activation<float>(v.view<F>({2, 4}), v.view({2, 4}), ActivationKind::silu, s);
    });
    check("gated_activation", [&](Views& v) {
        return gated_activation<float>(v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({2, 4}), ActivationKind::silu, s);
    });
    check("add", [&](Views& v) { return add<float>(v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({2, 4}), s); });
    check("add_row", [&](Views& v) { return add_row<float>(v.view<F>({4}), v.view({2, 4}), s); });
    check("arg_max", [&](Views& v) { return arg_max(v.view<F>({2, 4}), v.view<std::int32_t>({2}), s); });
    check("largest_logits", [&](Views& v) {
        return largest_logits(v.view<F>({2, 4}), 0, v.view<std::int64_t>({2}), s);
    });
    check("ids_of_keys",
          [&](Views& v) { return ids_of_keys(v.view<std::int64_t const>({2}), v.view<std::int32_t>({2}), s); });
    check("copy_rows", [&](Views& v) { return copy_rows<float>(v.view<F>({2, 4}), v.view({2, 4}), s); });
    check("fill", [&](Views& v) { return fill<float>(v.view({2, 4}), 1.0F, s); });
    check("scale", [&](Views& v) { return scale<float>(v.view<F>({2, 4}), v.view({2, 4}), 2.0F, s); });
    check("soft_cap", [&](Views& v) { return soft_cap(v.view<F>({2, 4}), v.view({2, 4}), 2.0F, s); });
    check("take_rows", [&](Views& v) {
        return take_rows<float>(v.view<I>({2}), v.view<F>({3, 4}), v.view({2, 4}), s);
    });
    check("attention_temperature", [&](Views& v) {
        return attention_temperature<float>(v.view({2, 4}), v.view<I>({2}), 4, 0.1F, s);
    });
    check("weigh_rows", [&](Views& v) {
        return weigh_rows<float>(v.view<F>({1, 4}), v.view<I>({2}), v.view<F>({1, 2}), v.view({2, 4}), s);
    });
    check("attention", [&](Views& v) {
        AttentionOptions const options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}};
        return attention<float, float>(v.view<F>({1, 4}), v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({1, 4}), options,
                                       s, v.view<float>({8}), v.view<F>({1}), v.view<F>({1}));
    });
    check("embedding", [&](Views& v) {
        return embedding<float>(v.view<I>({2}), v.view<F>({3, 4}), v.view({2, 4}), s);
    });
    check("layer_norm", [&](Views& v) {
        return layer_norm<float>(v.view<F>({2, 4}), v.view<F>({4}), v.view<F>({4}), v.view({2, 4}), 1.0F, s);
    });
    check("rms_norm", [&](Views& v) {
        return rms_norm<float>(v.view<F>({2, 4}), v.view<F>({4}), v.view({2, 4}), 1.0F, s);
    });
    check("residual_norm", [&](Views& v) {
        return residual_norm<float>(v.view<F>({2, 4}), v.view({2, 4}), v.view<F>({4}), v.view({2, 4}), 1.0F, s);
    });
    check("residual_norm of parts", [&](Views& v) {
        F* const parts[] = {v.view<F>({2, 4}).data(), v.view<F>({2, 4}).data()};
        return residual_norm<float>(std::span<F* const>(parts), v.view({2, 4}), v.view<F>({4}), v.view({2, 4}), 1.0F,
                                    s);
    });
    check("rope", [&](Views& v) {
        return rope<float>(v.view({2, 4}), v.view<I>({2}), v.view<F>({2}), 4, RopeLayout::half, s);
    });
    check("rope_turns", [&](Views& v) { return rope_turns(v.view<I>({2}), v.view<F>({2}), v.view({2, 4}), s); });
    check("rope by turns", [&](Views& v) {
        return rope<float>(v.view({2, 4}), v.view<F>({2, 4}), 4, RopeLayout::half, s);
    });
    check("route", [&](Views& v) {
        return route(v.view<F>({2, 4}), v.view<F>({4}), v.view<std::int32_t>({2, 1}), v.view({2, 1}),
                     RouterOptions{.experts_per_token = 1}, s);
    });
    check("sample", [&](Views& v) {
        std::vector<SamplingRow> const rows(1);
        return sample(v.view<F>({1, 4}), rows, v.view<std::int32_t>({1}), s);
    });
    check("scale_rows", [&](Views& v) {
        return scale_rows(v.view<F>({2, 1}), v.view<F>({2, 4}), v.view({2, 4}), ActivationKind::sigmoid, s);
    });
    check("softmax", [&](Views& v) { return softmax<float>(v.view<F>({2, 4}), v.view({2, 4}), s); });
    check("store_rows", [&](Views& v) {
        auto const memory = v.view({2, 4});
        return store_rows<float>(v.view<F>({1, 4}), memory, CachedRows<float, Host>(v.view<F>({2, 4})), 0, s);
    });
    check("sum_squares", [&](Views& v) {
        SquareSum const parts[] = {{{0, 4}, 0}};
        return sum_squares<float>(v.view<F>({2, 4}), parts, v.view<double>({2, 1}), s);
    });
    check("scale_by_squares", [&](Views& v) {
        return scale_by_squares<float>(v.view<F>({2, 4}), v.view<double const>({2, 1}), 4, v.view<F>({4}),
                                       v.view({2, 4}), 1.0F, s);
    });
    check("quantize", [&](Views& v) {
        std::vector<std::byte> data(32);
        std::vector<std::byte> scales(4);
        return quantize(v.view<F>({1, 32}), WeightFormat::int8, data, scales, s);
    });
    check("copy", [&](Views& v) { return Host::copy<float>(v.view<F>({4}), v.view({4}), s); });
    check("gemm", [&](Views& v) {
        return Host::gemm<float>(v.view<F>({2, 4}), v.view<F>({4, 3}), v.view({2, 3}), {}, s);
    });
    std::vector<float> const values(12, 1.0F);
    WeightSource source;
    source.format = WeightFormat::f32;
    source.outputs = 3;
    source.inputs = 4;
    source.data = std::as_bytes(std::span(values));
    auto const weight = Host::hold_weight(context, source);
    REQUIRE(weight);
    check("multiply", [&](Views& v) { return Host::multiply(v.view<F>({2, 4}), *weight, v.view({2, 3}), s); });
    check("dequantize", [&](Views& v) { return dequantize(source, v.view({3, 4}), s); });
    UnitRange const all[] = {{0, 3}};
    auto const column = ColumnLinear<Host>::create(context, source, all);
    REQUIRE(column);
    check("column_linear", [&](Views& v) { return column->forward(v.view<F>({2, 4}), v.view({2, 3}), s); });
    auto table = StepTable<Host>::create(context, {.groups = 1, .pages = 1});
    REQUIRE(table);
    std::int32_t const numbers[] = {0};
    std::span<std::int32_t const> const pages[] = {numbers};
    StepSequence const sequence{1, 1, pages};
    REQUIRE(table->write({numbers, {&sequence, 1}}, s));
    check("attend_heads", [&](Views& v) {
        AttentionOptions const options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}};
        StepRows<float, Host> const keys{v.view<F>({16, 4}), {}, 0};
        StepRows<float, Host> const seen{v.view<F>({16, 4}), {}, 0};
        return attend_heads<Host, float>(v.view<F>({1, 4}), keys, seen, v.view({1, 4}), *table, options,
                                         HeadShare{{0, 1}, {0, 1}, 1}, s, v.view({8}), v.view<F>({1}), v.view<F>({1}));
    });
}

TEST_CASE("Backward kernels refuse views that have elements but no memory") {
    HostContext context({.threads = 1});
    auto s = context.make_stream();
    using F = float const;
    using I = std::int32_t const;
    check("linear_input_gradient", [&](Views& v) {
        return linear_input_gradient(v.view<F>({2, 3}), v.view<F>({3, 4}), v.view({2, 4}), {}, s);
    });
    check("linear_weight_gradient", [&](Views& v) {
        return linear_weight_gradient(v.view<F>({2, 3}), v.view<F>({2, 4}), v.view({3, 4}), {}, s);
    });
    check("linear_bias_gradient", [&](Views& v) {
        return linear_bias_gradient(v.view<F>({2, 3}), v.view<float>({3}), false, s);
    });
    check("rms_norm_backward", [&](Views& v) {
        return rms_norm_backward(v.view<F>({2, 4}), v.view<F>({4}), v.view<F>({2, 4}), v.view({2, 4}), false,
                                 v.view<float>({4}), false, v.view<double>({4}), 1.0F, s);
    });
    check("layer_norm_backward", [&](Views& v) {
        return layer_norm_backward(v.view<F>({2, 4}), v.view<F>({4}), v.view<F>({2, 4}), v.view({2, 4}), false,
                                   v.view<float>({4}), v.view<float>({4}), false, v.view<double>({4}), 1.0F, s);
    });
    check("rope_backward", [&](Views& v) {
        return rope_backward<float>(v.view({2, 4}), v.view<I>({2}), v.view<F>({2}), 4, RopeLayout::half, s);
    });
    check("activation_backward", [&](Views& v) {
        return activation_backward(v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({2, 4}), false, ActivationKind::silu,
                                   s);
    });
    check("gated_activation_backward", [&](Views& v) {
        return gated_activation_backward(v.view<F>({2, 4}), v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({2, 4}),
                                         v.view({2, 4}), false, ActivationKind::silu, s);
    });
    check("soft_cap_backward", [&](Views& v) {
        return soft_cap_backward(v.view<F>({2, 4}), v.view<F>({2, 4}), v.view({2, 4}), false, 1.0F, s);
    });
    check("scale_backward", [&](Views& v) {
        return scale_backward(v.view<F>({2, 4}), v.view({2, 4}), false, 2.0F, s);
    });
    check("add_backward", [&](Views& v) { return add_backward(v.view<F>({2, 4}), v.view({2, 4}), true, s); });
    check("dropout", [&](Views& v) { return dropout(v.view<F>({2, 4}), v.view({2, 4}), {}, s); });
    check("embedding_backward", [&](Views& v) {
        return embedding_backward(v.view<I>({2}), v.view<F>({2, 4}), v.view({3, 4}), false, s);
    });
    check("attention_backward", [&](Views& v) {
        AttentionOptions const options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}};
        AttentionForward const in{v.view<F>({1, 4}), v.view<F>({2, 4}), v.view<F>({2, 4}), v.view<F>({1, 4}),
                                  v.view<F>({1, 1}), v.view<F>({1, 4}), v.view<F>({1})};
        AttentionGradients const to{v.view({1, 4}), v.view({2, 4}), v.view({2, 4})};
        return attention_backward(in, to, options, v.view<float>({8}), s);
    });
    check("head_cross_entropy", [&](Views& v) {
        HeadLoss const in{v.view<F>({2, 4}), v.view<F>({5, 4}), v.view<F>({5}), v.view<I>({2}), v.view<F>({2})};
        HeadLossGradients const to{v.view<float>({2}), v.view({2, 4}), v.view({5, 4}), v.view<float>({5})};
        return head_cross_entropy(in, to, {}, v.view<float>({10}), s);
    });
}

TEST_CASE("Collectives and layers over ranks refuse views that have elements but no memory") {
    auto const ran = run_threads(1, [](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto s = context.make_stream();
        using F = float const;
        std::int64_t const counts[] = {4};
        check("all_reduce", [&](Views& v) { return all_reduce(comm, v.view({4})); });
        check("all_gather", [&](Views& v) { return all_gather(comm, v.view<F>({4}), v.view({4}), counts); });
        check("reduce_scatter", [&](Views& v) { return reduce_scatter(comm, v.view<F>({4}), v.view({4}), counts); });
        check("all_to_all", [&](Views& v) { return all_to_all(comm, v.view<F>({4}), counts, v.view({4}), counts); });
        check("broadcast", [&](Views& v) { return broadcast(comm, v.view({4}), 0); });
        check("deterministic_sum", [&](Views& v) {
            UnitRange const owners[] = {{0, 1}};
            return deterministic_sum<float>(comm, owners, v.view<F>({4}), v.view({4}));
        });
        check("sharded_rms_norm", [&](Views& v) {
            NormShare const share{.width = 4, .sums = 1, .parts = {{{0, 4}, 0}}};
            return sharded_rms_norm(v.view<F>({2, 4}), share, v.view<F>({4}), v.view({2, 4}), 1.0F, v.view({4}), comm,
                                    s);
        });
        std::vector<float> const values(12, 1.0F);
        WeightSource source;
        source.format = WeightFormat::f32;
        source.outputs = 3;
        source.inputs = 4;
        source.data = std::as_bytes(std::span(values));
        auto const row = RowLinear<Host, Fast>::create(context, source, block_pieces(4), {});
        REQUIRE(row);
        check("row_linear", [&](Views& v) {
            return row->forward(v.view<F>({2, 4}), v.view({2, 3}), v.view({8}), comm, s);
        });
        return {};
    });
    CHECK(ran);
}
