#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::testing {

/// A folder of its own that goes away with it.
class TemporaryFolder {
public:
    TemporaryFolder() {
        auto pattern = (std::filesystem::temp_directory_path() / "shardwise-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) std::abort();
        path_ = pattern;
    }
    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }

    [[nodiscard]] std::string path(std::string_view name = {}) const { return (path_ / name).string(); }
    void write(std::string_view name, std::string_view text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }

private:
    std::filesystem::path path_;
};

/// A tensor to be written: name, safetensors dtype, shape, bytes.
struct WrittenTensor {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::int64_t bytes;
};

/// Writes a safetensors file whose data are a hole: they take no room, whatever the shapes.
inline void write_safetensors(std::string const& path, std::vector<WrittenTensor> const& tensors) {
    std::string json = "{";
    std::int64_t end = 0;
    for (auto const& tensor : tensors) {
        if (json.size() > 1) json += ',';
        json += '"' + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
        for (std::size_t i = 0; i < tensor.shape.size(); ++i)
            json += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
        json += "],\"data_offsets\":[" + std::to_string(end) + "," + std::to_string(end + tensor.bytes) + "]}";
        end += tensor.bytes;
    }
    json += '}';
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i)
        length[i] = static_cast<char>(static_cast<unsigned char>(json.size() >> (8 * i)));
    std::ofstream(path, std::ios::binary) << length << json;
    std::filesystem::resize_file(path, 8 + json.size() + static_cast<std::uintmax_t>(end));
}

}  // namespace shardwise::testing
