// SPDX-License-Identifier: Apache-2.0
// LtProducts over the fake vendor's library: what is asked of the heuristic, what is kept, what memory is used, and what fails.
#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device_graph.hpp>
#include <shardwise/core/deadline.hpp>

#include <doctest/doctest.h>

#include "fake_clean.hpp"
#include "fake_vendor.hpp"

#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::Clean;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeLt;
using shardwise::testing::FakeMachine;

namespace {

/// How often the machine has been called since.
class Calls {
public:
    explicit Calls(std::string name) : name_(std::move(name)) {}
    [[nodiscard]] int made() const { return FakeMachine::get().calls(name_) - before_; }

private:
    std::string name_;
    int before_ = FakeMachine::get().calls(name_);
};

/// Small integers, whose products and sums are exact in every type.
template <class T>
std::vector<T> integers(std::int64_t count, int first) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(T(static_cast<float>((i * 5 + first) % 7 - 3)));
    return values;
}

/// [rows, inputs] times a weight [outputs, inputs], with a bias for each output.
template <class T, class Out = T>
class Product {
public:
    Product(Fake::Context& context, std::int64_t rows, std::int64_t outputs, std::int64_t inputs, int first_bias = 2)
        : rows_(rows),
          outputs_(outputs),
          inputs_(inputs),
          values_(integers<T>(rows * inputs, 1)),
          rows_of_weight_(integers<T>(outputs * inputs, 4)),
          stream_(context.make_stream()),
          in_(send(context, values_)),
          first_bias_(first_bias),
          bias_(send(context, integers<float>(outputs, first_bias))),
          out_(send(context, std::vector<Out>(static_cast<std::size_t>(rows * outputs), Out(77.0F)))) {
        WeightSource const source{
            detail::format_of_rows<T>, outputs, inputs, std::as_bytes(std::span(rows_of_weight_)), {}};
        auto held = Fake::hold_weight(context, source);
        REQUIRE(held);
        weight_.push_back(std::move(*held));
    }

    [[nodiscard]] Result<> multiply() { return Fake::multiply(in(), weight_.front(), out(), stream_); }
    [[nodiscard]] Result<bool> multiply_with_bias() {
        return Fake::multiply_with_bias(in(), weight_.front(), TensorView<float const, 1, Fake>(bias_.view()), out(),
                                        stream_);
    }
    /// Whether the result is the product, with the bias or without.
    void check(bool has_bias) {
        std::vector<Out> made(static_cast<std::size_t>(out_.size()));
        REQUIRE(
            Fake::copy<Out>(std::as_const(out_).view(), TensorView<Out, 1, Host>(made.data(), {out_.size()}), stream_));
        REQUIRE(stream_.synchronize(Deadline::after(10s)));
        auto const bias = integers<float>(outputs_, first_bias_);
        for (std::int64_t row = 0; row < rows_; ++row) {
            for (std::int64_t output = 0; output < outputs_; ++output) {
                float sum = has_bias ? bias[static_cast<std::size_t>(output)] : 0.0F;
                for (std::int64_t k = 0; k < inputs_; ++k)
                    sum += static_cast<float>(values_[static_cast<std::size_t>(row * inputs_ + k)]) *
                           static_cast<float>(rows_of_weight_[static_cast<std::size_t>(output * inputs_ + k)]);
                CAPTURE(row);
                CAPTURE(output);
                REQUIRE(static_cast<float>(made[static_cast<std::size_t>(row * outputs_ + output)]) == sum);
            }
        }
    }
    [[nodiscard]] Fake::Stream& stream() { return stream_; }

private:
    template <class V>
    [[nodiscard]] Buffer<V, Fake> send(Fake::Context& context, std::vector<V> const& values) {
        auto buffer = Buffer<V, Fake>::allocate(context, static_cast<std::int64_t>(values.size()));
        REQUIRE(buffer);
        REQUIRE(Fake::copy<V>(TensorView<V const, 1, Host>(values.data(), {buffer->size()}), buffer->view(), stream_));
        REQUIRE(stream_.synchronize(Deadline::after(10s)));
        return std::move(*buffer);
    }
    [[nodiscard]] TensorView<T const, 2, Fake> in() const { return {in_.data(), {rows_, inputs_}}; }
    [[nodiscard]] TensorView<Out, 2, Fake> out() { return {out_.data(), {rows_, outputs_}}; }

    std::int64_t rows_;
    std::int64_t outputs_;
    std::int64_t inputs_;
    std::vector<T> values_;
    std::vector<T> rows_of_weight_;
    Fake::Stream stream_;
    std::vector<Fake::Weight> weight_;
    Buffer<T, Fake> in_;
    int first_bias_;
    Buffer<float, Fake> bias_;
    Buffer<Out, Fake> out_;
};

std::span<std::byte> whole(Buffer<std::byte, Fake>& memory) {
    return {memory.data(), static_cast<std::size_t>(memory.size())};
}

}  // namespace

TEST_CASE("LtProducts: the heuristic is asked once for each kind of product, of a context and not of a stream") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    Product<Bfloat16> first(*context, 17, 8, 16);
    Product<Bfloat16> same(*context, 17, 8, 16);
    Product<Bfloat16> more_rows(*context, 18, 8, 16);
    Product<Bfloat16, float> in_float(*context, 17, 8, 16);
    Product<float> of_floats(*context, 17, 8, 16);
    Calls const found("lt_find");
    Calls const made("lt_layout");
    Calls const products("lt_matmul");
    for (int time = 0; time < 3; ++time) {
        REQUIRE(first.multiply());
        REQUIRE(same.multiply());
        CHECK(found.made() == (time == 0 ? 1 : 4));
        CHECK((*context->products())->kept() == (time == 0 ? 1 : 4));
        REQUIRE(more_rows.multiply());
        REQUIRE(in_float.multiply());
        REQUIRE(of_floats.multiply());
    }
    CHECK(found.made() == 4);
    CHECK(made.made() == 12);
    CHECK(products.made() == 15);
    CHECK((*context->products())->kept() == 4);
    first.check(false);
    same.check(false);
    more_rows.check(false);
    in_float.check(false);
    of_floats.check(false);
}

TEST_CASE(
    "LtProducts: what lies otherwise is another kind: distances, alignment, transpositions, the stream's workspace") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    auto stream = context->make_stream();
    std::vector<float> const values(static_cast<std::size_t>(64), 1.0F);
    auto factor = std::move(*Buffer<float, Fake>::allocate(*context, 64));
    auto out = std::move(*Buffer<float, Fake>::allocate(*context, 64));
    auto workspace = std::move(*Buffer<std::byte, Fake>::allocate(*context, Fake::product_workspace().count()));
    REQUIRE(Fake::copy<float>(TensorView<float const, 1, Host>(values.data(), {64}), factor.view(), stream));
    using Factor = TensorView<float const, 2, Fake>;
    Calls const found("lt_find");
    int kinds = 0;
    auto const first_result = [&](TensorView<float, 2, Fake> to) {
        float made = 0.0F;
        REQUIRE(Fake::copy<float>(TensorView<float const, 1, Fake>(to.data(), {1}),
                                  TensorView<float, 1, Host>(&made, {1}), stream));
        REQUIRE(stream.synchronize(Deadline::after(10s)));
        return made;
    };
    auto const check_kind = [&](Factor a, Factor b, TensorView<float, 2, Fake> to, GemmOptions options) {
        ++kinds;
        for (int time = 0; time < 2; ++time) REQUIRE(Fake::gemm<float>(a, b, to, options, stream));
        CHECK(found.made() == kinds);
        CHECK(first_result(to) == 3.0F);
    };
    auto* const at = factor.data();
    auto* const to = out.data();
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to, {3, 3}}, {});
    check_kind({at, {3, 3}, 4}, {at, {3, 3}}, {to, {3, 3}}, {});
    check_kind({at, {3, 3}}, {at, {3, 3}, 5}, {to, {3, 3}}, {});
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to, {3, 3}, 6}, {});
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to, {3, 3}}, {.is_a_transposed = true});
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to, {3, 3}}, {.is_b_transposed = true});
    check_kind({at + 1, {3, 3}}, {at, {3, 3}}, {to, {3, 3}}, {});
    check_kind({at, {3, 3}}, {at + 4, {3, 3}}, {to, {3, 3}}, {});
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to + 2, {3, 3}}, {});
    stream.lend_to_products(whole(workspace));
    check_kind({at, {3, 3}}, {at, {3, 3}}, {to, {3, 3}}, {});
    stream.lend_to_products({});
    // Adding to what is there is none.
    TensorView<float, 2, Fake> const sum{to, {3, 3}};
    REQUIRE(Fake::gemm<float>(Factor{at, {3, 3}}, Factor{at, {3, 3}}, sum, {.accumulates = true}, stream));
    CHECK(found.made() == kinds);
    CHECK(first_result(sum) == 6.0F);
}

TEST_CASE("LtProducts: the kinds that are kept are bounded, and the one that was used longest ago goes") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    auto stream = context->make_stream();
    auto const most = static_cast<std::int64_t>(FakeApi::Products::most_kept);
    auto memory = std::move(*Buffer<float, Fake>::allocate(*context, most + 1));
    auto out = std::move(*Buffer<float, Fake>::allocate(*context, most + 1));
    auto const multiply = [&](std::int64_t rows) {
        REQUIRE(Fake::gemm<float>(TensorView<float const, 2, Fake>(memory.data(), {rows, 1}),
                                  TensorView<float const, 2, Fake>(memory.data(), {1, 1}),
                                  TensorView<float, 2, Fake>(out.data(), {rows, 1}), {}, stream));
    };
    Calls const found("lt_find");
    for (std::int64_t rows = 1; rows <= most; ++rows) multiply(rows);
    auto const objects = FakeMachine::get().lt_objects.load();
    multiply(1);
    CHECK(found.made() == most);
    multiply(most + 1);
    CHECK(found.made() == most + 1);
    CHECK((*context->products())->kept() == FakeApi::Products::most_kept);
    CHECK(FakeMachine::get().lt_objects == objects);
    multiply(1);
    CHECK(found.made() == most + 1);
    multiply(2);
    CHECK(found.made() == most + 2);
    REQUIRE(stream.synchronize(Deadline::after(10s)));
}

TEST_CASE("LtProducts: several threads find a kind once") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    std::vector<std::unique_ptr<Product<Bfloat16>>> products;
    for (int i = 0; i < 4; ++i) products.push_back(std::make_unique<Product<Bfloat16>>(*context, 20, 8, 8));
    Calls const found("lt_find");
    {
        std::barrier start(static_cast<std::ptrdiff_t>(products.size()));
        std::vector<std::thread> threads;
        for (auto& each : products) {
            threads.emplace_back([&] {
                start.arrive_and_wait();
                for (int time = 0; time < 20; ++time) (void)each->multiply();
            });
        }
        for (auto& thread : threads) thread.join();
    }
    CHECK(found.made() == 1);
    for (auto& each : products) each->check(false);
}

TEST_CASE(
    "LtProducts: the workspace is the stream's, which is lent it; without one there are algorithms that need none") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    auto const before = context->memory().current();
    auto memory = std::move(*Buffer<std::byte, Fake>::allocate(*context, Fake::product_workspace().count()));
    CHECK(context->memory().current() - before == Fake::product_workspace());
    Product<Bfloat16> lent(*context, 17, 8, 16);
    Product<Bfloat16> none(*context, 17, 8, 16);
    std::vector<std::byte> marks(static_cast<std::size_t>(memory.size()), std::byte{1});
    TensorView<std::byte const, 1, Host> const marked(marks.data(), {memory.size()});
    REQUIRE(Fake::copy<std::byte>(marked, memory.view(), lent.stream()));
    lent.stream().lend_to_products(whole(memory));
    auto const used = [&] {
        REQUIRE(Fake::copy<std::byte>(std::as_const(memory).view(),
                                      TensorView<std::byte, 1, Host>(marks.data(), {memory.size()}), lent.stream()));
        REQUIRE(lent.stream().synchronize(Deadline::after(10s)));
        return marks.front() != std::byte{1};
    };
    REQUIRE(none.multiply());
    none.check(false);
    CHECK_FALSE(used());
    REQUIRE(lent.multiply());
    lent.check(false);
    CHECK(used());
    // It is not as much as an algorithm takes.
    lent.stream().lend_to_products(whole(memory).first(FakeLt::used_workspace - 1));
    REQUIRE(lent.multiply());
    lent.check(false);
    auto moved = std::move(lent.stream());
    CHECK(moved.lent_to_products().size() == FakeLt::used_workspace - 1);
}

TEST_CASE("LtProducts: a product in a graph asks for no memory, and is replayed") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    auto memory = std::move(*Buffer<std::byte, Fake>::allocate(*context, Fake::product_workspace().count()));
    Product<Bfloat16> product(*context, 17, 8, 16);
    auto& stream = product.stream();
    stream.lend_to_products(whole(memory));
    REQUIRE(product.multiply_with_bias());
    REQUIRE(stream.synchronize(Deadline::after(10s)));
    Calls const allocated("allocate");
    Calls const pinned("allocate_pinned");
    Calls const found("lt_find");
    {
        auto const graph = DeviceGraph<FakeApi>::capture(stream, [&]() -> Result<> {
            auto const added = product.multiply_with_bias();
            return added ? Result<>{} : Result<>(added.error());
        });
        REQUIRE(graph);
        Calls const products("lt_matmul");
        graph->launch(stream);
        product.check(true);
        CHECK(products.made() == 0);
    }
    CHECK(allocated.made() == 0);
    CHECK(pinned.made() == 0);
    CHECK(found.made() == 0);
}

TEST_CASE("LtProducts: a bias is added by the product where the heuristic takes it, and left to the caller elsewhere") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    Product<Bfloat16> taken(*context, 17, 8, 16);
    Product<float> of_floats(*context, 17, 3, 5);
    Product<Float16, float> scores(*context, 17, 8, 16);
    Product<Float16> refused(*context, 17, 8, 16);
    Product<Bfloat16> few(*context, 16, 8, 16);
    Calls const found("lt_find");
    auto const check = [](auto& product, bool is_added) {
        for (int time = 0; time < 2; ++time) {
            auto const added = product.multiply_with_bias();
            REQUIRE(added);
            CHECK(*added == is_added);
            product.check(is_added);
        }
    };
    check(taken, true);
    check(of_floats, true);
    check(scores, true);
    CHECK(found.made() == 3);
    // Asked with the bias and without, once each.
    check(refused, false);
    CHECK(found.made() == 5);
    // Our own kernel's.
    check(few, false);
    CHECK(found.made() == 5);
    // The kind without a bias is another.
    REQUIRE(taken.multiply());
    CHECK(found.made() == 6);
    taken.check(false);
    // Another bias of the same kind is not the first one's.
    Product<Bfloat16> other(*context, 17, 8, 16, 3);
    check(other, true);
    CHECK(found.made() == 6);
}

TEST_CASE("LtProducts: a bias of another size is refused") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    auto stream = context->make_stream();
    std::array<float, 6> const values{};
    auto const weight = Fake::hold_weight(*context, {WeightFormat::f32, 3, 2, std::as_bytes(std::span(values)), {}});
    auto memory = std::move(*Buffer<float, Fake>::allocate(*context, 64));
    auto const added =
        Fake::multiply_with_bias(TensorView<float const, 2, Fake>(memory.data(), {2, 2}), *weight,
                                 TensorView<float const, 1, Fake>(memory.data(), {2}), memory.matrix(2, 3), stream);
    REQUIRE_FALSE(added);
    CHECK(added.error().code() == ErrorCode::shape_mismatch);
    CHECK(added.error().message() ==
          "multiply: the bias has not one number per output of the weight (got 2, expected 3)");
}

TEST_CASE("LtProducts: what the library has no algorithm for is computed by our own kernel, and asked for once") {
    Clean const clean;
    auto const context = std::move(*Fake::Context::open());
    FakeMachine::get().rows_without_algorithm = 19;
    Product<Bfloat16> without(*context, 19, 8, 16);
    Product<Bfloat16> with(*context, 20, 8, 16);
    Calls const found("lt_find");
    Calls const products("lt_matmul");
    Calls const own("gemm");
    for (int time = 1; time <= 3; ++time) {
        REQUIRE(without.multiply());
        without.check(false);
        CHECK(own.made() == time);
    }
    CHECK(found.made() == 1);
    CHECK(products.made() == 0);
    auto const added = without.multiply_with_bias();
    REQUIRE(added);
    CHECK_FALSE(*added);
    without.check(false);
    CHECK(own.made() == 4);
    REQUIRE(with.multiply());
    with.check(false);
    CHECK(products.made() == 1);
    // Halves that lie on two bytes, which gemm takes.
    auto memory = std::move(*Buffer<Float16, Fake>::allocate(*context, 64));
    REQUIRE(Fake::gemm<Float16>(TensorView<Float16 const, 2, Fake>(memory.data() + 1, {2, 3}),
                                TensorView<Float16 const, 2, Fake>(memory.data(), {3, 2}),
                                TensorView<Float16, 2, Fake>(memory.data() + 32, {2, 2}), {}, with.stream()));
    CHECK(own.made() == 5);
    CHECK(products.made() == 1);
    REQUIRE(with.stream().synchronize(Deadline::after(10s)));
}

TEST_CASE("LtProducts: each call that fails is named, leaves nothing behind, and is made again") {
    Clean const clean;
    std::vector<std::pair<std::string, int>> const calls{
        {"lt_create", 0}, {"lt_operation", 0}, {"lt_transpose", 0},  {"lt_bias", 0}, {"lt_layout", 0},
        {"lt_layout", 1}, {"lt_layout", 2},    {"lt_preference", 0}, {"lt_find", 0}, {"lt_matmul", 0}};
    for (auto const& each : calls) {
        auto const& call = each.first;
        auto const after = each.second;
        CAPTURE(call);
        CAPTURE(after);
        auto const context = std::move(*Fake::Context::open());
        Product<Bfloat16> product(*context, 17, 8, 16);
        FakeMachine::get().fail(call, after);
        auto const objects = FakeMachine::get().lt_objects.load();
        auto const added = product.multiply_with_bias();
        REQUIRE(added);
        CHECK_FALSE(*added);
        auto const done = product.stream().synchronize(Deadline::after(10s));
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::backend_failure);
        CHECK(done.error().subject() == call);
        // But the handle, and the kind where it is whole.
        auto const kept = call == "lt_create" ? 0 : call == "lt_matmul" ? 5 : 1;
        CHECK(FakeMachine::get().lt_objects - objects == kept);
        FakeMachine::get().mend();
        Product<Bfloat16> next(*context, 17, 8, 16);
        REQUIRE(next.multiply_with_bias());
        next.check(true);
    }
    // Of a kind that is kept the bias is set again.
    auto const context = std::move(*Fake::Context::open());
    Product<Bfloat16> product(*context, 17, 8, 16);
    REQUIRE(product.multiply_with_bias());
    FakeMachine::get().fail("lt_bias");
    (void)product.multiply_with_bias();
    CHECK(product.stream().synchronize(Deadline::after(10s)).error().subject() == "lt_bias");
}
