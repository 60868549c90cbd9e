// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/text.hpp>
#include <shardwise/model/files/tree_json.hpp>
#include <shardwise/model/files/tree_limits.hpp>
#include <shardwise/model/tree_totals.hpp>

#include "commands.hpp"
#include "custom_map.hpp"
#include "load_model.hpp"
#include "map_plan.hpp"
#include "map_profile.hpp"
#include "model_facts.hpp"
#include "progress.hpp"
#include "svg_picture.hpp"

#include <utility>

namespace shardwise::cli {

namespace {

/// What is mapped: a model, or only its tree.
struct Subject {
    std::optional<LoadedModel> model;
    ModuleTree own_tree;

    [[nodiscard]] ModuleTree const& tree() const { return model ? model->model.tree : own_tree; }
    [[nodiscard]] bool has_program() const { return model && model->has_program(); }
};

[[nodiscard]] Result<Subject> load_subject(Arguments const& arguments, MapAnswer& answer, Observer const& observer) {
    Subject subject;
    if (arguments.model) {
        auto loaded = load_model(*arguments.model, observer);
        if (!loaded) return loaded.error();
        subject.model = *std::move(loaded);
        answer.warnings = std::move(subject.model->warnings);
        answer.model = subject.model->name;
        answer.architecture = subject.model->architecture();
        if (!subject.model->has_program())
            answer.warnings.push_back("the architecture is unknown: only weights and buffers are counted");
    } else {
        auto file = read_tree_file(*arguments.tree);
        if (!file) return file.error();
        subject.own_tree = std::move(file->tree);
        answer.warnings = std::move(file->warnings);
        answer.model = *arguments.tree;
    }
    answer.parameters = count_parameters(subject.tree());
    if (subject.model) answer.part_note = part_note(subject.model->model.config);
    return subject;
}

/// The classes to keep whole; names of no class are warned about.
[[nodiscard]] List<std::string_view> no_split_classes(MapRequest const& request, Subject const& subject,
                                                      MapAnswer& answer) {
    auto const& tree = subject.tree();
    if (!request.no_split) return subject.model ? tree.no_split_classes() : List<std::string_view>{};
    List<std::string_view> classes;
    for (auto const& name : *request.no_split) {
        ClosestName closest(std::string_view{name}.substr(0, 128));
        bool is_found = false;
        for (auto const& module : tree.modules()) {
            is_found = is_found || module.class_name == name;
            if (!is_found && module.class_name.size() <= 128) closest.offer(module.class_name);
        }
        classes.push_back(name);
        if (is_found) continue;
        auto warning = "--no-split: the model has no class " + escaped(name);
        if (!closest.best().empty()) warning += "; did you mean " + escaped(closest.best()) + "?";
        answer.warnings.push_back(warning);
    }
    return classes;
}

[[nodiscard]] Result<> check_subject(MapRequest const& request, Subject const& subject) {
    bool const is_bare = !subject.has_program();
    bool const has_objective = request.objective != Objective::load;
    if (is_bare && has_objective && !request.profile) {
        return Error{ErrorCode::invalid_argument}
            .in("--objective")
            .at(name_of(request.objective))
            .because("needs the model's operations, and a tree has none")
            .fix("use --objective load, or measured times: --profile FILE");
    }
    bool const is_of_model =
        request.inverse == Inverse::context || request.inverse == Inverse::batch || request.inverse == Inverse::quant;
    if (is_bare && is_of_model) {
        return Error{ErrorCode::unsupported}
            .in("--max")
            .because("the architecture is unknown, so that only weights are known")
            .fix("use --max devices");
    }
    return {};
}

void describe_question(MapRequest const& request, Subject const& subject, MapAnswer& answer) {
    bool const is_own = request.dialect == MapDialect::shardwise;
    auto const& estimate = request.estimate;
    if (estimate.quant) answer.quant = shardwise::name_of(*estimate.quant).view();
    std::string const strategy =
        "strategy " + std::string(name_of(request.strategy)) +
        (is_own ? "" : ", dialect " + std::string(name_of(request.dialect))) +
        (is_own || estimate.utilization < 1.0 ? utilization_text(request.devices, estimate.utilization)
                                              : std::string());
    if (!is_own || !subject.has_program()) {
        if (estimate.dtype) answer.dtype = traits(*estimate.dtype).short_name;
        answer.question = "weights and buffers only, " +
                          (answer.dtype.empty() ? std::string("as stored") : "in " + answer.dtype) + "; " + strategy;
        return;
    }
    auto const& config = subject.model->model.config;
    answer.context = context_of(estimate, config);
    answer.batch = estimate.batch;
    answer.dtype = traits(estimate.dtype.value_or(config.dtype_or(Dtype::f32))).short_name;
    answer.kv_dtype = traits(kv_dtype_of(estimate, config)).short_name;
    answer.prefill_chunk = prefill_chunk_of(*subject.model, estimate);
    answer.question = question_of(*subject.model, estimate) + "; " + strategy;
    if (auto const warning = context_warning(config, answer.context); !warning.empty())
        answer.warnings.push_back(warning);
    if (auto const warning = quant_warning(*subject.model, estimate); !warning.empty())
        answer.warnings.push_back(warning);
}

[[nodiscard]] Result<> answer_map(Arguments const& arguments, MapRequest& request, MapAnswer& answer,
                                  Observer const& observer) {
    auto subject = load_subject(arguments, answer, observer);
    observer("placing", 0, 0);
    if (!subject) return subject.error();
    for (auto const& warning : request.warnings) answer.warnings.push_back(warning);
    if (auto const checked = check_subject(request, *subject); !checked) return checked.error();
    if (subject->model) request.estimate = as_published(request.estimate, subject->model->model.config);
    auto const classes = no_split_classes(request, *subject, answer);
    if (request.no_split) {
        if (auto const checked = check_placement_memory(subject->tree(), classes); !checked) {
            auto error = checked.error();
            return error.fix("keep larger modules whole: --no-split CLASS");
        }
    }
    if (request.dialect != MapDialect::shardwise) {
        if (auto const planned = plan_dialect_map(subject->tree(), classes, request, answer); !planned)
            return planned.error();
        describe_question(request, *subject, answer);
        return {};
    }
    List<MapEntry> custom;
    if (request.strategy == MapStrategy::custom) {
        auto entries = read_custom_map(*arguments.custom);
        if (!entries) return entries.error();
        custom = *std::move(entries);
    }
    auto const task = subject->has_program() ? PlacementTask(subject->model->model, classes)
                                             : PlacementTask(subject->tree(), classes);
    if (auto const planned = plan_map(task, request, custom, answer); !planned) return planned.error();
    describe_question(request, *subject, answer);
    return {};
}

}  // namespace

ExitCode run_map(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_picture_path(arguments); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    auto request = read_map_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    if (auto const read = read_profile_option(arguments, *request); !read) {
        bool const is_usage = read.error().code() == ErrorCode::invalid_argument;
        return report(read.error(), is_usage ? Stage::arguments : Stage::work, arguments.json);
    }
    MapAnswer answer;
    answer.profile = arguments.profile.value_or(std::string());
    auto const answered = with_progress(
        *color, [&](Observer const& observer) { return answer_map(arguments, *request, answer, observer); });
    if (!answered) {
        bool const is_usage = answered.error().code() == ErrorCode::invalid_argument;
        return report(answered.error(), is_usage ? Stage::arguments : Stage::work, arguments.json);
    }
    if (arguments.svg) {
        auto const written = write_picture(*arguments.svg, map_picture(*request, answer));
        if (!written) return report(written.error(), Stage::work, arguments.json);
    }
    print_warnings(answer.warnings);
    print_text(arguments.json ? map_json(*request, answer) : map_text(*request, answer, style_of_stdout(*color)));
    return answer.fits ? ExitCode::done : ExitCode::does_not_fit;
}

}  // namespace shardwise::cli
