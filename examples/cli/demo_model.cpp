// SPDX-License-Identifier: Apache-2.0
#include "demo_model.hpp"

#include <array>
#include <cstddef>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

/// Of a program in PREFIX/bin, and of one in build/release/bin of a source tree.
constexpr int levels = 4;

/// The file of this program; empty where the system does not tell.
[[nodiscard]] std::string own_file() {
    std::array<char, 4096> path{};
    auto const size = ::readlink("/proc/self/exe", path.data(), path.size());
    return size < 1 || size == static_cast<ssize_t>(path.size())
               ? std::string{}
               : std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<std::string> place_of_model(std::string const& model) {
    if (model != demo_name) return model;
    auto above = own_file();
    for (int i = 0; i < levels; ++i) {
        above.resize(above.rfind('/') == std::string::npos ? 0 : above.rfind('/'));
        auto folder = above + "/share/shardwise/" + std::string(demo_name);
        struct stat status {};
        if (::stat((folder + "/config.json").c_str(), &status) == 0) return folder;
        if (above.empty()) break;
    }
    return Error{ErrorCode::file_not_found}
        .in(model)
        .because("is not beside this program: it has no share/shardwise/demo")
        .fix("install the program with it, or name another model; a folder of this name is ./demo");
}

}  // namespace shardwise::cli
