// SPDX-License-Identifier: Apache-2.0
#include "train_request.hpp"

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/executor/held_format.hpp>

#include "choices.hpp"
#include "requests.hpp"
#include "train_adapter.hpp"
#include "train_refusals.hpp"
#include "values.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>

namespace shardwise::cli {

namespace {

constexpr std::int64_t max_steps = std::int64_t{1} << 40U;
constexpr std::int64_t max_batch = std::int64_t{1} << 24U;
constexpr std::int64_t max_bucket_mb = std::int64_t{1} << 30U;

/// A number of a flag, and the range that it must be in.
struct RealFlag {
    std::string_view flag;
    std::optional<std::string> const& word;
    double least;
    double most;
    /// "from 0 to below 1"
    std::string_view range;
    bool has_most = true;
};

/// Writes the number of a flag, if it was given.
[[nodiscard]] Result<> read_real(RealFlag const& flag, double& target) {
    if (!flag.word) return {};
    std::string_view const word = *flag.word;
    double value = 0.0;
    auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    bool const is_number = end == word.data() + word.size() && problem == std::errc{} && std::isfinite(value);
    bool const is_below = flag.has_most ? value <= flag.most : value < flag.most;
    if (is_number && value >= flag.least && is_below) {
        target = value;
        return {};
    }
    return Error{ErrorCode::invalid_argument}
        .in(flag.flag)
        .at(word.empty() ? std::string_view{"\"\""} : word)
        .because(is_number ? "is out of range" : "is not a number")
        .fix("write a number " + std::string(flag.range));
}

template <class Count>
[[nodiscard]] Result<> read_optional(std::string_view flag, std::optional<std::string> const& word, std::int64_t most,
                                     std::optional<Count>& target) {
    if (!word) return {};
    Count value{};
    if (auto const read = read_count(flag, word, most, value); !read) return read;
    target = value;
    return {};
}

[[nodiscard]] Error excluded(std::string_view flags, std::string_view why, std::string_view advice) {
    return Error{ErrorCode::invalid_argument}.in(flags).because(why).fix(advice);
}

[[nodiscard]] Result<> check_given(Arguments const& arguments) {
    if (!arguments.model)
        return excluded("MODEL", "was not given",
                        "name one before the other words: shardwise train config.json --data text.txt --out run");
    if (arguments.data.empty()) return excluded("--data", "was not given", "name what to learn: --data text.txt");
    if (!arguments.out || arguments.out->empty())
        return excluded("--out", "was not given", "name the folder of the run's checkpoints: --out run");
    if (arguments.valid && arguments.valid_part)
        return excluded("--valid, --valid-part", "exclude each other", "give one of them");
    if (arguments.valid_every && !arguments.valid && !arguments.valid_part)
        return excluded("--valid-every", "has nothing to validate with", "add --valid FILE or --valid-part P");
    if (arguments.steps && arguments.epochs)
        return excluded("--steps, --epochs", "exclude each other", "give one of them");
    return {};
}

[[nodiscard]] Result<> read_recompute(Arguments const& arguments, TrainRequest& request) {
    if (!arguments.recompute) return {};
    auto const chosen = choose<Recompute>("--recompute", *arguments.recompute, recompute_choices);
    if (!chosen) return chosen.error();
    request.recompute = *chosen;
    return {};
}

[[nodiscard]] Result<> read_offload(Arguments const& arguments, TrainRequest& request) {
    if (!arguments.offload) return {};
    auto const chosen = choose<Offload>("--offload", *arguments.offload, offload_choices);
    if (!chosen) return chosen.error();
    request.offload = *chosen;
    return {};
}

/// The words are checked already. `auto` is bf16 where the processor has a unit that multiplies it.
[[nodiscard]] Dtype read_precision(Arguments const& arguments) {
    auto const word = arguments.precision.value_or("auto");
    if (equal_ignoring_case(word, "auto")) {
        auto const level = choose_isa();
        return level && has_bf16_unit(*level) ? Dtype::bf16 : Dtype::f32;
    }
    return equal_ignoring_case(word, "bf16")   ? Dtype::bf16
           : equal_ignoring_case(word, "fp16") ? Dtype::f16
                                               : Dtype::f32;
}

/// After precision, optimizer and degrees are read.
[[nodiscard]] Result<> read_kahan_sum(Arguments const& arguments, TrainRequest& request) {
    request.kahan_sum = arguments.kahan_sum;
    if (!request.kahan_sum) return {};
    auto const refused = [](std::string_view flags, std::string_view reason, std::string_view advice) {
        return Error{ErrorCode::unsupported}.in(flags).because(reason).fix(advice);
    };
    if (!arguments.precision || !equal_ignoring_case(*arguments.precision, "bf16"))
        return excluded("--kahan-sum", "is of weights in bf16", "add --precision bf16, or leave it out");
    if (request.optimizer != OptimizerKind::adam)
        return refused("--kahan-sum, --optimizer", "do not run together yet: adamw alone compensates",
                       "use --optimizer adamw");
    if (request.low_rank.rank > 0)
        return refused(
            "--kahan-sum, --lora",
            "do not run together: the weights that an adapter trains are few, and their masters in fp32 take "
            "next to nothing",
            "leave it out, and hold the base in fewer bits: --quant");
    return {};
}

[[nodiscard]] Result<> read_base_quant(Arguments const& arguments, TrainRequest& request) {
    if (!arguments.quant) return {};
    if (auto const read = read_quant(arguments.quant, request.quant); !read) return read;
    LoadOptions options;
    options.quant = request.quant;
    return check_load_options(options);
}

[[nodiscard]] Result<> read_optimizer(Arguments const& arguments, TrainRequest& request) {
    if (arguments.optimizer) {
        auto const chosen = choose<OptimizerKind>("--optimizer", *arguments.optimizer, train_optimizer_choices);
        if (!chosen) return chosen.error();
        request.optimizer = *chosen;
    }
    bool const is_sgd = request.optimizer == OptimizerKind::sgd;
    if (is_sgd) {
        for (auto const& [flag, word] : {std::pair{"--beta1", &arguments.beta1}, std::pair{"--beta2", &arguments.beta2},
                                         std::pair{"--epsilon", &arguments.epsilon}}) {
            if (*word)
                return excluded(std::string(flag) + ", --optimizer sgd", "exclude each other: sgd has no such number",
                                "leave it out, or use adamw");
        }
    } else if (arguments.momentum) {
        return excluded("--momentum", "is a number of sgd", "leave it out, or add --optimizer sgd");
    }
    auto const decay = RealFlag{"--weight-decay", arguments.weight_decay, 0.0, 1e30, "from 0 on", false};
    for (auto const& read :
         {read_real({"--beta1", arguments.beta1, 0.0, 1.0, "from 0 to below 1", false}, request.adamw.beta1),
          read_real({"--beta2", arguments.beta2, 0.0, 1.0, "from 0 to below 1", false}, request.adamw.beta2),
          read_real(
              {"--epsilon", arguments.epsilon, std::numeric_limits<float>::min(), 1e30, "above 0, like 1e-8", false},
              request.adamw.epsilon),
          read_real({"--momentum", arguments.momentum, 0.0, 1.0, "from 0 to below 1", false}, request.sgd.momentum),
          read_real(decay, request.adamw.weight_decay), read_real(decay, request.sgd.weight_decay)}) {
        if (!read) return read;
    }
    return {};
}

[[nodiscard]] Result<> read_schedule(Arguments const& arguments, TrainRequest& request) {
    auto& schedule = request.schedule;
    if (arguments.schedule) {
        auto const kind = parse_schedule(*arguments.schedule);
        if (!kind) return Error{kind.error()}.in("--schedule").at(*arguments.schedule);
        schedule.kind = *kind;
    }
    double least = -1.0;
    double clip = 1.0;
    for (auto const& read :
         {read_real({"--lr", arguments.lr, 0.0, 1e30, "from 0 on, like 3e-4", false}, schedule.learning_rate),
          read_real({"--min-lr", arguments.min_lr, 0.0, 1e30, "from 0 to --lr", false}, least),
          read_real({"--clip", arguments.clip, 0.0, 1e29, "from 0 on, like 1", false}, clip),
          read_count("--warmup", arguments.warmup, max_steps, schedule.warm_up, 0)}) {
        if (!read) return read;
    }
    request.clip = clip > 0.0 ? std::optional(clip) : std::nullopt;
    if (least < 0.0) return {};
    if (least > schedule.learning_rate)
        return excluded("--min-lr", "is above the learning rate", "write a number from 0 to --lr");
    // What the default says as a number is the default.
    if (least == schedule.floor * schedule.learning_rate) return {};
    schedule.floor = least / schedule.learning_rate;
    return {};
}

/// After degrees and micro-batch are read.
void read_mode(Arguments const& arguments, TrainRequest& request) {
    bool const is_written = arguments.mode && equal_ignoring_case(*arguments.mode, "auto");
    request.is_auto = is_written || !arguments.mode;
    bool const has_degree = arguments.dp || arguments.tp || arguments.pp;
    request.has_no_fallback = arguments.no_fallback;
    request.may_fall_back = is_written && !has_degree && !arguments.no_fallback;
    if (arguments.dp) request.pins.dp = request.dp;
    if (arguments.tp) request.pins.tp = request.tp;
    if (arguments.pp) request.pins.pp = request.pp;
    if (arguments.zero) request.pins.zero = static_cast<ZeroStage>(request.zero);
    if (request.micro_batch) request.pins.micro_batch = *request.micro_batch;
}

}  // namespace

std::string_view train_optimizer_name(OptimizerKind kind) {
    return train_optimizer_choices[static_cast<std::size_t>(kind)].word;
}

Result<TrainRequest> read_train_request(Arguments const& arguments) {
    TrainRequest request;
    if (auto const given = check_given(arguments); !given) return given.error();
    if (auto const checked = check_trained(arguments); !checked) {
        auto const& error = checked.error();
        read_mode(arguments, request);
        // The host takes the place of devices that cannot be had.
        if (error.code() != ErrorCode::no_such_device || !request.may_fall_back) return error;
        request.fallback = error.message();
    }
    request.model = *arguments.model;
    request.data = arguments.data;
    request.out = *arguments.out;
    while (request.out.size() > 1 && request.out.back() == '/') request.out.pop_back();
    request.is_from_scratch = arguments.from_scratch;
    request.precision = read_precision(arguments);
    request.is_fast = arguments.fast;
    request.is_merged = arguments.merge;
    request.tokenizer = arguments.tokenizer;
    request.valid = arguments.valid;
    request.csv = arguments.csv;
    request.svg = arguments.svg;
    request.resume = arguments.resume;
    request.is_dry_run = arguments.dry_run;
    request.is_tuned = arguments.tune;
    std::int64_t seconds = request.timeout.count();
    double part = 0.0;
    auto const micro_batch = arguments.micro_batch && equal_ignoring_case(*arguments.micro_batch, "auto")
                                 ? std::nullopt
                                 : arguments.micro_batch;
    for (auto const& read :
         {read_recompute(arguments, request),
          read_offload(arguments, request),
          read_optimizer(arguments, request),
          read_schedule(arguments, request),
          read_real({"--valid-part", arguments.valid_part, std::numeric_limits<double>::min(), 1.0,
                     "between 0 and 1, like 0.05", false},
                    part),
          read_real({"--dropout", arguments.dropout, 0.0, 0.999, "from 0 to 0.999, like 0.1"}, request.dropout),
          read_real({"--epochs", arguments.epochs, 1e-9, 1e9, "above 0, like 1"}, request.epochs),
          read_optional("--valid-every", arguments.valid_every, max_steps, request.valid_every),
          read_optional("--micro-batch", micro_batch, max_batch, request.micro_batch),
          read_optional("--steps", arguments.steps, max_steps, request.steps),
          read_optional("--save-every", arguments.save_every, max_steps, request.save_every),
          read_optional("--bucket-mb", arguments.bucket_mb, max_bucket_mb, request.bucket_mb),
          read_count("--batch", arguments.batch, max_batch, request.batch),
          read_count("--dp", arguments.dp, 1024, request.dp),
          read_count("--tp", arguments.tp, 1024, request.tp),
          read_count("--pp", arguments.pp, 1024, request.pp),
          read_count("--zero", arguments.zero, 3, request.zero, 0),
          read_count("--check-gradients", arguments.check_gradients, max_steps, request.check_gradients, 0),
          read_count("--keep", arguments.keep, max_steps, request.keep),
          read_count("--seed", arguments.seed, std::numeric_limits<std::int64_t>::max(), request.seed, 0),
          read_count("--threads", arguments.threads, 4096, request.threads),
          read_count("--timeout", arguments.timeout, 1'000'000, seconds),
          read_count("--max-skipped", arguments.max_skipped, max_steps, request.max_skipped, 0),
          read_count("--max-restarts", arguments.max_restarts, max_steps, request.max_restarts, 0),
          read_count("--min-ranks", arguments.min_ranks, 1024, request.min_ranks)}) {
        if (!read) return read.error();
    }
    read_mode(arguments, request);
    if (arguments.context) {
        std::int64_t context = 0;
        auto const read = read_tokens("--context", arguments.context, std::int64_t{1} << 31U, context);
        if (!read) return read.error();
        request.context = context;
    }
    if (arguments.valid_part) request.valid_part = part;
    if (arguments.pipeline) {
        for (std::size_t i = 0; i < pipeline_words.size(); ++i) {
            if (equal_ignoring_case(pipeline_words[i], *arguments.pipeline))
                request.pipeline = static_cast<PipelineKind>(i);
        }
    }
    request.timeout = std::chrono::seconds(seconds);
    auto low_rank = read_low_rank(arguments);
    if (!low_rank) return low_rank.error();
    request.low_rank = *std::move(low_rank);
    if (auto const read = read_base_quant(arguments, request); !read) return read.error();
    if (auto const read = read_kahan_sum(arguments, request); !read) return read.error();
    return request;
}

}  // namespace shardwise::cli
