// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/cost/block_price.hpp>
#include <shardwise/memory/kv_cache.hpp>
#include <shardwise/memory/part_grains.hpp>
#include <shardwise/memory/saved_activations.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a step of a job is: an update, a token of every sequence, or, in a model that keeps no keys and values and so
/// decodes nothing, the whole sequences.
[[nodiscard]] constexpr Pass step_pass(Model const& model, EstimateRequest const& request) {
    if (request.training) return Pass::training;
    return kv_bytes_per_token(model, request) > Bytes{} ? Pass::decode : Pass::prefill;
}

/// Prices the blocks of one model under one request: every body of its program once per setting and kind of device,
/// kept for later questions.
///
/// Order  a question may add to what is kept: one object serves one thread, copies are independent
class CostModel {
public:
    /// `like` is one of the same model, dtype and quantisation that outlives this one: what it knows of the weights need
    /// not be found anew.
    constexpr CostModel(Model const& model, EstimateRequest const& request,
                        Efficiency const& efficiency = default_efficiency, CostModel* like = nullptr)
        : model_(&model),
          request_(as_published(request, model.config)),
          efficiency_(efficiency),
          like_(like),
          parts_(request_parts(model, request_)) {}

    [[nodiscard]] constexpr Model const& model() const { return *model_; }
    [[nodiscard]] constexpr EstimateRequest const& request() const { return request_; }
    [[nodiscard]] constexpr Efficiency const& efficiency() const { return efficiency_; }
    [[nodiscard]] constexpr std::int64_t layers() const { return parts_.layers; }
    [[nodiscard]] constexpr ModelParts const& parts() const { return parts_; }

    /// Counts so many sequences in the whole job from now on; what was priced stays.
    constexpr void use_batch(std::int64_t batch) { request_.batch = batch; }

    /// One micro-batch through each body of the program, by its number in ModelParts::bodies. Valid until the next question.
    [[nodiscard]] constexpr Span<BlockPrice const> bodies(BlockSetting const& setting, Device const& device) {
        auto const rates = rates_of(device);
        for (auto const& entry : priced_) {
            if (entry.setting == setting && entry.rates == rates) return {entry.bodies.data(), entry.bodies.size()};
        }
        priced_.push_back(price(setting, rates));
        auto const& entry = priced_.back();
        return {entry.bodies.data(), entry.bodies.size()};
    }

    /// The same, not kept: for those who ask once for each of many settings.
    [[nodiscard]] constexpr List<BlockPrice> price_bodies(BlockSetting const& setting, Device const& device) {
        return price(setting, rates_of(device)).bodies;
    }

    /// Of the same what grows with the batch: no weights, no launches, no latencies. A micro-batch of any size takes at least
    /// so much for each of its sequences.
    [[nodiscard]] constexpr List<BlockPrice> price_each(BlockSetting setting, Device const& device) {
        auto rates = rates_of(device);
        rates.kernel_seconds = 0.0;
        for (auto* const link : {&setting.tp.link, &setting.tp.network, &setting.ep.link, &setting.ep.network})
            link->latency = 0.0;
        setting.batch = 1;
        List<BlockPrice> prices;
        for (auto const& demand : demands(setting))
            prices.push_back(block_price(demand, setting, {}, rates, policy(), efficiency_));
        return prices;
    }

    /// The element type of matrix products: 8 bits where weights and activations are fp8, else the activations'.
    [[nodiscard]] constexpr Dtype product_dtype() const {
        if (request_.quant && request_.quant->method == QuantMethod::fp8) return Dtype::f8_e4m3;
        return activation_dtype_of(request_, model_->config);
    }

    /// What a device does for this model.
    [[nodiscard]] constexpr DeviceRates rates_of(Device const& device) const {
        return device_rates(device, product_dtype(), efficiency_, cache());
    }
    /// What attention reads.
    [[nodiscard]] constexpr CacheKind cache() const {
        return {kv_dtype_of(request_, model_->config), context_of(request_, model_->config)};
    }

    /// The step of a micro-batch of `batch` sequences.
    [[nodiscard]] constexpr Step step(Pass pass, std::int64_t batch) const {
        auto step = pass == Pass::training
                        ? training_step(request_, model_->config)
                        : step_of(pass == Pass::decode ? Phase::decode : Phase::prefill, request_, model_->config);
        step.batch = batch;
        return step;
    }

    /// Bytes of a trained element: the model's type; of an adapter fp32.
    [[nodiscard]] constexpr double element_bytes() const {
        if (trains_adapter(request_)) return 4.0;
        return static_cast<double>(bits(request_.dtype.value_or(model_->config.dtype_or(Dtype::f32)))) / 8.0;
    }

private:
    struct Priced {
        BlockSetting setting{};
        DeviceRates rates{};
        List<BlockPrice> bodies;
    };
    struct Demanded {
        Pass pass = Pass::decode;
        std::int64_t batch = 0;
        List<BlockDemand> bodies;
    };
    struct Weighed {
        std::int64_t tp = 1;
        std::int64_t ep = 1;
        List<BodyWeights> bodies;
    };

    constexpr BlockPolicy policy() const {
        return {request_.parallel.sequence_parallel, request_.training ? request_.training->recompute : Recompute::none,
                trains_adapter(request_)};
    }

    constexpr Priced price(BlockSetting const& setting, DeviceRates const& rates) {
        Priced entry{setting, rates, {}};
        auto const& weights = weights_of(setting.tp.ranks, setting.ep.ranks);
        auto const& all = demands(setting);
        entry.bodies.reserve(all.size());
        for (std::size_t body = 0; body < all.size(); ++body)
            entry.bodies.push_back(block_price(all[body], setting, weights.bodies[body], rates, policy(), efficiency_));
        return entry;
    }

    /// What every body asks for, wherever it runs. Valid until the next question.
    constexpr List<BlockDemand> const& demands(BlockSetting const& setting) {
        auto const row = static_cast<std::size_t>(setting.tp.ranks);
        if (demanded_.size() <= row) demanded_.resize(row + 1);
        for (auto const& known : demanded_[row]) {
            if (known.batch == setting.batch && known.pass == setting.pass) return known.bodies;
        }
        // Tables are no experts: any number of expert-parallel ranks holds the same of them.
        auto const& weights = weights_of(setting.tp.ranks, setting.ep.ranks);
        auto const& all = parts_.bodies;
        Demanded entry{setting.pass, setting.batch, {}};
        for (std::size_t body = 0; body < all.size(); ++body) {
            bool const is_table_dealt = weights.bodies[body].dealt_tables > 0.0;
            entry.bodies.push_back(block_demand(model_->program.bodies()[static_cast<std::size_t>(all[body].body)],
                                                step(setting.pass, setting.batch), setting.tp.ranks, is_table_dealt,
                                                policy(), all[body].span()));
        }
        demanded_[row].push_back(static_cast<Demanded&&>(entry));
        return demanded_[row].back().bodies;
    }

    constexpr Weighed const& weights_of(std::int64_t tp, std::int64_t ep) {
        if (like_ != nullptr) return like_->weights_of(tp, ep);
        auto const row = static_cast<std::size_t>(tp);
        if (weighed_.size() <= row) weighed_.resize(row + 1);
        for (auto const& known : weighed_[row]) {
            if (known.ep == ep) return known;
        }
        auto request = request_;
        request.parallel.tp = tp;
        request.parallel.ep = ep;
        weighed_[row].push_back({tp, ep, body_weights(*model_, parts_, request)});
        return weighed_[row].back();
    }

    Model const* model_;
    EstimateRequest request_;
    Efficiency efficiency_;
    CostModel* like_ = nullptr;
    ModelParts parts_;
    /// By tp.
    List<List<Demanded>> demanded_;
    List<List<Weighed>> weighed_;
    List<Priced> priced_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
