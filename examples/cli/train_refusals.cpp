// SPDX-License-Identifier: Apache-2.0
#include "train_refusals.hpp"

#include <shardwise/core/text.hpp>

#include "choices.hpp"
#include "requests.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardwise::cli {

namespace {

[[nodiscard]] Error refused(std::string_view flag, std::string_view reason, std::string_view advice) {
    return Error{ErrorCode::unsupported}.in(flag).because(reason).fix(advice);
}

/// A flag that takes one of some words, of which only `running` do anything yet.
struct WordFlag {
    std::string_view flag;
    std::optional<std::string> const& word;
    std::span<std::string_view const> words;
    std::span<std::string_view const> running;
    std::string_view reason;
    std::string_view advice;
};

[[nodiscard]] Result<> check_word(WordFlag const& flag) {
    if (!flag.word) return {};
    ClosestName closest(*flag.word);
    bool is_known = false;
    std::string all;
    for (auto const word : flag.words) {
        is_known = is_known || equal_ignoring_case(word, *flag.word);
        closest.offer(word);
        all += (all.empty() ? "" : ", ") + std::string(word);
    }
    if (!is_known) {
        auto const best = closest.best();
        return Error{ErrorCode::unknown_name}
            .in(flag.flag)
            .at(*flag.word)
            .because("is not one of its values")
            .fix((best.empty() ? "" : "did you mean " + std::string(best) + "? ") + "use one of " + all);
    }
    bool const runs = std::any_of(flag.running.begin(), flag.running.end(),
                                  [&](auto word) { return equal_ignoring_case(word, *flag.word); });
    if (runs) return {};
    return Error{refused(flag.flag, flag.reason, flag.advice)}.at(*flag.word);
}

[[nodiscard]] Result<> check_words(Arguments const& arguments) {
    for (auto const& flag :
         {WordFlag{"--precision", arguments.precision, precision_words, precision_words, {}, {}},
          WordFlag{"--zero", arguments.zero, zero_words, zero_words, {}, {}},
          WordFlag{"--offload", arguments.offload, words_of<offload_choices>, words_of<offload_choices>, {}, {}},
          WordFlag{"--mode", arguments.mode, train_mode_words, train_mode_words, {}, {}},
          WordFlag{"--pipeline", arguments.pipeline, pipeline_words, pipeline_words, {}, {}},
          WordFlag{"--ranks", arguments.ranks, words_of<rank_kind_choices>, words_of<rank_kind_choices>, {}, {}}}) {
        if (auto const checked = check_word(flag); !checked) return checked;
    }
    return {};
}

[[nodiscard]] Result<> check_switches(Arguments const& arguments) {
    if (arguments.optimizer && equal_ignoring_case(*arguments.optimizer, "muon"))
        return Error{refused("--optimizer",
                             "does not run yet: its step needs each matrix whole, and ranks share matrices",
                             "use adamw, sgd or adam8bit")}
            .at(*arguments.optimizer);
    if (arguments.tune && arguments.micro_batch && !equal_ignoring_case(*arguments.micro_batch, "auto"))
        return Error{ErrorCode::invalid_argument}
            .in("--tune, --micro-batch")
            .because("exclude each other: there is one size to take")
            .fix("leave one of them out");
    return {};
}

[[nodiscard]] Result<> check_adapters(Arguments const& arguments) {
    if (!arguments.quant || arguments.lora) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--quant")
        .because("packs the weights that an adapter leaves as they are, and all are trained here")
        .fix("add --lora R, or leave it out");
}

/// Whether a word of --mode and the degrees say the same.
[[nodiscard]] Result<> check_mode(Arguments const& arguments) {
    bool const has_stages = arguments.pp && *arguments.pp != "1";
    bool const has_tensor = arguments.tp && *arguments.tp != "1";
    bool const has_ranks = has_tensor || has_stages || (arguments.dp && *arguments.dp != "1");
    auto const is_mode = [&](std::string_view word) {
        return arguments.mode && equal_ignoring_case(*arguments.mode, word);
    };
    if (is_mode("single") && has_ranks)
        return Error{ErrorCode::invalid_argument}
            .in(has_tensor   ? "--mode, --tp"
                : has_stages ? "--mode, --pp"
                             : "--mode, --dp")
            .because("exclude each other: single is one rank")
            .fix("leave one of them out");
    if (is_mode("data_parallel") && !arguments.dp)
        return Error{ErrorCode::invalid_argument}
            .in("--mode data_parallel")
            .because("does not say how many ranks")
            .fix("add --dp N");
    if (is_mode("distributed") && arguments.ranks && equal_ignoring_case(*arguments.ranks, "threads"))
        return Error{ErrorCode::invalid_argument}
            .in("--mode, --ranks")
            .because("exclude each other: distributed ranks are processes")
            .fix("leave one of them out, or use --mode data_parallel");
    if ((is_mode("data_parallel") || is_mode("distributed")) && (has_tensor || has_stages))
        return Error{ErrorCode::invalid_argument}
            .in(has_tensor ? "--mode, --tp" : "--mode, --pp")
            .because(has_tensor ? "exclude each other: data-parallel ranks have whole layers"
                                : "exclude each other: data-parallel ranks have all layers")
            .fix("leave one of them out, or use --mode hybrid");
    if (is_mode("hybrid") && !has_tensor && !has_stages)
        return Error{ErrorCode::invalid_argument}
            .in("--mode hybrid")
            .because("does not say how many ranks share each layer, or the layers")
            .fix("add --tp N or --pp N");
    return {};
}

/// A flag of other programs, and why it is none here.
struct UntrainedFlag {
    std::string_view flag;
    std::string_view reason;
    std::string_view advice;
};

constexpr std::string_view cut_sequences =
    "does not train yet: ranks that each have a piece of a sequence would sum gradients in another order than one rank";

/// Of flags that other programs and commands have.
constexpr std::string_view no_map = "places layers of a run, and training divides them evenly by --tp, --pp and --zero";
constexpr std::array untrained_flags{
    UntrainedFlag{"--ep", "does not train yet: routed experts have no gradient", "use --dp, --tp or --pp"},
    UntrainedFlag{"--cp", cut_sequences, "use --dp, --tp or --pp, and --recompute for long sequences"},
    UntrainedFlag{"--context-parallel", cut_sequences, "use --dp, --tp or --pp, and --recompute for long sequences"},
    UntrainedFlag{"--sequence-parallel", cut_sequences, "use --tp without it, and --recompute for less memory"},
    UntrainedFlag{"--attention-dropout", "does not train yet: scores of attention are never dropped",
                  "use --dropout, which is of what embeddings, attention and feed-forward give"},
    UntrainedFlag{"--device-map", no_map, "use --pp for stages, --offload for files, and --mode auto to choose"},
    UntrainedFlag{"--max-memory", no_map,
                  "see --dry-run for what ranks take, and use --offload, --recompute or a smaller --micro-batch"},
    UntrainedFlag{"--comm", "does not train yet: ranks exchange in the host's memory, over MPI or over Gloo",
                  "use --ranks, or a launcher"},
};

}  // namespace

std::optional<Error> untrained_flag(std::string_view word) {
    auto const flag = word.substr(0, word.find('='));
    for (auto const& one : untrained_flags) {
        if (one.flag == flag) return refused(one.flag, one.reason, one.advice);
    }
    return std::nullopt;
}

void let_flags_win(Arguments const& flags, Arguments& arguments) {
    if (arguments.steps && arguments.epochs && !(flags.steps && flags.epochs))
        (flags.epochs ? arguments.steps : arguments.epochs).reset();
    if (!arguments.tune || !arguments.micro_batch || (flags.tune && flags.micro_batch)) return;
    if (flags.tune) {
        arguments.micro_batch.reset();
    } else {
        arguments.tune = false;
    }
}

Result<> check_trained(Arguments const& arguments) {
    for (auto const& checked :
         {check_words(arguments), check_switches(arguments), check_adapters(arguments), check_mode(arguments)}) {
        if (!checked) return checked;
    }
    // What trains is the host, whatever else there is.
    if (!arguments.devices || equal_ignoring_case(*arguments.devices, "cpu") ||
        equal_ignoring_case(*arguments.devices, "auto"))
        return {};
    return Error{ErrorCode::no_such_device}
        .in("--devices")
        .at(*arguments.devices)
        .because("does not train: gradients have kernels for the host only")
        .fix("leave it out, or use cpu");
}

}  // namespace shardwise::cli
