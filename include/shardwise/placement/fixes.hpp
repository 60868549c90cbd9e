// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/placement/inverse.hpp>
#include <shardwise/placement/placement_task.hpp>
#include <shardwise/placement/quant_ladder.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

enum class FixKind : std::uint8_t {
    kv_dtype,  // a narrower element type of the key-value cache
    context,   // fewer tokens of context
    dtype,     // a narrower element type of the weights
    quant,     // a quantisation of the weights
    devices,   // more devices like the last accelerator
    offload,   // (more) memory of the cpu
};

[[nodiscard]] constexpr std::string_view name_of(FixKind kind) {
    switch (kind) {
        case FixKind::kv_dtype:
            return "kv_dtype";
        case FixKind::context:
            return "context";
        case FixKind::dtype:
            return "dtype";
        case FixKind::quant:
            return "quant";
        case FixKind::devices:
            return "devices";
        case FixKind::offload:
            return "offload";
    }
    return "unknown";
}

/// The smallest change of one kind with which a plan fits: a smaller one of its kind does not suffice.
struct Fix {
    FixKind kind = FixKind::context;
    /// context: its tokens; devices: how many more; offload: bytes that the cpu holds; else 0.
    std::int64_t amount = 0;
    /// Of the weights, or of the cache.
    Optional<Dtype> dtype;
    Optional<QuantScheme> quant;
    /// What it saves or adds.
    Bytes change{};
};

/// More devices than this are no fix.
inline constexpr std::int64_t max_added_devices = 4096;

/// The least n in [1, most] for which holds(n) is true, nothing where none is; holds must stay true once it is.
template <class Holds>
[[nodiscard]] constexpr Optional<std::int64_t> smallest_that(std::int64_t most, Holds holds) {
    std::int64_t bad = 0;
    std::int64_t good = 1;
    while (good < most && !holds(good)) bad = good, good = good * 2 < most ? good * 2 : most;
    if (good >= most && !holds(most)) return std::nullopt;
    while (good - bad > 1) {
        auto const middle = bad + (good - bad) / 2;
        (holds(middle) ? good : bad) = middle;
    }
    return good;
}

/// `devices` with `count` more like their last accelerator, numbered on, before cpu and disk; as they are where there is none.
[[nodiscard]] inline std::vector<Device> with_more_devices(Span<Device const> devices, std::int64_t count) {
    std::vector<Device> more(devices.begin(), devices.end());
    std::size_t end = 0;
    while (end < more.size() && more[end].id.is_accelerator()) ++end;
    if (end == 0) return more;
    auto added = more[end - 1];
    for (std::int64_t k = 0; k < count; ++k) {
        if (added.id.kind == DeviceClass::gpu) ++added.id.index;
        more.insert(more.begin() + static_cast<std::ptrdiff_t>(end++), added);
    }
    return more;
}

namespace detail {

/// What the units take on one device that holds them all.
[[nodiscard]] constexpr Bytes whole_size(ModuleSequence const& modules) {
    Bytes resident{};
    Bytes workspace{};
    for (auto const& unit : modules.units) {
        resident += unit.resident();
        if (workspace < unit.workspace) workspace = unit.workspace;
    }
    return resident + workspace;
}

/// Tries the kinds of fixes one by one.
class FixSearch {
public:
    FixSearch(PlacementTask const& task, Span<Device const> devices, EstimateRequest const& request)
        : task_(task),
          devices_(devices),
          request_(task.model() != nullptr ? as_published(request, task.model()->config) : request),
          modules_(task.sequence(request)),
          size_(whole_size(modules_)) {}

    std::vector<Fix> run() {
        bool const has_model = task_.model() != nullptr;
        if (has_model) try_kv_dtype();
        try_dtype(16);
        if (has_model) try_quant(8);
        try_dtype(8);
        if (has_model) try_context();
        if (has_model) try_quant(1);
        try_dtype(1);
        try_devices();
        try_offload();
        return std::move(fixes_);
    }

private:
    /// What `changed` saves, where it fits; nothing where it does not.
    Optional<Bytes> saved_by(EstimateRequest const& changed) const {
        auto const sequence = task_.sequence(changed);
        auto const size = whole_size(sequence);
        if (size >= size_ || !fits_in_order(sequence, task_.budgets(devices_, changed))) return std::nullopt;
        return size_ - size;
    }

    bool has(FixKind kind) const {
        for (auto const& fix : fixes_) {
            if (fix.kind == kind) return true;
        }
        return false;
    }

    void try_kv_dtype() {
        for (auto const dtype : {Dtype::bf16, Dtype::f8_e4m3}) {
            auto changed = request_;
            changed.kv_dtype = dtype;
            if (auto const saved = saved_by(changed)) return fixes_.push_back({FixKind::kv_dtype, 0, dtype, {}, *saved});
        }
    }
    void try_context() {
        auto const now = context_of(request_, task_.model()->config);
        auto changed = request_;
        auto const fits_with = [&](std::int64_t context) {
            changed.context = context;
            return context < now && fits_in_order(task_.sequence(changed), task_.budgets(devices_, changed));
        };
        auto const context = largest_that(fits_with);
        if (context == 0) return;
        changed.context = context;
        if (auto const saved = saved_by(changed)) fixes_.push_back({FixKind::context, context, {}, {}, *saved});
    }
    /// The widest type of at least so many bits; below 16 bits a model has schemes.
    void try_dtype(std::int64_t min_bits) {
        if (request_.quant || has(FixKind::dtype)) return;
        bool const is_bare = task_.model() == nullptr;
        for (auto const dtype : {Dtype::bf16, Dtype::f8_e4m3, Dtype::i4}) {
            if (bits(dtype) < min_bits || (dtype != Dtype::bf16 && !is_bare)) break;
            auto changed = request_;
            changed.dtype = dtype;
            if (auto const saved = saved_by(changed)) return fixes_.push_back({FixKind::dtype, 0, dtype, {}, *saved});
        }
    }
    /// The mildest scheme of at least so many bits.
    void try_quant(std::int64_t min_bits) {
        if (has(FixKind::quant)) return;
        for (auto const& scheme : smaller_schemes(*task_.model(), request_)) {
            if (nominal_bits(scheme) < min_bits) break;
            auto changed = request_;
            changed.quant = scheme;
            if (auto const saved = saved_by(changed)) return fixes_.push_back({FixKind::quant, 0, {}, scheme, *saved});
        }
    }
    void try_devices() {
        std::size_t accelerators = 0;
        while (accelerators < devices_.size() && devices_[accelerators].id.is_accelerator()) ++accelerators;
        if (accelerators == 0 || devices_[accelerators - 1].id.kind != DeviceClass::gpu) return;
        auto const fits_with = [&](std::int64_t count) {
            return fits_in_order(modules_, task_.budgets(with_more_devices(devices_, count), request_));
        };
        auto const count = smallest_that(max_added_devices, fits_with);
        if (!count) return;
        fixes_.push_back(
            {FixKind::devices, *count, {}, {}, *count * devices_[accelerators - 1].usable(request_.utilization)});
    }
    /// The cpu with as much memory as it takes: what it then holds is what it needs.
    void try_offload() {
        std::vector<Device> devices(devices_.begin(), devices_.end());
        auto place = devices.begin();
        while (place != devices.end() && place->id < DeviceId::cpu()) ++place;
        bool const is_there = place != devices.end() && place->id == DeviceId::cpu();
        auto const before = is_there ? place->available() : Bytes{};
        if (!is_there) {
            Device cpu;
            cpu.id = DeviceId::cpu();
            place = devices.insert(place, cpu);
        }
        place->memory = Bytes{INT64_MAX / 2};
        place->memory_free = Bytes{-1};
        auto const budgets = task_.budgets(devices, request_);
        auto const filling = fill_in_order(modules_.units, 0, modules_.units.size(), budgets, capacities_of(budgets));
        if (filling.placed < modules_.units.size()) return;
        auto const used = used_bytes(modules_, budgets, to_placement(filling, modules_.units.size()));
        auto const on_cpu = used[static_cast<std::size_t>(place - devices.begin())];
        fixes_.push_back({FixKind::offload, on_cpu.count(), {}, {}, on_cpu - before});
    }

    PlacementTask const& task_;
    Span<Device const> devices_;
    EstimateRequest request_;
    ModuleSequence modules_;
    Bytes size_;
    std::vector<Fix> fixes_;
};

}  // namespace detail

/// The changes with which a task that does not fit would fit: at most one of each kind, each the smallest of its kind that
/// suffices. No type is wider than what it replaces.
///
/// Order   what costs least of the answers' quality first: a narrower cache, weights in 16 bits, in 8 bits, a shorter context,
///         weights of fewer bits; then what costs none but money or time: more devices, the cpu
/// Errors  as PlacementTask::check
[[nodiscard]] inline Result<std::vector<Fix>> find_fixes(PlacementTask const& task, Span<Device const> devices,
                                                         EstimateRequest const& request) {
    if (auto const checked = task.check(request); !checked) return checked.error();
    return detail::FixSearch(task, devices, request).run();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
