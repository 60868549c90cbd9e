// SPDX-License-Identifier: Apache-2.0
#include "device_generate.hpp"

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/session/run_on_devices.hpp>

#include "device_vendor.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace bench {

namespace {

using namespace shardwise;

template <class T>
T opened(Result<T> result) {
    if (!result) throw std::runtime_error(std::string(result.error().message()));
    return std::move(*result);
}

}  // namespace

struct GeneratedModel::Opened {
    ModelSource source;
    Model model;
};

GeneratedModel::GeneratedModel(LlamaShape const& shape)
    : shape_(shape), folder_((std::filesystem::temp_directory_path() / "shardwise_device_XXXXXX").string()) {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder for the weights: " + folder_);
    if (!write_llama(folder_, shape_)) {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
        throw std::runtime_error("no room for the weights in " + folder_);
    }
    auto source = opened(find_model(folder_, {}, HubCache(HubEnvironment::current())));
    auto model = opened(read_checkpoint(source)).model;
    have_memory();
    opened_ = std::make_unique<Opened>(Opened{std::move(source), std::move(model)});
}

GeneratedModel::~GeneratedModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

GenerateRates GeneratedModel::generate(GenerateOptions const& wanted) const {
    std::vector<GenerationRequest> requests(static_cast<std::size_t>(wanted.sequences));
    for (auto& request : requests) {
        for (std::int64_t i = 0; i < wanted.prompt; ++i)
            request.prompt.push_back(static_cast<std::int32_t>((i * 7 + 100) % shape_.vocabulary));
        request.max_new_tokens = wanted.made;
    }
    RunOptions options;
    options.sequences = wanted.sequences;
    options.load = wanted.load;
    options.kv_dtype = Dtype::bf16;
    options.step_tokens = 2048;
    options.has_graphs = wanted.has_graphs;
    options.tp = wanted.ranks;
    if (wanted.home != LayerHome::resident)
        options.layer_homes.assign(static_cast<std::size_t>(shape_.layers), wanted.home);
    OpenCheckpoint files(opened_->source);
    auto const report = opened(run_on_devices<Device>(files, opened_->model, requests, options));
    return {static_cast<double>(report.prompt_tokens) / report.prefill_seconds,
            wanted.made > 1 ? static_cast<double>(report.decode_tokens) / report.decode_seconds : 0.0,
            report.load_seconds};
}

double file_rate(std::string const& path) {
    auto const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    if (file < 0 || ::fstat(file, &facts) != 0) throw std::runtime_error("cannot read " + path);
    auto const threads = std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, 16);
    double best = 0.0;
    for (int pass = 0; pass < 2; ++pass) {
        auto const begin = std::chrono::steady_clock::now();
        std::vector<std::thread> readers;
        for (std::int64_t i = 0; i < threads; ++i) {
            readers.emplace_back([&, i] {
                std::vector<char> block(std::size_t{4} << 20U);
                auto const end = facts.st_size * (i + 1) / threads;
                for (auto at = facts.st_size * i / threads; at < end;) {
                    auto const most = std::min<std::int64_t>(end - at, static_cast<std::int64_t>(block.size()));
                    auto const got = ::pread(file, block.data(), static_cast<std::size_t>(most), at);
                    if (got <= 0) return;
                    at += got;
                }
            });
        }
        for (auto& reader : readers) reader.join();
        auto const took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::max(best, static_cast<double>(facts.st_size) / took);
    }
    ::close(file);
    return best;
}

}  // namespace bench
