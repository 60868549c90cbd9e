// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <string>
#include <utility>

namespace shardwise::cli {

/// A file to which rows are added, each as a whole; what it held before stays.
class CsvFile {
public:
    /// Opens the file and writes the header where it is empty; "-" is the standard output.
    ///
    /// Errors  file_unwritable; invalid_argument where its rows have other columns
    [[nodiscard]] static Result<CsvFile> open(std::string const& path, std::string const& header);
    CsvFile(CsvFile&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
    CsvFile& operator=(CsvFile&&) = delete;
    ~CsvFile();

    /// Errors  file_unwritable
    [[nodiscard]] Result<> add(std::string const& row);

private:
    explicit CsvFile(std::string path) : path_(std::move(path)) {}

    std::string path_;
    int descriptor_ = -1;
};

}  // namespace shardwise::cli
