// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/max_memory.hpp>

#include "choices.hpp"
#include "model_facts.hpp"
#include "plan_answer.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardwise::cli {

namespace {

constexpr std::size_t max_rows = 32;

/// Ranks of one stage that hold the same on devices of one kind.
struct RankGroup {
    PlanRank const* first = nullptr;
    std::vector<DeviceId> devices;
};

[[nodiscard]] std::vector<RankGroup> grouped_ranks(PlanAnswer const& answer) {
    std::vector<RankGroup> groups;
    for (auto const& rank : answer.plan->ranks) {
        auto const& device = answer.device_of(rank);
        // Ranks that are alike mostly follow each other: look from the end.
        auto group = groups.rbegin();
        for (; group != groups.rend() && group->first->place.pp == rank.place.pp; ++group) {
            auto const& other = answer.device_of(*group->first);
            if (group->first->terms == rank.terms && other.name.view() == device.name.view() &&
                other.memory == device.memory && other.available() == device.available())
                break;
        }
        if (group == groups.rend() || group->first->place.pp != rank.place.pp) {
            groups.push_back({&rank, {}});
            group = groups.rbegin();
        }
        group->devices.push_back(device.id);
    }
    return groups;
}

/// "0-7, 16-23".
[[nodiscard]] std::vector<std::string> folded_ids(std::vector<DeviceId> ids) {
    std::sort(ids.begin(), ids.end(), [](DeviceId a, DeviceId b) { return a.index < b.index; });
    std::vector<std::string> out;
    for (std::size_t i = 0; i < ids.size();) {
        auto last = i;
        while (last + 1 < ids.size() && ids[last + 1].kind == ids[i].kind && ids[last + 1].index == ids[last].index + 1)
            ++last;
        out.push_back(device_key(ids[i]) + (last > i ? "-" + device_key(ids[last]) : ""));
        i = last + 1;
    }
    return out;
}

[[nodiscard]] std::string ids_text(RankGroup const& group) {
    auto const ids = folded_ids(group.devices);
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < ids.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + ids[i];
    return ids.size() > most ? text + ", ..." : text;
}

[[nodiscard]] std::string memory_text(MemoryTerms const& terms, Bytes capacity) {
    return to_text(terms.total()) + " of " + to_text(capacity);
}

[[nodiscard]] std::vector<BarPart> parts_of(MemoryTerms const& terms) {
    return {{terms.weights, "\u2588", "34"},   {terms.kv_cache, "\u2593", "36"},  {terms.activations, "\u2592", "33"},
            {terms.gradients, "\u2593", "32"}, {terms.optimizer, "\u2588", "31"}, {terms.overhead, "\u2591", "35"}};
}

/// A row for each group of ranks: devices, memory, what of the model it holds.
[[nodiscard]] std::string picture(PlanAnswer const& answer, Style const& style) {
    auto const groups = grouped_ranks(answer);
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < groups.size() && i < max_rows; ++i) {
        auto const& rank = *groups[i].first;
        auto const capacity = answer.capacity_of(rank);
        auto const share = 100.0 * static_cast<double>(rank.terms.total().count()) /
                           static_cast<double>(std::max<std::int64_t>(capacity.count(), 1));
        auto const& stage = answer.plan->stages[static_cast<std::size_t>(rank.place.pp)];
        auto const place = answer.plan->stages.size() > 1 ? "stage " + grouped(rank.place.pp) + ": " : std::string();
        rows.push_back({ids_text(groups[i]), escaped(answer.device_of(rank).name.view()),
                        bar(parts_of(rank.terms), capacity, device_bar_width, style), memory_text(rank.terms, capacity),
                        decimals(share, 1) + " %", place + describe_stage(stage)});
    }
    std::vector<std::size_t> widths(6, 0);
    for (auto const& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
    }
    std::string out;
    for (auto const& row : rows) {
        out += aligned_right(row[0], widths[0]) + "  " + padded(row[1], widths[1]) + "  " + row[2] + "  " +
               aligned_right(row[3], widths[3]) + "  " + aligned_right(row[4], widths[4]) + "  " + row[5] + "\n";
    }
    if (groups.size() > max_rows)
        out += "... and " + grouped(static_cast<std::int64_t>(groups.size() - max_rows)) +
               " more groups of ranks: --json lists every rank\n";
    return out;
}

[[nodiscard]] std::string legend(PlanAnswer const& answer, Style const& style) {
    MemoryTerms sum;
    for (auto const& rank : answer.plan->ranks) sum += rank.terms;
    static constexpr std::string_view names[] = {"weights",   "kv cache",  "activations",
                                                 "gradients", "optimizer", "overhead"};
    std::string out;
    auto const parts = parts_of(sum);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].size <= Bytes{}) continue;
        out += (out.empty() ? "" : "   ") + style.paint(parts[i].color, parts[i].glyph) + " " + std::string(names[i]) +
               " " + to_text(parts[i].size);
    }
    return out.empty() ? out : out + "\n";
}

[[nodiscard]] std::string spaced(std::string_view name) {
    std::string out{name};
    std::replace(out.begin(), out.end(), '_', ' ');
    return out;
}

/// Every term that takes time, of the step and of the prefill.
[[nodiscard]] std::string cost_table(PlanAnswer const& answer, Style const& style) {
    auto const& cost = answer.plan->cost;
    bool const has_prefill = cost.prefill.total() > 0.0;
    auto const words = step_words(answer);
    std::vector<std::string> head{"time", std::string(words.head), ""};
    if (has_prefill) head.insert(head.end(), {"all prompts", ""});
    Table table(head);
    auto const share = [](double part, double whole) {
        return whole > 0.0 ? decimals(100.0 * part / whole, 1) + " %" : std::string();
    };
    auto const add = [&](std::string const& name, double step, double prefill) {
        std::vector<std::string> row{name, duration(step), share(step, cost.step.total())};
        if (has_prefill) row.insert(row.end(), {duration(prefill), share(prefill, cost.prefill.total())});
        table.add(row);
    };
    for (auto const& [name, term] : CostTerms::cost_term_names()) {
        if (cost.step.*term > 0.0 || (has_prefill && cost.prefill.*term > 0.0))
            add(spaced(name), cost.step.*term, cost.prefill.*term);
    }
    add("total", cost.step.total(), cost.prefill.total());
    return table.text(style) + std::string(words.done) + ": " +
           style.bold(grouped(static_cast<std::int64_t>(cost.tokens_per_second + 0.5)) + " tokens per second") +
           (answer.plan->degrees.dp > 1 ? " on all replicas together" : "") + "\n";
}

[[nodiscard]] std::string percent_text(double share) {
    return decimals(100.0 * share, share < 0.1 ? 1 : 0) + " % ";
}

[[nodiscard]] std::string loss_text(PlanAlternative const& other, PlanCost const& chosen, PlanObjective objective) {
    auto const percent = percent_text(other.loss);
    switch (objective) {
        case PlanObjective::latency:
            return percent + "slower";
        case PlanObjective::throughput:
            return percent + "fewer tokens";
        case PlanObjective::devices:
            if (other.loss > 0.0) return percent + "more devices";
            return "as many devices, " + percent_text(other.cost.step.total() / chosen.step.total() - 1.0) + "slower";
    }
    return percent;
}

[[nodiscard]] std::string alternatives_text(PlanAnswer const& answer, Style const& style) {
    auto const& plan = *answer.plan;
    if (plan.alternatives.empty()) return {};
    auto out = "\n" + style.bold("runners-up") + "\n";
    auto const step = " " + std::string(step_words(answer).once) + ", ";
    // The first even one of them is the best.
    bool is_even_known = plan.is_even;
    for (auto const& other : plan.alternatives) {
        bool const is_best_even = other.is_even && !is_even_known;
        is_even_known = is_even_known || other.is_even;
        out += "  - " + describe_degrees(other.degrees) + (is_best_even ? " (the best even plan)" : "") + ": " +
               loss_text(other, plan.cost, answer.request.objective) + " (" + duration(other.cost.step.total()) + step +
               grouped(static_cast<std::int64_t>(other.cost.tokens_per_second + 0.5)) + " tokens/s, fullest rank " +
               to_text(other.largest_rank) + ")" + (other.reason.empty() ? "" : ": " + other.reason) + "\n";
    }
    return out;
}

}  // namespace

std::string plan_text(PlanAnswer const& answer, Style const& style) {
    auto out = style.bold(escaped(answer.loaded.name)) + ", " +
               short_count(count_parameters(answer.loaded.model.tree)) + " parameters" +
               std::string(part_note(answer.loaded.model.config)) + ", on " + describe_devices(answer.topology) + "\n";
    auto const training = answer.adapter ? "; training an adapter of rank " + std::to_string(answer.adapter->rank) +
                                               ", " + grouped(answer.adapter->parameters) + " parameters"
                          : answer.request.estimate.training ? std::string("; training")
                                                             : std::string();
    out += style.dim(question_of(answer.loaded, answer.asked()) + training + "; objective " +
                     std::string(shardwise::name_of(answer.request.objective)) +
                     utilization_text(answer.topology.devices, answer.request.estimate.utilization)) +
           "\n\n";
    if (!answer.plan) {
        out += style.bad("does not fit") + (answer.reason.empty() ? "" : ": " + answer.reason) + "\n";
        if (!answer.fixes.empty()) out += "\nany of these makes it fit:\n";
        for (auto const& fix : answer.fixes) out += "  - " + fix.text + "\n";
        return out;
    }
    auto const& plan = *answer.plan;
    auto const used = static_cast<std::int64_t>(plan.ranks.size());
    auto const given = static_cast<std::int64_t>(answer.topology.accelerators().size());
    auto degrees = describe_degrees(plan.degrees);
    if (plan.is_sequence_parallel && plan.degrees.tp > 1) degrees += ", sequence parallel";
    if (answer.request.estimate.training) degrees += ", recompute " + std::string(recompute_word(plan.recompute));
    out += style.good(degrees);
    if (used != given) out += ": " + grouped(used) + " of " + counted(given, "device");
    out += "\n";
    if (answer.is_batch_chosen)
        out += "  - batch " + grouped(answer.request.estimate.batch) +
               ": chosen, because none was given: the most tokens per second that fit\n";
    for (auto const& reason : plan.reasons) out += "  - " + reason + "\n";
    out += "\n" + picture(answer, style);
    if (auto const text = legend(answer, style); !text.empty()) out += "\n" + text;
    out += "\n" + cost_table(answer, style) + alternatives_text(answer, style);
    out += "\n" +
           style.dim(counted(plan.examined, "way") + " to cut it, " + grouped(plan.too_large) + " found too large") +
           "\n";
    return out;
}

}  // namespace shardwise::cli
