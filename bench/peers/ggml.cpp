// SPDX-License-Identifier: Apache-2.0
#include "../ggml_peer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sched.h>
#include <string>
#include <utility>

namespace bench {

namespace {

/// As in ggml.h; everything else stays opaque.
struct InitParameters {
    std::size_t memory_bytes;
    void* memory;
    bool is_without_data;
};

/// Larger than any ggml_threadpool_params, which ggml fills itself.
using PoolParameters = std::array<unsigned char, 4096>;

/// Its first fields: which cores may be used, how many threads, ..., and whether each thread stays on one core.
constexpr std::size_t pool_cores = 512;
constexpr std::size_t pool_threads_at = pool_cores;
constexpr std::size_t pool_is_strict_at = pool_cores + 12;

/// Keeps the pool's threads on cores of their own, as ours are, where its fields are those that are known here.
void pin(PoolParameters& parameters, int threads) {
    int found = 0;
    std::memcpy(&found, parameters.data() + pool_threads_at, sizeof found);
    if (found != threads) return;
    std::memset(parameters.data(), 1, std::min(static_cast<std::size_t>(threads), pool_cores));
    parameters[pool_is_strict_at] = 1;
}

struct Functions {
    void* (*init)(InitParameters);
    void (*free)(void*);
    void* (*new_tensor_2d)(void*, int, std::int64_t, std::int64_t);
    void* (*mul_mat)(void*, void*, void*);
    void* (*new_graph)(void*);
    void (*build_forward_expand)(void*, void*);
    void (*threadpool_params_init)(void*, int);
    void* (*threadpool_new)(void*);
    void (*threadpool_free)(void*);
    void (*threadpool_pause)(void*);
    void (*threadpool_resume)(void*);
    void* (*backend_cpu_init)();
    void (*backend_free)(void*);
    void (*backend_cpu_set_n_threads)(void*, int);
    void (*backend_cpu_set_threadpool)(void*, void*);
    void* (*backend_cpu_reg)();
    void* (*backend_reg_get_proc_address)(void*, char const*);
    void* (*backend_reg_dev_get)(void*, std::size_t);
    void* (*backend_cpu_buffer_type)();
    char const* (*backend_buft_name)(void*);
    void* (*backend_alloc_ctx_tensors_from_buft)(void*, void*);
    void (*backend_buffer_free)(void*);
    bool (*backend_supports_op)(void*, void*);
    void (*backend_tensor_set)(void*, void const*, std::size_t, std::size_t);
    void (*backend_tensor_get)(void const*, void*, std::size_t, std::size_t);
    int (*backend_graph_compute)(void*, void*);
    void (*log_set)(void (*)(int, char const*, void*), void*);
};

class Graph final : public GgmlGraph {
public:
    /// `weight_buffers` is the kind of memory that the weights lie in.
    Graph(Functions const& ggml, GgmlProduct const& product, int threads, void* weight_buffers)
        : ggml_(ggml), elements_(static_cast<std::size_t>(product.rows * product.outputs)) {
        PoolParameters parameters{};
        ggml.threadpool_params_init(parameters.data(), threads);
        pin(parameters, threads);
        sched_getaffinity(0, sizeof own_cores_, &own_cores_);
        pool_ = ggml.threadpool_new(parameters.data());
        // Making a pool pins the thread that does, and to another core than ours.
        sched_getaffinity(0, sizeof pool_cores_, &pool_cores_);
        sched_setaffinity(0, sizeof own_cores_, &own_cores_);
        backend_ = ggml.backend_cpu_init();
        ggml.backend_cpu_set_n_threads(backend_, threads);
        ggml.backend_cpu_set_threadpool(backend_, pool_);
        weights_ = ggml.init({std::size_t{1} << 20U, nullptr, true});
        values_ = ggml.init({std::size_t{1} << 24U, nullptr, true});
        std::vector<void*> weights;
        for (int i = 0; i < product.copies; ++i) {
            weights.push_back(
                ggml.new_tensor_2d(weights_, static_cast<int>(product.type), product.inputs, product.outputs));
        }
        void* const in = ggml.new_tensor_2d(values_, 0, product.inputs, product.rows);
        for (void* const weight : weights) {
            auto* const graph = ggml.new_graph(values_);
            out_ = ggml.mul_mat(values_, weight, in);
            ggml.build_forward_expand(graph, out_);
            graphs_.push_back(graph);
        }
        weight_memory_ = ggml.backend_alloc_ctx_tensors_from_buft(weights_, weight_buffers);
        value_memory_ = ggml.backend_alloc_ctx_tensors_from_buft(values_, ggml.backend_cpu_buffer_type());
        is_ready_ = weight_memory_ != nullptr && value_memory_ != nullptr && ggml.backend_supports_op(backend_, out_);
        if (!is_ready_) return;
        for (void* const weight : weights) {
            ggml.backend_tensor_set(weight, product.weight->data(), 0, product.weight->size());
        }
        ggml.backend_tensor_set(in, product.in, 0,
                                static_cast<std::size_t>(product.rows * product.inputs) * sizeof(float));
    }
    Graph(Graph const&) = delete;
    Graph& operator=(Graph const&) = delete;
    ~Graph() override {
        if (weight_memory_ != nullptr) ggml_.backend_buffer_free(weight_memory_);
        if (value_memory_ != nullptr) ggml_.backend_buffer_free(value_memory_);
        ggml_.free(weights_);
        ggml_.free(values_);
        ggml_.backend_free(backend_);
        ggml_.threadpool_free(pool_);
    }

    [[nodiscard]] bool is_ready() const { return is_ready_; }

    void wake() override {
        sched_setaffinity(0, sizeof pool_cores_, &pool_cores_);
        ggml_.threadpool_resume(pool_);
        // Its threads take some time to come out of their sleep.
        auto const until = std::chrono::steady_clock::now() + std::chrono::microseconds(1000);
        while (std::chrono::steady_clock::now() < until) {
        }
    }
    void rest() override {
        ggml_.threadpool_pause(pool_);
        sched_setaffinity(0, sizeof own_cores_, &own_cores_);
    }
    void run() override {
        if (ggml_.backend_graph_compute(backend_, graphs_[next_++ % graphs_.size()]) != 0) std::abort();
    }
    std::vector<float> out() override {
        std::vector<float> values(elements_);
        ggml_.backend_tensor_get(out_, values.data(), 0, elements_ * sizeof(float));
        return values;
    }

private:
    Functions const& ggml_;
    std::size_t elements_;
    void* pool_ = nullptr;
    void* backend_ = nullptr;
    void* weights_ = nullptr;
    void* values_ = nullptr;
    void* weight_memory_ = nullptr;
    void* value_memory_ = nullptr;
    std::vector<void*> graphs_;
    std::size_t next_ = 0;
    void* out_ = nullptr;
    bool is_ready_ = false;
    cpu_set_t own_cores_{};
    cpu_set_t pool_cores_{};
};

class Library final : public Ggml {
public:
    explicit Library(Functions const& functions) : ggml_(functions) {}

    std::vector<std::unique_ptr<GgmlGraph>> prepare(GgmlProduct const& product, int threads) override {
        std::vector<void*> kinds{ggml_.backend_cpu_buffer_type()};
        auto* const registry = ggml_.backend_cpu_reg();
        auto const more = reinterpret_cast<void** (*)(void*)>(
            ggml_.backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
        if (more != nullptr) {
            for (void** kind = more(ggml_.backend_reg_dev_get(registry, 0)); kind != nullptr && *kind != nullptr;
                 ++kind) {
                // llama-cpp-python 0.3.36 ended with an illegal instruction (tilezero) on a Sapphire Rapids under KVM.
                char const* const skipped = std::getenv("SHARDWISE_GGML_SKIP");
                bool const is_skipped = skipped != nullptr && *skipped != '\0' &&
                                        std::strstr(ggml_.backend_buft_name(*kind), skipped) != nullptr;
                if (!is_skipped) kinds.push_back(*kind);
            }
        }
        std::vector<std::unique_ptr<GgmlGraph>> ways;
        for (void* const kind : kinds) {
            auto graph = std::make_unique<Graph>(ggml_, product, threads, kind);
            if (graph->is_ready()) ways.push_back(std::move(graph));
        }
        return ways;
    }

private:
    Functions ggml_;
};

/// The folder that holds the libraries, or nothing.
std::string library_folder() {
    if (char const* const folder = std::getenv("SHARDWISE_GGML"); folder != nullptr && *folder != '\0') return folder;
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return {};
    std::string command("'");
    command.append(python).append(
        "' -c 'import importlib.util as u, os; s = u.find_spec(\"llama_cpp\"); "
        "print(os.path.join(os.path.dirname(s.origin), \"lib\") if s else \"\")' 2>/dev/null");
    auto* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return {};
    std::string folder;
    std::array<char, 512> part{};
    while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) folder += part.data();
    pclose(pipe);
    while (!folder.empty() && folder.back() == '\n') folder.pop_back();
    return folder;
}

void ignore(int, char const*, void*) {}

template <class Function>
bool find(std::array<void*, 2> const& libraries, char const* name, Function& function) {
    for (void* const library : libraries) {
        if (void* const symbol = dlsym(library, name); symbol != nullptr) {
            static_assert(sizeof symbol == sizeof function);
            std::memcpy(&function, &symbol, sizeof symbol);
            return true;
        }
    }
    return false;
}

}  // namespace

std::unique_ptr<Ggml> open_ggml() {
    auto const folder = library_folder();
    if (folder.empty()) return nullptr;
    std::array<void*, 2> const libraries{dlopen((folder + "/libggml-base.so").c_str(), RTLD_NOW | RTLD_GLOBAL),
                                         dlopen((folder + "/libggml-cpu.so").c_str(), RTLD_NOW | RTLD_GLOBAL)};
    if (libraries[0] == nullptr || libraries[1] == nullptr) {
        std::fprintf(stderr, "no ggml: %s\n", dlerror());
        return nullptr;
    }
    Functions ggml{};
    bool is_whole = true;
    auto const take = [&](char const* name, auto& function) { is_whole = find(libraries, name, function) && is_whole; };
    take("ggml_init", ggml.init);
    take("ggml_free", ggml.free);
    take("ggml_new_tensor_2d", ggml.new_tensor_2d);
    take("ggml_mul_mat", ggml.mul_mat);
    take("ggml_new_graph", ggml.new_graph);
    take("ggml_build_forward_expand", ggml.build_forward_expand);
    take("ggml_threadpool_params_init", ggml.threadpool_params_init);
    take("ggml_threadpool_new", ggml.threadpool_new);
    take("ggml_threadpool_free", ggml.threadpool_free);
    take("ggml_threadpool_pause", ggml.threadpool_pause);
    take("ggml_threadpool_resume", ggml.threadpool_resume);
    take("ggml_backend_cpu_init", ggml.backend_cpu_init);
    take("ggml_backend_free", ggml.backend_free);
    take("ggml_backend_cpu_set_n_threads", ggml.backend_cpu_set_n_threads);
    take("ggml_backend_cpu_set_threadpool", ggml.backend_cpu_set_threadpool);
    take("ggml_backend_cpu_reg", ggml.backend_cpu_reg);
    take("ggml_backend_reg_get_proc_address", ggml.backend_reg_get_proc_address);
    take("ggml_backend_reg_dev_get", ggml.backend_reg_dev_get);
    take("ggml_backend_cpu_buffer_type", ggml.backend_cpu_buffer_type);
    take("ggml_backend_buft_name", ggml.backend_buft_name);
    take("ggml_backend_alloc_ctx_tensors_from_buft", ggml.backend_alloc_ctx_tensors_from_buft);
    take("ggml_backend_buffer_free", ggml.backend_buffer_free);
    take("ggml_backend_supports_op", ggml.backend_supports_op);
    take("ggml_backend_tensor_set", ggml.backend_tensor_set);
    take("ggml_backend_tensor_get", ggml.backend_tensor_get);
    take("ggml_backend_graph_compute", ggml.backend_graph_compute);
    take("ggml_log_set", ggml.log_set);
    if (!is_whole) {
        std::fprintf(stderr, "no ggml: %s has another interface\n", folder.c_str());
        return nullptr;
    }
    ggml.log_set(&ignore, nullptr);
    return std::make_unique<Library>(ggml);
}

}  // namespace bench
