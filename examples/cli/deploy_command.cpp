// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/environment.hpp>
#include <shardwise/deploy/formats/apptainer.hpp>
#include <shardwise/deploy/formats/compose.hpp>
#include <shardwise/deploy/formats/docker.hpp>
#include <shardwise/deploy/formats/kubernetes.hpp>
#include <shardwise/deploy/make_container.hpp>
#include <shardwise/deploy/shell_line.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/quant/scheme.hpp>

#include "commands.hpp"
#include "deploy_choices.hpp"
#include "deploy_devices.hpp"
#include "deploy_selection.hpp"
#include "docker_facts.hpp"
#include "docker_start.hpp"
#include "load_model.hpp"
#include "model_facts.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "values.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <dirent.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// What `deploy` was asked for, checked as far as words go.
struct DeployWish {
    EstimateRequest estimate{};
    DeployFormat format = DeployFormat::docker;
    DeployRequest request{};
    /// Until the server must be healthy.
    std::chrono::seconds limit{1800};
};

/// Words of TGI's own, planned as what holds as much or more.
[[nodiscard]] bool is_tgi_word(std::string_view word, std::optional<std::string>& planned) {
    if (equal_ignoring_case(word, "eetq")) return planned = "int8", true;
    if (equal_ignoring_case(word, "marlin")) return planned = "gptq", true;
    if (equal_ignoring_case(word, "exl2")) return planned = std::nullopt, true;
    return false;
}

[[nodiscard]] Result<> check_address(std::string const& address) {
    in_addr v4{};
    in6_addr v6{};
    if (::inet_pton(AF_INET, address.c_str(), &v4) == 1 || ::inet_pton(AF_INET6, address.c_str(), &v6) == 1) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--host-address")
        .because("is no address")
        .fix("write an address of this machine, 0.0.0.0 for all");
}

[[nodiscard]] Result<DeployWish> read_deploy_wish(Arguments const& arguments) {
    DeployWish wish;
    auto& request = wish.request;
    auto const given = check_model_given(arguments, "shardwise deploy vllm org/name --devices 2xA100-80GB --dry-run");
    bool const needs_model = !arguments.detect_only;
    if ((needs_model && !given) || !arguments.engine) {
        return Error{ErrorCode::invalid_argument}
            .in("ENGINE, MODEL")
            .because("were not both given")
            .fix("name them: shardwise deploy vllm org/name --devices 2xA100-80GB --dry-run");
    }
    auto const engine = choose<Engine>("ENGINE", *arguments.engine, engine_choices);
    if (!engine) return engine.error();
    request.engine = *engine;
    if (arguments.format) {
        auto const format = choose<DeployFormat>("--format", *arguments.format, format_choices);
        if (!format) return format.error();
        wish.format = *format;
    }
    auto words = arguments;
    if (request.engine == Engine::tgi && arguments.quant && is_tgi_word(*arguments.quant, words.quant)) {
        for (char const letter : *arguments.quant) request.engine_quant += to_lower(letter);
    }
    auto estimate = read_estimate_request(words);
    if (!estimate) return estimate.error();
    wish.estimate = *std::move(estimate);
    auto const sequences = read_count("--sequences", arguments.sequences, max_tokens, wish.estimate.batch);
    if (!sequences) return sequences.error();
    if (auto const port = read_count("--port", arguments.port, 65535, request.port); !port) return port.error();
    request.host_address = arguments.host_address.value_or("127.0.0.1");
    if (auto const checked = check_address(request.host_address); !checked) return checked.error();
    for (auto const& text : arguments.environment) {
        auto entry = parse_environment(text);
        if (!entry) return entry.error();
        request.environment.push_back(*std::move(entry));
    }
    request.quant = wish.estimate.quant;
    if (wish.estimate.dtype) request.dtype = std::string(traits(*wish.estimate.dtype).torch_name);
    request.image = arguments.image.value_or("");
    bool const is_no_image = arguments.image && (request.image.empty() || request.image.front() == '-');
    if (is_no_image || request.image.find_first_of(" \t\n") != std::string::npos) {
        return Error{ErrorCode::invalid_argument}
            .in("--image")
            .because("is no name of an image")
            .fix("write it like vllm/vllm-openai:v0.33.0");
    }
    request.has_cdi = arguments.cdi;
    request.has_host_network = wish.format == DeployFormat::apptainer;
    if (arguments.claims && wish.format != DeployFormat::kubernetes) {
        return Error{ErrorCode::invalid_argument}
            .in("--claims")
            .because("are Kubernetes' own")
            .fix("add --format kubernetes");
    }
    if (arguments.cdi && wish.format != DeployFormat::docker && wish.format != DeployFormat::compose) {
        return Error{ErrorCode::invalid_argument}
            .in("--cdi")
            .because("is for docker and compose")
            .fix(wish.format == DeployFormat::kubernetes ? "use --claims" : "leave it out");
    }
    constexpr std::int64_t week = 7 * 24 * 3600;
    if (auto const read = read_count("--timeout", arguments.timeout, week, wish.limit); !read) return read.error();
    if (!arguments.dry_run && !arguments.detect_only && wish.format != DeployFormat::docker) {
        return Error{ErrorCode::invalid_argument}
            .in("--format")
            .because("is started by docker alone")
            .fix("add --dry-run to print the file or line");
    }
    return wish;
}

/// A path with its links followed; "" where that fails.
[[nodiscard]] std::string whole_path(std::string const& path) {
    char* const whole = ::realpath(path.c_str(), nullptr);
    if (whole == nullptr) return {};
    std::string text(whole);
    std::free(whole);
    return text;
}

/// True where one of the folder's files is a link out of it, as in the cache of the Hugging Face tools.
[[nodiscard]] bool has_outer_link(std::string const& folder) {
    DIR* const opened = ::opendir(folder.c_str());
    if (opened == nullptr) return false;
    bool is_found = false;
    while (dirent const* const entry = ::readdir(opened)) {
        auto const path = folder + "/" + entry->d_name;
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) continue;
        is_found = is_found || whole_path(path).rfind(folder + "/", 0) != 0;
    }
    ::closedir(opened);
    return is_found;
}

/// Where the engine finds the model; presets are names without files.
///
/// Errors  invalid_argument for what a container could not be shown
[[nodiscard]] Result<> locate_model(std::string const& word, DeployRequest& request,
                                    std::vector<std::string>& warnings) {
    auto const refuse = [](std::string_view reason, std::string_view advice) {
        return Error{ErrorCode::invalid_argument}.in("MODEL").because(reason).fix(advice);
    };
    request.model = word;
    if (word == "-") return refuse("on standard input has no weights", "give org/name or a path");
    struct stat status {};
    if (::stat(word.c_str(), &status) != 0) {
        bool const is_preset = word.find('/') == std::string::npos;
        if (is_preset) {
            warnings.push_back(word + " is a preset and names no files: put org/name or a path in its place, with "
                                      "which the engine finds the weights");
        } else if (request.engine == Engine::llama_server) {
            warnings.push_back("llama-server downloads GGUF files only: " + word + " must hold some");
        }
        return {};
    }
    if (S_ISDIR(status.st_mode)) {
        request.place = ModelPlace::folder;
        request.model = whole_path(word);
        if (has_outer_link(request.model))
            return refuse("has links out of its folder, which a container does not see",
                          "give org/name instead of the cache's folder, or a folder of plain files");
        return {};
    }
    request.place = ModelPlace::file;
    struct stat link {};
    if (::lstat(word.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
        return refuse("is a link, which a container does not see through", "give the file itself, or org/name");
    request.model = whole_path(word);
    return {};
}

/// True where something listens on the address and port already.
[[nodiscard]] bool is_port_taken(std::string const& address, std::int32_t port) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    bool const is_v4 = ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1;
    if (!is_v4 && ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) != 1) return false;
    int const opened = ::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
    if (opened < 0) return false;
    int const yes = 1;
    // A server that has just ended leaves its port in a state that docker does not mind.
    (void)::setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    auto const* const target = is_v4 ? reinterpret_cast<sockaddr const*>(&v4) : reinterpret_cast<sockaddr const*>(&v6);
    auto const size = static_cast<socklen_t>(is_v4 ? sizeof v4 : sizeof v6);
    bool const is_taken = ::bind(opened, target, size) != 0 && errno == EADDRINUSE;
    ::close(opened);
    return is_taken;
}

/// What is right but may disappoint.
void add_warnings(DeployRequest const& request, Topology const& topology, std::vector<std::string>& warnings) {
    if (request.engine == Engine::tgi) warnings.push_back("tgi is in maintenance: its makers point to vllm and sglang");
    if (request.engine_quant == "exl2")
        warnings.push_back("--quant exl2 says no size: the plan holds the weights as they are stored");
    auto const method = request.quant ? request.quant->method : QuantMethod::fp8;
    bool const is_read = method == QuantMethod::awq || method == QuantMethod::gptq || request.engine_quant == "exl2" ||
                         request.engine_quant == "marlin";
    if (is_read && request.quant != request.stored_quant)
        warnings.push_back("--quant is read here, not made: the checkpoint must hold such weights");
    if (request.tp <= 2) return;
    auto const devices = topology.accelerators();
    // Groups of tp devices that stand side by side share each layer.
    auto const group = static_cast<std::size_t>(request.tp);
    for (std::size_t i = 0; i < devices.size(); ++i) {
        for (std::size_t k = i + 1; k < devices.size() && k / group == i / group; ++k) {
            auto const type = topology.between(i, k).type;
            if (type == LinkType::nvlink || type == LinkType::infinity_fabric) continue;
            bool const is_apart = devices[i].node != devices[k].node;
            warnings.push_back("tp " + std::to_string(request.tp) +
                               " without NVLink between all devices: every layer waits for " +
                               (is_apart ? "the network" : "PCIe") + " twice");
            return;
        }
    }
}

[[nodiscard]] std::string deployment_text(Container const& container, DeployFormat format, bool has_claims) {
    switch (format) {
        case DeployFormat::docker: return shell_line(docker_command(container)) + "\n";
        case DeployFormat::compose: return compose_text(container);
        case DeployFormat::kubernetes: return kubernetes_text(container, has_claims);
        case DeployFormat::apptainer: return shell_line(apptainer_command(container)) + "\n";
    }
    return {};
}

/// A refusal of what was asked for is wrong usage, wherever it came up.
[[nodiscard]] ExitCode refuse_deployment(Error const& error) {
    return report(error, Stage::arguments, false);
}

}  // namespace

namespace {

/// The devices and docker of this machine, before what would be chosen.
[[nodiscard]] std::string machine_text(DeployDevices const& found) {
    std::string text;
    for (std::size_t i = 0; i < found.devices.size(); ++i) {
        auto const& device = found.topology.devices[i];
        text += "device " + detail::device_word(found.devices[i]) + ": " + found.devices[i].name + ", " +
                to_text(device.available()) + " free of " + to_text(device.memory) + "\n";
    }
    if (found.devices.empty()) text += "device cpu: no accelerator\n";
    auto const docker = find_docker();
    text += "docker: " + (docker.client.empty() ? "not installed" : docker.client) + "\n";
    if (!docker.client.empty())
        text += "docker daemon: " + (docker.daemon.empty() ? "does not answer" : docker.daemon) + "\n";
    text += std::string("NVIDIA container toolkit: ") + (docker.has_toolkit ? "installed" : "not installed") + "\n";
    return text + "CDI descriptions: " + (docker.has_cdi ? "there" : "none") + "\n";
}

/// "vllm on devices 0,1: tp 2, pp 1, image ...".
[[nodiscard]] std::string describe_choice(DeployRequest const& request, Container const& container) {
    std::string list;
    for (auto const& device : request.devices) list += (list.empty() ? "" : ",") + detail::device_word(device);
    return "chosen: " + std::string(name_of(request.engine)) + " on " + (list.empty() ? "cpu" : list) + ", tp " +
           std::to_string(request.tp) + ", pp " + std::to_string(request.pp) + ", " + to_text(request.memory.total) +
           " on the fullest device, " + container.image + "\n";
}

/// Loads the model and plans it over the devices, or over the fewest of them; warnings are added.
[[nodiscard]] Result<Container> make_deployment(Arguments const& arguments, DeployWish& wish, DeployDevices& found,
                                                std::vector<std::string>& warnings) {
    auto& request = wish.request;
    auto const loaded = with_progress(
        ColorMode::automatic, [&](Observer const& observer) { return load_known_model(*arguments.model, observer); });
    if (!loaded) return loaded.error();
    auto const& config = loaded->model.config;
    auto const estimate = as_published(wish.estimate, config);
    for (auto const& warning : loaded->warnings) warnings.push_back(warning);
    request.config = config;
    request.stored_quant = config.quant;
    request.context = context_of(estimate, config);
    request.sequences = estimate.batch;
    request.kv_bits = bits(kv_dtype_of(estimate, config));
    request.hub_cache = HubCache(HubEnvironment::current()).folder();
    if (auto const located = locate_model(*arguments.model, request, warnings); !located) return located.error();
    bool const selects = arguments.auto_select && !found.devices.empty();
    auto const planned = selects ? plan_on_fewest(*loaded, estimate, found, request)
                                 : plan_on(*loaded, estimate, found, request);
    if (!planned) return planned.error();
    auto container = make_container(request);
    if (!container) return container.error();
    if (container->nodes > 1 && wish.format != DeployFormat::kubernetes) {
        return Error{ErrorCode::invalid_argument}
            .in("--devices")
            .because("are on several nodes, and a container runs on one")
            .fix("add --format kubernetes, which makes a group of containers, or name the devices of one node");
    }
    bool const starts = !arguments.dry_run && !arguments.detect_only;
    bool const listens_here = (found.is_own || starts) && wish.format == DeployFormat::docker;
    if (starts && !found.is_own) {
        warnings.push_back("devices of a SPEC are counted from 0, and nobody has looked whether this machine has them: name "
                           "its own by number or UUID");
    }
    if (listens_here && is_port_taken(container->host_address, container->host_port)) {
        return Error{ErrorCode::invalid_argument}
            .in("--port")
            .because(std::to_string(container->host_port) + " is in use on " + container->host_address)
            .fix("stop what listens there, or name another port");
    }
    if (auto const warning = context_warning(config, request.context); !warning.empty()) warnings.push_back(warning);
    add_warnings(request, found.topology, warnings);
    return container;
}

}  // namespace

ExitCode run_deploy(Arguments const& arguments) {
    auto wish = read_deploy_wish(arguments);
    if (!wish) return refuse_deployment(wish.error());
    auto found = read_deploy_devices(arguments);
    if (!found) return refuse_deployment(found.error());
    auto warnings = found->warnings;
    if (arguments.detect_only) {
        print_text(machine_text(*found));
        if (!arguments.model) {
            print_warnings(warnings);
            return ExitCode::done;
        }
    }
    auto const container = make_deployment(arguments, *wish, *found, warnings);
    if (!container) return refuse_deployment(container.error());
    print_warnings(warnings);
    if (!arguments.detect_only && !arguments.dry_run) return start_container(*container, wish->limit);
    print_text(arguments.detect_only ? describe_choice(wish->request, *container)
                                     : deployment_text(*container, wish->format, arguments.claims));
    return ExitCode::done;
}

}  // namespace shardwise::cli
