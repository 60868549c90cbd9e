// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/executes_models.hpp>
#include <shardwise/executor/training/ops/refusal.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/kernels/kernel_support.hpp>
#include <shardwise/op/visit_op.hpp>
#include <shardwise/parallel/device_collectives.hpp>
#include <shardwise/parallel/device_expert_parallel.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/parallel/strategy_support.hpp>
#include <shardwise/session/run_options.hpp>

#include "commands.hpp"
#include "requests.hpp"
#include "support_answer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

constexpr std::string_view no_backend = "there is no back end for it";
constexpr std::string_view no_body = "has no device body yet";
constexpr std::string_view by_expert = "is multiply there, of the rows of each expert";
constexpr std::string_view float_on_host = "computes activations in fp32";
constexpr std::string_view in_host_memory = "moves rows in the host's memory";

// What a run is cut by: the degrees that its options have.
template <class Options>
concept CutsTensors = requires(Options options) {
    options.tp;
};
template <class Options>
concept CutsLayers = requires(Options options) {
    options.pp;
};
template <class Options>
concept CutsExperts = requires(Options options) {
    options.ep;
};

/// Calls visit<Backend>(kind) for every back end, in the order of support_backends.
template <class Visit>
void for_each_backend(Visit const& visit) {
    visit(static_cast<AnyDevice*>(nullptr), DeviceKind::cuda);
    visit(static_cast<AnyDevice*>(nullptr), DeviceKind::hip);
    visit(static_cast<NoBackend*>(nullptr), DeviceKind::metal);
    visit(static_cast<Host*>(nullptr), DeviceKind::cpu);
}

/// A row of what `support_of(Backend*, kind)` gives for every back end.
template <class SupportOf>
[[nodiscard]] SupportRow row(std::string name, SupportOf const& support_of) {
    SupportRow made;
    made.name = std::move(name);
    std::size_t next = 0;
    for_each_backend([&](auto* backend, DeviceKind kind) { made.backends[next++] = support_of(backend, kind); });
    return made;
}

/// A strategy whose layers `has_layers` of a back end, and which `is_run` by a degree of RunOptions.
[[nodiscard]] Support strategy(bool has_layers, bool is_backend, bool is_run, std::string_view why) {
    if (!is_backend) return {SupportLevel::planned, no_backend};
    if (!has_layers) return {SupportLevel::planned, why};
    if (!is_run) return {SupportLevel::library, "is no degree of shardwise run"};
    return {SupportLevel::runs, {}};
}

[[nodiscard]] std::vector<SupportRow> strategies() {
    std::vector<SupportRow> rows;
    rows.push_back(row("run a model on one rank", []<class B>(B*, DeviceKind) -> Support {
        if constexpr (ExecutesModels<B>) return {SupportLevel::runs, {}};
        return {SupportLevel::planned, no_backend};
    }));
    rows.push_back(row("tensor parallel", []<class B>(B*, DeviceKind kind) -> Support {
        if (auto const refusal = tensor_parallel_refusal(kind); !refusal.empty())
            return {SupportLevel::refused, refusal};
        return strategy(ShardsTensors<B>, ComputeBackend<B>, CutsTensors<RunOptions>, no_body);
    }));
    rows.push_back(row("pipeline parallel", []<class B>(B*, DeviceKind) {
        return strategy(HandsOnStages<B>, ComputeBackend<B>, CutsLayers<RunOptions>, in_host_memory);
    }));
    rows.push_back(row("expert parallel", []<class B>(B*, DeviceKind) {
        return strategy(ExchangesExperts<B>, ComputeBackend<B>, CutsExperts<RunOptions>, in_host_memory);
    }));
    rows.push_back(row("data parallel, ZeRO", []<class B>(B*, DeviceKind) -> Support {
        if (HasHostMemory<B>) return {SupportLevel::runs, {}};
        return {SupportLevel::planned, ComputeBackend<B> ? "models train on the host only" : no_backend};
    }));
    rows.push_back(row("low-rank adapters", []<class B>(B*, DeviceKind) -> Support {
        if (ExecutesModels<B>) return {SupportLevel::runs, {}};
        return {SupportLevel::planned, ComputeBackend<B> ? "models run and train on the host only" : no_backend};
    }));
    return rows;
}

/// False for the kernel that training reaches on the host and nothing on a device.
[[nodiscard]] bool reached_on_devices(std::string_view kernel) {
    return kernel != "softmax";
}

/// False for what models call over floats alone, whatever their activations are: soft_cap bends logits.
[[nodiscard]] bool reached_in_halves(std::string_view kernel) {
    return reached_on_devices(kernel) && kernel != "soft_cap";
}

/// Why a kernel of the host's has no body on devices.
[[nodiscard]] std::string_view no_device_body(std::string_view kernel) {
    if (kernel == "attention") return "is step_attention there, of one sequence, too";
    if (kernel == "store_rows") return "is store_step there, of one sequence, too";
    bool const is_training = kernel.ends_with("_backward") || kernel == "dropout" || kernel == "head_cross_entropy";
    return is_training ? "models train on the host only" : no_body;
}

[[nodiscard]] std::vector<SupportRow> operations() {
    std::vector<SupportRow> rows;
    for (std::size_t i = 0; i < kernel_support<Host>.size(); ++i) {
        rows.push_back(row(std::string(kernel_support<Host>[i].name), [i]<class B>(B*, DeviceKind) -> Support {
            auto const& kernel = kernel_support<B>[i];
            if (kernel.is_there) {
                bool const is_reached = ExecutesModels<B> && !kernel.is_library_only &&
                                        (HasHostMemory<B> || reached_on_devices(kernel.name));
                return {is_reached ? SupportLevel::runs : SupportLevel::library, {}};
            }
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            return {SupportLevel::none, HasHostMemory<B> ? by_expert : no_device_body(kernel.name)};
        }));
    }
    rows.push_back(row("all_reduce", []<class B>(B*, DeviceKind) -> Support {
        if (ShardsTensors<B>) return {SupportLevel::runs, {}};
        if (ReducesOverPeers<B>) return {SupportLevel::library, {}};
        return {SupportLevel::none, no_backend};
    }));
    std::sort(rows.begin(), rows.end(), [](SupportRow const& a, SupportRow const& b) { return a.name < b.name; });
    return rows;
}

/// Operations over rows of activations in T.
template <class T>
[[nodiscard]] std::vector<SupportRow> operations_of() {
    std::vector<SupportRow> rows;
    for (std::size_t i = 0; i < kernel_support<Host>.size(); ++i) {
        if (!kernel_support<Host>[i].has_rows) continue;
        rows.push_back(row(std::string(kernel_support<Host>[i].name), [i]<class B>(B*, DeviceKind) -> Support {
            auto const& kernel = kernel_support<B, T>[i];
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            if (!kernel.is_there)
                return {SupportLevel::none, HasHostMemory<B> ? float_on_host : no_device_body(kernel.name)};
            bool const is_reached = !HasHostMemory<B> && !kernel.is_library_only && reached_in_halves(kernel.name);
            return {is_reached ? SupportLevel::runs : SupportLevel::library, {}};
        }));
    }
    rows.push_back(row("all_reduce", []<class B>(B*, DeviceKind) -> Support {
        if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
        return {HasHostMemory<B> ? SupportLevel::library : SupportLevel::runs, {}};
    }));
    std::sort(rows.begin(), rows.end(), [](SupportRow const& a, SupportRow const& b) { return a.name < b.name; });
    return rows;
}

[[nodiscard]] std::vector<SupportRow> weights() {
    std::vector<SupportRow> rows;
    for (auto const& each : weight_format_table) {
        rows.push_back(row(std::string(each.name), [format = each.format]<class B>(B*, DeviceKind) -> Support {
            if (HasHostMemory<B>) {
                return has_host_product(format) ? Support{SupportLevel::runs, {}}
                                                : Support{SupportLevel::none, no_body};
            }
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            if (has_device_products(format)) return {SupportLevel::runs, {}};
            return {SupportLevel::none, no_body};
        }));
    }
    return rows;
}

/// Products of activations in T by weights of every format, and whose kernels make them.
template <class T>
void add_products_of(std::vector<SupportRow>& rows, std::string_view element) {
    for (auto const& each : weight_format_table) {
        auto name = std::string(each.name) + " by " + std::string(element);
        rows.push_back(row(std::move(name), [format = each.format]<class B>(B*, DeviceKind kind) -> Support {
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            if (!detail::HasMultiply<B, T>) return {SupportLevel::none, HasHostMemory<B> ? float_on_host : no_body};
            if (HasHostMemory<B>) {
                if (!has_host_product(format)) return {SupportLevel::none, no_body};
                return std::same_as<T, float> ? Support{SupportLevel::runs, {}, "own"}
                                              : Support{SupportLevel::library, {}, "own"};
            }
            if (!has_device_products(format)) return {SupportLevel::none, no_body};
            // HIP has hipBLASLt where the build asks for it.
            bool has_vendor = kind == DeviceKind::cuda;
#if defined(SHARDWISE_HAS_HIPBLASLT)
            has_vendor = true;
#endif
            has_vendor = has_vendor && detail::is_vendor_format<T>(format);
            return {SupportLevel::runs, {}, has_vendor ? "own and vendor" : "own"};
        }));
    }
}
[[nodiscard]] std::vector<SupportRow> products() {
    std::vector<SupportRow> rows;
    add_products_of<float>(rows, "fp32");
    add_products_of<Bfloat16>(rows, "bf16");
    add_products_of<Float16>(rows, "fp16");
    return rows;
}

/// Which formats' products round activations under a policy; `why` says why others do not.
template <class Rounds>
[[nodiscard]] std::vector<SupportRow> rounded_activations(Rounds const& rounds, std::string_view why) {
    std::vector<SupportRow> rows;
    for (auto const& each : weight_format_table) {
        auto const is_rounding = rounds(each.format);
        rows.push_back(row(std::string(each.name), [is_rounding, why]<class B>(B*, DeviceKind) -> Support {
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            if (!HasHostMemory<B>) return {SupportLevel::none, no_body};
            return is_rounding ? Support{SupportLevel::runs, {}} : Support{SupportLevel::none, why};
        }));
    }
    return rows;
}

/// Why an operation is not trained; empty where it is.
[[nodiscard]] std::string_view refusal_of(Operation const& op) {
    std::array<Value, 1> const values{Value{.name = "in", .width = op.in_features}};
    auto const refusal = visit_op(op.kind, [&]<class Op>(Op) {
        return Op::gradient(op, {values.data(), values.size()}).refusal;
    });
    return refusal.empty() ? detail::training_refusal(op, values[0]) : refusal;
}

/// Parts of models, each as the operation that a block of one has.
[[nodiscard]] std::vector<SupportRow> trained_parts() {
    std::vector<SupportRow> rows;
    auto const add_refusal = [&](std::string name, std::string_view refusal) {
        rows.push_back(row(std::move(name), [refusal]<class B>(B*, DeviceKind) -> Support {
            if (!ComputeBackend<B>) return {SupportLevel::none, no_backend};
            if (!refusal.empty()) return {SupportLevel::refused, refusal};
            if (HasHostMemory<B>) return {SupportLevel::runs, {}};
            return {SupportLevel::none, "models train on the host only"};
        }));
    };
    auto const add = [&](std::string name, Operation op) {
        op.inputs[0] = op.output = 0;
        add_refusal(std::move(name), refusal_of(op));
    };
    auto const norm = [](NormKind kind, std::string_view weight) {
        Operation op{.kind = OpKind::norm, .details = NormRule{.kind = kind}};
        op.parameters[0] = weight;
        return op;
    };
    auto const attention = [](auto const& change) {
        AttentionShape shape{.heads = 4, .kv_heads = 2, .key_dim = 8, .value_dim = 8};
        change(shape);
        return Operation{.kind = OpKind::attention, .details = shape};
    };
    add("attention", attention([](AttentionShape&) {}));
    add("attention to a window", attention([](AttentionShape& shape) { shape.window = 4; }));
    add("attention with soft caps", attention([](AttentionShape& shape) { shape.soft_cap = 50.0; }));
    add("attention to chunks", attention([](AttentionShape& shape) { shape.chunk = 4; }));
    add("attention with a latent (MLA)", attention([](AttentionShape& shape) { shape.latent = 16; }));
    add("attention to an encoder", attention([](AttentionShape& shape) { shape.is_cross = true; }));
    auto with_sinks = attention([](AttentionShape&) {});
    with_sinks.parameters[0] = "sinks";
    add("attention with sinks", with_sinks);
    add("attention with biases by distance", attention([](AttentionShape& shape) { shape.bias_reach = 16; }));
    add("gated delta rule", {.kind = OpKind::gated_delta});
    add("routed experts", {.kind = OpKind::experts});
    add("dense products", {.kind = OpKind::linear, .in_features = 8, .out_features = 8});
    add("activations, gated or not", {.kind = OpKind::activation, .details = ActivationKind::silu});
    add("norms", norm(NormKind::rms, "weight"));
    add("norms without weights", norm(NormKind::layer, ""));
    add("layer norms with an offset", norm(NormKind::layer_offset, "weight"));
    add("activation xIELU", {.kind = OpKind::activation, .details = ActivationKind::xielu});
    add_refusal("tables of words and positions", {});
    add_refusal("models that see both directions", detail::both_directions_refusal);
    add_refusal("heads of labels", detail::labels_refusal);
    return rows;
}

[[nodiscard]] std::vector<SupportedLevel> levels() {
    std::vector<SupportedLevel> rows;
    for (auto const level : isa_level_list)
        rows.push_back({name_of(level), has_isa(level), is_executed_on_hardware(level)});
    return rows;
}

}  // namespace

ExitCode run_support(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto int8 =
        rounded_activations(has_int8_product, "has no whole numbers as codes: its products take activations in full");
    auto bf16 = rounded_activations(has_bf16_product, "is not bf16: its products take activations in full");
    SupportAnswer const answer{.strategies = strategies(),
                               .operations = operations(),
                               .bf16_operations = operations_of<Bfloat16>(),
                               .fp16_operations = operations_of<Float16>(),
                               .weights = weights(),
                               .products = products(),
                               .int8_activations = std::move(int8),
                               .bf16_activations = std::move(bf16),
                               .training = trained_parts(),
                               .levels = levels()};
    print_text(arguments.json ? support_json(answer) : support_text(answer, style_of_stdout(*color)));
    return ExitCode::done;
}

}  // namespace shardwise::cli
