#include <shardwise/parallel/row_linear.hpp>

#include <doctest/doctest.h>

#include "stored_weight.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t outputs = 18;
constexpr std::int64_t inputs = 1280;
constexpr std::int64_t tokens = 2;

Result<std::vector<Floats>> run_format(WeightSource const& weight, IsaLevel isa, std::int32_t ranks) {
    auto const in = random_floats(tokens * inputs, 1);
    auto const pieces = Deterministic::cut(inputs, input_grain(weight.format, weight.group));
    std::vector<Floats> made(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1, .isa = isa});
        auto stream = context.make_stream();
        auto const layer = RowLinear<Host, Deterministic>::create(context, weight, pieces, {ranks, comm.rank()});
        if (!layer) return layer.error();
        auto const own = layer->own_inputs();
        auto& out = made[static_cast<std::size_t>(comm.rank())];
        out.resize(index(tokens * outputs));
        Floats workspace(index(layer->workspace(tokens)));
        auto const ran = layer->forward(matrix(in, tokens, inputs).columns(own.begin, own.size()),
                                        matrix(out, tokens, outputs), vector(workspace), comm, stream);
        if (!ran) return ran;
        return finish(stream);
    });
    if (!done) return done.error();
    return made;
}

}  // namespace

TEST_CASE("weight formats: at each instruction set level, the same bits over any ranks, near float64") {
    auto const in = random_floats(tokens * inputs, 1);
    for (auto const format : all_weight_formats) {
        Stored const stored(format, outputs, inputs);
        auto exact = exact_linear(in, decoded(stored.source), tokens, outputs, inputs);
        // Products of quantised weights may take activations as fixed point of 22 bits below a block's largest.
        auto const weights = decoded(stored.source);
        for (std::int64_t i = 0; i < tokens * outputs; ++i) {
            double size = 0.0;
            for (std::int64_t k = 0; k < inputs; ++k) size += std::abs(weights[index(i % outputs * inputs + k)]);
            exact.tolerance[index(i)] += 0x1p-21 * size;
        }
        for (auto const isa : {IsaLevel::portable, IsaLevel::avx2, IsaLevel::avx512, IsaLevel::avx512_bf16}) {
            if (isa > detect_isa()) continue;
            CAPTURE(name_of(format));
            CAPTURE(name_of(isa));
            auto const alone = run_format(stored.source, isa, 1);
            REQUIRE(alone);
            CHECK(exact.wrong(alone->front()) == 0);
            // 40 blocks of 32 and 5 of 256: also more ranks than leaves.
            for (std::int32_t const ranks : {3, 8}) {
                auto const made = run_format(stored.source, isa, ranks);
                REQUIRE(made);
                CHECK(is_bitwise_equal(made->front(), alone->front()));
                CHECK(is_bitwise_equal(made->back(), alone->front()));
            }
        }
    }
}
