// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>

#include "commands.hpp"
#include "estimate_answer.hpp"
#include "load_model.hpp"
#include "model_facts.hpp"
#include "progress.hpp"
#include "requests.hpp"

#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] ExitCode print_estimate(Arguments const& arguments, EstimateRequest request, ColorMode mode) {
    auto const fail = [&](Error const& error) {
        // Flags that do not go together are wrong usage, whatever the library calls them.
        bool const is_usage = error.code() == ErrorCode::invalid_argument || error.subject().substr(0, 2) == "--";
        return report(error, is_usage ? Stage::arguments : Stage::work, arguments.json);
    };
    auto const loaded =
        with_progress(mode, [&](Observer const& observer) { return load_known_model(*arguments.model, observer); });
    if (!loaded) return fail(loaded.error());
    request = as_published(request, loaded->model.config);
    auto estimate = estimate_memory(loaded->model, request);
    if (!estimate) return fail(in_flags(estimate.error()));
    EstimateAnswer answer{
        .loaded = *loaded, .request = request, .estimate = *std::move(estimate), .warnings = loaded->warnings};
    answer.trained = estimate_trained(*loaded, request, answer.estimate.context);
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
    return print_estimate(arguments, *request, *color);
}

}  // namespace shardwise::cli
