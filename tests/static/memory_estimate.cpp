// The estimator works in constant expressions at the compilers' default limits.
#include <shardwise/cost/block_work.hpp>
#include <shardwise/cost/roofline.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/arch/deepseek_v3.hpp>
#include <shardwise/model/arch/gemma2.hpp>
#include <shardwise/model/arch/llama.hpp>
#include <shardwise/model/arch/mixtral.hpp>
#include <shardwise/model/presets_deepseek.hpp>
#include <shardwise/model/presets_gemma.hpp>
#include <shardwise/model/presets_llama.hpp>

#include <array>

namespace {

using namespace shardwise;

template <class Arch>
constexpr MemoryTerms terms_of(ModelConfig const& config, EstimateRequest const& request = {}) {
    return MemoryEstimator<Arch>::estimate(config, request)->terms;
}

// facts/memory.md: Llama-3-70B has 70,553,706,496 parameters and 327,680 bytes of cache per token
constexpr auto llama = terms_of<Llama>(presets::llama_3_70b, {.context = 8192});
static_assert(llama.weights == Bytes{2 * 70'553'706'496});
static_assert(llama.kv_cache == Bytes{8192LL * 327'680});
static_assert(llama.activations == Bytes{8192LL * 73'728 * 2});

// facts/memory.md, "Fits or not": 36.6 GB of weights and cache per card on 4 x A100-40GB, tensor parallel
constexpr auto four = terms_of<Llama>(presets::llama_3_70b, {.context = 8192, .parallel = {.tp = 4}});
static_assert((four.weights + four.kv_cache).count() / 4 < 36'600'000'000);
static_assert(four.total() < 4 * 40_GiB);
static_assert(terms_of<Llama>(presets::llama_3_70b, {.context = 8192, .parallel = {.tp = 3}}).total() > 3 * 40_GiB);
static_assert(terms_of<Llama>(presets::llama_3_70b, {.context = 8192, .parallel = {.tp = 8}}).weights > llama.weights);
static_assert(terms_of<Llama>(presets::llama_3_70b, {.context = 8192, .parallel = {.pp = 4}}).weights == llama.weights);
constexpr EstimateRequest int4{.quant = QuantScheme::int4(), .context = 8192};
static_assert(terms_of<Llama>(presets::llama_3_70b, int4).total() < 4 * 24_GiB);

// Other families: experts, latent attention, windows
static_assert(terms_of<DeepseekV3>(presets::deepseek_v3, {.context = 32768}).kv_cache == 2196_MiB);
static_assert(terms_of<Mixtral>(presets::mixtral_8x7b, {.parallel = {.ep = 8}}).weights > Bytes{2 * 46'702'792'704});
static_assert(terms_of<Gemma2>(presets::gemma_2_9b).kv_cache > 0_B);

// Training
constexpr TrainingPlan zero_two{.zero = 2, .convention = MemoryConvention::zero};
static_assert(terms_of<Llama>(presets::llama_2_7b, {.parallel = {.dp = 4}, .training = zero_two}).total() ==
              Bytes{4 * 2 * 6'738'415'616 + 14 * 6'738'415'616});
static_assert(terms_of<Llama>(presets::llama_2_7b, {.training = TrainingPlan{}}).gradients == Bytes{2 * 6'738'415'616});

// A refused request is an error in constant expressions too
static_assert(!MemoryEstimator<Llama>::estimate(presets::llama_3_70b, {.parallel = {.tp = 65}}));

// The arena planner and the roofline
constexpr Bytes peak_of_two() {
    std::array<ArenaItem, 2> const items{{{0, 1, 100_B, 1}, {2, 3, 50_B, 1}}};
    return plan_arena(items).peak;
}
static_assert(peak_of_two() == 100_B);
static_assert(roofline_seconds(10.0, 100.0, {10.0, 10.0}) == 10.0);

}  // namespace
