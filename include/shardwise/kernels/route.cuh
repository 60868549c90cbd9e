// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/kernels/detail/route_call.hpp>
#include <shardwise/kernels/detail/router_math.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int route_threads = 256;

/// Experts that are compared with each other first, where there are many: what is chosen is among the first of each such chunk.
constexpr int routed_chunk = 32;

/// What a block keeps of a token.
struct RoutedToken {
    float scores[max_routed_experts];
    float ranks[max_routed_experts];
    std::int64_t keys[max_routed_experts];
    std::int64_t group_keys[max_routed_experts];
    /// Of each chunk the first experts, in their order.
    std::int64_t candidates[max_routed_experts];
    /// By expert how many are before it.
    std::int32_t places[max_routed_experts];
    float weights[max_routed_experts];
    float lanes[router_lanes];
};

/// A block's softmax of `count` shared values, in place, in the host's order.
template <int threads>
__device__ void softmax_of_router(float* values, int count, float* lanes) {
    auto const thread = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (thread < router_lanes) {
        auto largest = thread < count ? values[thread] : float_of_bits(0xFF800000U);
        for (int i = thread + router_lanes; i < count; i += router_lanes)
            largest = values[i] > largest ? values[i] : largest;
        lanes[thread] = largest;
    }
    __syncthreads();
    auto largest = lanes[0];
    for (int lane = 1; lane < router_lanes; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
    for (int i = thread; i < count; i += threads) values[i] = exact_exp(values[i] - largest);
    __syncthreads();
    if (thread < router_lanes) {
        float sum = 0.0F;
        for (int i = thread; i < count; i += router_lanes) sum += values[i];
        lanes[thread] = sum;
    }
    __syncthreads();
    auto sum = lanes[0];
    for (int lane = 1; lane < router_lanes; ++lane) sum += lanes[lane];
    for (int i = thread; i < count; i += threads) values[i] /= sum;
    __syncthreads();
}

/// Keys of which this one is among the `count`: how many are greater.
[[nodiscard]] __device__ inline int place_among(std::int64_t key, std::int64_t const* keys, int count) {
    int place = 0;
    for (int i = 0; i < count; ++i) place += keys[i] > key ? 1 : 0;
    return place;
}

/// By expert how many are before it, as far as that is below `chosen`; more where it is not, or the expert is not chosen from. Each
/// expert counts those before it in its chunk, and the first ones of all chunks those among themselves.
template <int threads>
__device__ void find_places(RoutedToken& own, int experts, int chosen) {
    auto const thread = static_cast<int>(threadIdx.x);
    auto const chunks = (experts - 1) / routed_chunk + 1;
    bool const is_parted = chunks * chosen * 2 <= experts;
    for (int i = thread; is_parted && i < chunks * chosen; i += threads) own.candidates[i] = no_logit_key;
    __syncthreads();
    for (int i = thread; i < experts; i += threads) {
        own.places[i] = experts;
        auto const key = own.keys[i];
        if (key == no_logit_key) continue;
        if (!is_parted) {
            own.places[i] = place_among(key, own.keys, experts);
            continue;
        }
        auto const chunk = i / routed_chunk;
        auto const first = chunk * routed_chunk;
        auto const size = experts - first < routed_chunk ? experts - first : routed_chunk;
        auto const place = place_among(key, own.keys + first, size);
        if (place < chosen) own.candidates[chunk * chosen + place] = key;
    }
    __syncthreads();
    for (int i = thread; is_parted && i < chunks * chosen; i += threads) {
        auto const key = own.candidates[i];
        if (key != no_logit_key) own.places[id_of_key(key)] = place_among(key, own.candidates, chunks * chosen);
    }
    __syncthreads();
}

/// A block chooses a token's experts.
template <int threads>
__global__ void __launch_bounds__(threads) route_tokens(RouteCall call) {
    __shared__ RoutedToken own;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const experts = call.experts;
    for (auto token = static_cast<std::int64_t>(blockIdx.x); token < call.tokens; token += gridDim.x) {
        auto const* const logits = call.logits + token * call.logits_row;
        for (int i = thread; i < experts; i += threads)
            own.scores[i] = call.score == RouterScore::sigmoid ? router_sigmoid(logits[i]) : logits[i];
        if (call.score == RouterScore::softmax) softmax_of_router<threads>(own.scores, experts, own.lanes);
        for (int i = thread; i < experts; i += threads) {
            own.ranks[i] = own.scores[i] + (call.correction == nullptr ? 0.0F : call.correction[i]);
            own.keys[i] = rank_key(own.ranks[i], i);
        }
        __syncthreads();
        if (call.groups > 0) {
            auto const width = experts / call.groups;
            for (int group = thread; group < call.groups; group += threads) {
                auto const rank =
                    rank_of_group(own.ranks + group * width, width, call.group_rank == GroupRank::best_two);
                own.group_keys[group] = rank_key(rank, group);
            }
            __syncthreads();
            for (int i = thread; i < experts; i += threads) {
                auto const place = place_among(own.group_keys[i / width], own.group_keys, call.groups);
                if (place >= call.kept_groups) own.keys[i] = no_logit_key;
            }
            __syncthreads();
        }
        find_places<threads>(own, experts, call.chosen);
        for (int i = thread; i < experts; i += threads) {
            auto const place = own.places[i];
            if (place >= call.chosen) continue;
            own.weights[place] = own.scores[i];
            call.ids[token * call.ids_row + place] = i;
        }
        __syncthreads();
        if (call.score == RouterScore::sparse_mixer) {
            for (int place = thread; place < call.chosen; place += threads) {
                own.weights[place] = mix_weight(own.scores, experts, own.weights[place], call.near_share,
                                                [&](std::int64_t i) { return own.places[i] < place; });
            }
            __syncthreads();
        }
        if (call.score == RouterScore::softmax_chosen) softmax_of_router<threads>(own.weights, call.chosen, own.lanes);
        float sum = 0.0F;
        for (int i = 0; call.renormalises && i < call.chosen; ++i) sum += own.weights[i];
        auto const divisor = call.renormalises ? sum + min_weight_sum : 1.0F;
        for (int i = thread; i < call.chosen; i += threads)
            call.weights[token * call.weights_row + i] = product_of(own.weights[i] / divisor, call.scale);
        // The next token's scores come after the reads of this one's.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
