// SPDX-License-Identifier: Apache-2.0
#include "run_flags.hpp"

#include <shardwise/executor/held_format.hpp>
#include <shardwise/memory/check_request.hpp>

#include "choices.hpp"
#include "requests.hpp"
#include "run_device_words.hpp"
#include "run_placement.hpp"
#include "values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

constexpr std::int64_t max_count = std::int64_t{1} << 24;

[[nodiscard]] Result<float> read_real(std::string_view flag, std::string_view word, float least, double most) {
    double value = 0.0;
    auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    bool const is_whole = end == word.data() + word.size();
    bool const is_number = is_whole && (problem == std::errc{} || problem == std::errc::result_out_of_range);
    if (is_number && problem == std::errc{} && std::isfinite(value) && value >= static_cast<double>(least) &&
        value <= most)
        return static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
    return Error{ErrorCode::invalid_argument}
        .in(flag)
        .at(word.empty() ? std::string_view{"\"\""} : word)
        .because(is_number ? "is out of range" : "is not a number")
        .fix(most > 1.0F ? (least > 0.0F ? "write a number like 1.1" : "write a number like 0.8, from 0 on")
                         : "write a number from 0 to 1, like 0.8");
}

}  // namespace

Result<GenerationRequest> read_request(Arguments const& arguments) {
    GenerationRequest request;
    auto& sampling = request.sampling;
    struct Real {
        std::string_view flag;
        std::optional<std::string> const& word;
        float least;
        double most;
        float& to;
    };
    constexpr auto large = 1e6;
    // At the highest temperatures all tokens are alike: what no float holds is the highest.
    constexpr auto any = std::numeric_limits<double>::max();
    for (auto const& real :
         {Real{"--temperature", arguments.temperature, 0.0F, any, sampling.temperature},
          Real{"--top-p", arguments.top_p, 0.0F, 1.0, sampling.top_p},
          Real{"--min-p", arguments.min_p, 0.0F, 1.0, sampling.min_p},
          Real{"--repetition-penalty", arguments.repetition_penalty, 1e-6F, large, sampling.repetition_penalty}}) {
        if (!real.word) continue;
        auto const value = read_real(real.flag, *real.word, real.least, real.most);
        if (!value) return value.error();
        real.to = *value;
    }
    for (auto const& read :
         {read_tokens("--max-new-tokens", arguments.max_new_tokens, max_count, request.max_new_tokens, 0),
          read_count("--top-k", arguments.top_k, max_count, sampling.top_k, 0),
          read_count("--seed", arguments.seed, std::numeric_limits<std::int64_t>::max(), sampling.seed, 0)}) {
        if (!read) return read.error();
    }
    return request;
}

Result<RunOptions> read_run_options(Arguments const& arguments, std::vector<std::string>& warnings) {
    RunOptions options;
    options.is_deterministic = arguments.deterministic;
    for (auto const& read :
         {read_count("--tp", arguments.tp, 1024, options.tp), read_count("--pp", arguments.pp, 1024, options.pp),
          read_count("--ep", arguments.ep, 1024, options.ep),
          read_count("--threads", arguments.threads, 4096, options.threads),
          read_prefill_chunk(arguments.prefill_chunk, max_tokens, options.step_tokens)}) {
        if (!read) return read.error();
    }
    auto devices = read_run_devices(arguments, warnings);
    if (auto const checked = check_storage_words(arguments, devices && !devices->empty()); !checked)
        return checked.error();
    if (!devices) return devices.error();
    options.devices = *std::move(devices);
    options.has_graphs = !arguments.no_graphs;
    auto const comm = read_comm(arguments, options.devices);
    if (!comm) return comm.error();
    options.comm = *comm;
    auto sums = read_peer_sums(arguments, options.devices);
    if (!sums) return sums.error();
    options.peer_sums = *std::move(sums);
    auto const element = read_activations(arguments, options.devices);
    if (!element) return element.error();
    options.activations = *element;
    // A placement says itself which devices its stages have. Stages and groups of experts share the devices first.
    if (!options.devices.empty() && !arguments.tp && !has_placement(arguments)) {
        auto const shared = static_cast<std::int64_t>(options.devices.numbers.size()) / options.pp / options.ep;
        options.tp = static_cast<std::int32_t>(std::max<std::int64_t>(1, shared));
    }
    if (arguments.kv_dtype) {
        auto const dtype = parse_dtype(*arguments.kv_dtype);
        bool const is_kept = dtype && (*dtype == Dtype::f32 || *dtype == Dtype::bf16 || *dtype == Dtype::i8);
        if (!is_kept) {
            return Error{ErrorCode::invalid_argument}
                .in("--kv-dtype")
                .at(*arguments.kv_dtype)
                .because("is no element type that keys and values are kept in")
                .fix("use fp32, bf16 or int8");
        }
        options.kv_dtype = *dtype;
    }
    if (arguments.product_activations) {
        auto const activations = choose<ProductActivations>("--product-activations", *arguments.product_activations,
                                                            product_activation_choices);
        if (!activations) return activations.error();
        options.product_activations = *activations;
    }
    auto const weights = read_estimate_request(arguments);
    if (!weights) return weights.error();
    options.load.dtype = weights->dtype;
    options.load.quant = weights->quant;
    if (auto const checked = check_load_options(options.load); !checked) return checked.error();
    return options;
}

Result<> check_devices_are_used(Arguments const& arguments, RunOptions const& options) {
    auto const devices = static_cast<std::int64_t>(options.devices.numbers.size());
    auto const groups = options.pp * options.ep;
    if (arguments.tp || has_placement(arguments) || devices <= groups || devices % groups == 0) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--devices")
        .because("names " + std::to_string(devices) + " devices, which --pp times --ep, " + std::to_string(groups) +
                 ", does not divide: some of them would be idle")
        .fix("name " + std::to_string(devices - devices % groups) + " devices, or give --tp");
}

}  // namespace shardwise::cli
