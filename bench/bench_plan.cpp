// SPDX-License-Identifier: Apache-2.0
// From the files of a published model to a finished map, as a whole process; the exact search; what the header costs.

#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/placement/optimal.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;
namespace fs = std::filesystem;

std::string const source_folder = fs::absolute(__FILE__).parent_path().parent_path().string();

/// A row of the report: what it took, and what it may take.
struct Row {
    std::string name;
    std::optional<double> seconds;
    double limit = 0.0;
    std::string details;
};

double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/// Wall time is what a user waits for; processor time is what a compiler costs, however busy the machine is.
enum class Clock { wall, processor };

double seconds_of(timeval const& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// The time of a command from fork to its end; nothing where it fails.
std::optional<double> time_command(std::vector<std::string> const& words, Clock clock) {
    std::vector<char*> arguments;
    for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    auto const start = std::chrono::steady_clock::now();
    auto const child = ::fork();
    if (child == 0) {
        if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr)
            ::_exit(127);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    rusage used{};
    if (child < 0 || ::wait4(child, &status, 0, &used) != child) return std::nullopt;
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
    return clock == Clock::wall ? seconds : seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

/// The median of several runs, after one that warms the caches.
std::optional<double> time_runs(std::vector<std::string> const& words, int runs, Clock clock) {
    if (!time_command(words, clock)) return std::nullopt;
    std::vector<double> times;
    for (int run = 0; run < runs; ++run) {
        auto const seconds = time_command(words, clock);
        if (!seconds) return std::nullopt;
        times.push_back(*seconds);
    }
    return median(std::move(times));
}

/// A folder like the published one without its shards: config.json and an index of every tensor, and for packed weights
/// of their scales. Gives the bytes of the index; 0 where it cannot be made.
std::size_t write_model(fs::path const& folder, std::string const& config_name) {
    auto const config_path = source_folder + "/tests/golden/configs/" + config_name + ".json";
    auto const config = read_config_file(config_path);
    if (!config) return 0;
    auto const model = describe(config->config);
    if (!model) return 0;
    std::string index = "{\"metadata\":{\"total_size\":0},\"weight_map\":{";
    std::size_t count = 0;
    auto const add = [&](std::string_view name, std::string_view suffix) {
        auto const shard = std::to_string(count / 600 + 1);
        if (count++ > 0) index += ',';
        index += "\n    \"";
        (index += name) += suffix;
        index += "\": \"model-" + std::string(5 - std::min<std::size_t>(5, shard.size()), '0') + shard +
                 "-of-000163.safetensors\"";
    };
    walk_tensors(model->tree, [&](std::string_view name, Tensor const& tensor) {
        if (tensor.kind == TensorKind::transient_buffer) return;
        add(name, "");
        if (config->quantization && tensor.is_matrix() && tensor.use == TensorUse::linear) add(name, "_scale_inv");
    });
    index += "\n}}\n";
    fs::create_directories(folder);
    fs::copy_file(config_path, folder / "config.json", fs::copy_options::overwrite_existing);
    std::ofstream(folder / "model.safetensors.index.json") << index;
    return index.size();
}

Row whole_process(fs::path const& folder, fs::path const& program, std::string const& config_name, double limit) {
    Row row{config_name + ": config and index to a finished map", {}, limit, {}};
    auto const size = write_model(folder / config_name, config_name);
    if (size == 0) return row;
    row.details = "index of " + std::to_string(size / 1000) + " kB, 16xH100-80GB, median of 11 processes";
    row.seconds =
        time_runs({program.string(), "map", (folder / config_name).string(), "--devices", "16xH100-80GB", "--json"}, 11,
                  Clock::wall);
    return row;
}

/// 128 layers of three sizes on 16 devices of four sizes, all objectives: the slowest counts.
Row exact_search(double limit) {
    ModuleSequence modules;
    for (int layer = 0; layer < 128; ++layer) {
        PlacementUnit unit;
        unit.path = modules.names.join("layers.", modules.names.number(static_cast<std::size_t>(layer)));
        unit.weights = Bytes{(800 + 370 * (layer % 3) + layer) * 1'000'003LL};
        unit.state = Bytes{50'000'017};
        unit.workspace = Bytes{300'000'000 + 1'000'000 * (layer % 7)};
        unit.flops = 2.0 * static_cast<double>(unit.weights.count());
        unit.traffic = static_cast<double>(unit.weights.count());
        unit.output = 16384.0;
        modules.units.push_back(unit);
    }
    std::vector<Device> devices;
    for (std::string_view const name : {"A100-40GB", "RTX4090", "H100-80GB", "L4"}) {
        for (int copy = 0; copy < 4; ++copy) {
            devices.push_back(*find_device_preset(name));
            devices.back().id = DeviceId::gpu(static_cast<std::int32_t>(devices.size()) - 1);
            devices.back().memory -= Bytes{copy * 100'000'007LL};
        }
    }
    auto const budgets = budgets_of(devices, Dtype::bf16, Bytes{512LL << 20U});
    Row row{"optimal, 128 layers on 16 unequal devices", {}, limit, {}};
    double slowest = 0.0;
    for (auto const objective : {Objective::load, Objective::bottleneck, Objective::latency}) {
        std::vector<double> times;
        for (int run = 0; run < 21; ++run) {
            auto const start = std::chrono::steady_clock::now();
            auto const placement = Optimal{.objective = objective}(modules, budgets);
            times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
            if (!placement || !placement->certificate) return row;
        }
        auto const seconds = median(times);
        char text[64];
        std::snprintf(text, sizeof text, "%s%.*s %.3f ms", row.details.empty() ? "" : ", ",
                      static_cast<int>(name_of(objective).size()), name_of(objective).data(), seconds * 1e3);
        row.details += text;
        slowest = std::max(slowest, seconds);
    }
    row.details += " (medians of 21)";
    row.seconds = slowest;
    return row;
}

/// What a translation unit pays for the umbrella header, against an empty one.
Row header_cost(fs::path const& folder, double limit) {
    Row row{"a unit that includes shardwise.hpp, more than an empty one",
            {},
            limit,
            "g++ -std=c++20 -O0, processor time, medians of 5"};
    std::ofstream(folder / "empty.cpp") << "int main() {}\n";
    std::ofstream(folder / "header.cpp") << "#include <shardwise/shardwise.hpp>\nint main() {}\n";
    auto const compile = [&](std::string const& file) {
        return time_runs({"env", "CCACHE_DISABLE=1", "g++", "-std=c++20", "-O0", "-I" + source_folder + "/include",
                          "-c", (folder / file).string(), "-o", (folder / "unit.o").string()},
                         5, Clock::processor);
    };
    auto const empty = compile("empty.cpp");
    auto const with_header = compile("header.cpp");
    if (empty && with_header) row.seconds = *with_header - *empty;
    return row;
}

void print_json(std::vector<Row> const& rows) {
    std::string out = "{\"schema\":\"shardwise.bench/1\",\"name\":\"plan\",\"rows\":[";
    for (auto const& row : rows) {
        char numbers[256];
        if (row.seconds) {
            std::snprintf(
                numbers, sizeof numbers,
                "\"ours\":%.6g,\"peer\":\"limit\",\"theirs\":%.6g,\"unit\":\"s\",\"ratio\":%.6g,\"goal\":1,\"met\":%s",
                *row.seconds, row.limit, row.limit / *row.seconds, *row.seconds <= row.limit ? "true" : "false");
        } else {
            std::snprintf(numbers, sizeof numbers,
                          "\"ours\":null,\"peer\":\"limit\",\"theirs\":%.6g,\"unit\":\"s\",\"ratio\":null,\"goal\":1,"
                          "\"met\":false",
                          row.limit);
        }
        out += (&row == rows.data() ? "" : ",") + ("{\"case\":\"" + row.name + "\",") + numbers + "}";
    }
    std::printf("%s]}\n", out.c_str());
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_json = argc > 1 && std::string_view{argv[1]} == "--json";
    std::error_code problem;
    auto const own = fs::read_symlink("/proc/self/exe", problem);
    auto const program = (problem ? fs::absolute(argv[0]) : own).parent_path() / "shardwise";
    auto const folder = fs::temp_directory_path() / ("bench_plan_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    std::vector<Row> const rows{whole_process(folder, program, "llama-3.1-405b", 50e-3),
                                whole_process(folder, program, "deepseek-v3", 250e-3), exact_search(100e-3),
                                header_cost(folder, 0.8)};
    fs::remove_all(folder, problem);
    if (is_json) {
        print_json(rows);
    } else {
        for (auto const& row : rows) {
            std::printf("%-58s %9.2f ms of %6.0f ms   %s\n", row.name.c_str(), row.seconds.value_or(0.0) * 1e3,
                        row.limit * 1e3, row.seconds ? row.details.c_str() : "FAILED");
        }
    }
    bool const is_complete =
        std::all_of(rows.begin(), rows.end(), [](Row const& row) { return row.seconds.has_value(); });
    return is_complete ? 0 : 1;
}
