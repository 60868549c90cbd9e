#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const file = read_config({reinterpret_cast<char const*>(data), size}, "config.json");
    if (!file) {
        if (file.error().message().empty()) std::abort();
        return 0;
    }
    // What the reader accepts, the family describes, and its sizes stay within 63 bits (UBSan watches).
    auto const model = describe(file->config);
    if (!model || count_parameters(model->tree) < 0) std::abort();
    auto const bytes = sum_tensors(model->tree, [](Tensor const& tensor) { return tensor.bytes().count(); });
    if (bytes < 0) std::abort();
    return 0;
}
