// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>

#include "commands.hpp"
#include "estimate_answer.hpp"
#include "load_model.hpp"
#include "model_facts.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "train_adapter.hpp"

#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] ExitCode print_estimate(Arguments const& arguments, EstimateRequest request, LowRankOptions low_rank,
                                      ColorMode mode) {
    auto const fail = [&](Error const& error) {
        // Flags that do not go together are wrong usage, whatever the library calls them.
        bool const is_usage = error.code() == ErrorCode::invalid_argument || error.subject().substr(0, 2) == "--";
        return report(error, is_usage ? Stage::arguments : Stage::work, arguments.json);
    };
    auto loaded =
        with_progress(mode, [&](Observer const& observer) { return load_known_model(*arguments.model, observer); });
    if (!loaded) return fail(loaded.error());
    if (auto const held = hold_base(*loaded, request.quant, low_rank); !held) return fail(held.error());
    request = as_published(request, loaded->model.config);
    // Training with an adapter is counted as it is allocated alone; of the model the weights are those that stay as they are.
    auto counted = request;
    if (low_rank.rank > 0) counted.training.reset();
    auto estimate = estimate_memory(loaded->model, counted);
    if (!estimate) return fail(in_flags(estimate.error()));
    EstimateAnswer answer{
        .loaded = *loaded, .request = request, .estimate = *std::move(estimate), .warnings = loaded->warnings};
    answer.low_rank = std::move(low_rank);
    answer.trained = estimate_trained(*loaded, request, answer.estimate.context, answer.low_rank);
    if (answer.low_rank.rank > 0 && !answer.trained->refusal.empty()) {
        auto const reason = "shardwise train does not run this: " + answer.trained->refusal;
        return report(Error{ErrorCode::unsupported}.in("--lora").because(reason), Stage::work, arguments.json);
    }
    if (answer.trained) count_as_trained(*answer.trained, request.parallel, answer.estimate);
    for (auto const assumption : answer.estimate.assumptions) {
        if (!is_warning(assumption)) continue;
        auto const warning = assumption == Assumption::context_beyond_model
                                 ? context_warning(loaded->model.config, answer.estimate.context)
                                 : std::string(text_of(assumption));
        answer.warnings.push_back(warning);
    }
    if (auto const warning = quant_warning(*loaded, request); !warning.empty()) answer.warnings.push_back(warning);
    print_warnings(answer.warnings);
    print_text(arguments.json ? estimate_json(answer) : estimate_text(answer, style_of_stdout(mode)));
    return ExitCode::done;
}

}  // namespace

ExitCode run_estimate(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto const request = read_estimate_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    if (auto const given = check_model_given(arguments, "shardwise estimate llama-3-8b"); !given)
        return report(given.error(), Stage::arguments, arguments.json);
    auto const low_rank = read_low_rank(arguments);
    if (!low_rank) return report(low_rank.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_adapter(*low_rank, *request); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    return print_estimate(arguments, *request, *low_rank, *color);
}

}  // namespace shardwise::cli
