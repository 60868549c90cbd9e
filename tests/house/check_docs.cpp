// SPDX-License-Identifier: Apache-2.0
// check_docs ROOT WORK_FOLDER PROGRAM_FOLDER COMPILE...: builds and runs the tested blocks of README.md and docs/**/*.md
// and compares what they print. COMPILE is the compiler with its flags; PROGRAM_FOLDER holds the program shardwise.
// Commands find ROOT in their environment.
#include "doc_snippets.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace {

namespace fs = std::filesystem;

std::string quoted(std::string const& text) {
    std::string out = "'";
    for (char const c : text) out += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return out + "'";
}

/// Runs one snippet; empty when it does what its document says.
std::string run_snippet(house::Snippet const& snippet, std::string const& stem, fs::path const& work,
                        std::string const& compile) {
    std::string command = snippet.command;
    if (command.empty()) {
        fs::path const source = work / (stem + ".cpp");
        fs::path const program = work / stem;
        house::write_text(source, house::make_program(snippet.code));
        std::string const build = compile + " " + quoted(source.string()) + " -o " + quoted(program.string());
        if (std::system(build.c_str()) != 0) return "does not compile";
        command = quoted(program.string());
    }
    fs::path const printed = work / (stem + ".printed");
    int const status = std::system((command + " > " + quoted(printed.string())).c_str());
    // Command lines may end with any code (a plan that does not fit is 3); programs end well.
    if (snippet.command.empty() && status != 0) return "fails when run";
    if (!snippet.has_output) return {};
    fs::path const expected = work / (stem + ".expected");
    house::write_text(expected, snippet.output);
    std::string const compare = "diff -u " + quoted(expected.string()) + " " + quoted(printed.string());
    return std::system(compare.c_str()) == 0 ? std::string{} : "prints something else than the document says";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) {
        std::cerr << "usage: check_docs ROOT WORK_FOLDER PROGRAM_FOLDER COMPILE...\n";
        return 2;
    }
    fs::path const root = argv[1];
    fs::path const work = argv[2];
    std::string const path = std::string{argv[3]} + ":" + std::getenv("PATH");
    setenv("PATH", path.c_str(), 1);
    setenv("ROOT", root.c_str(), 1);
    std::string compile;
    for (int i = 4; i < argc; ++i) compile += quoted(argv[i]) + " ";
    fs::remove_all(work);
    fs::create_directories(work);

    std::vector<fs::path> documents;
    if (fs::exists(root / "README.md")) documents.push_back(root / "README.md");
    if (fs::exists(root / "docs")) {
        for (auto const& entry : fs::recursive_directory_iterator(root / "docs")) {
            if (entry.path().extension() == ".md") documents.push_back(entry.path());
        }
    }
    std::sort(documents.begin(), documents.end());

    int failures = 0;
    int done = 0;
    for (fs::path const& document : documents) {
        std::string const name = document.lexically_relative(root).generic_string();
        house::Snippets const found = house::find_snippets(house::read_text(document));
        for (std::string const& problem : found.problems) {
            std::cout << name << ": " << problem << std::endl;
            ++failures;
        }
        for (house::Snippet const& snippet : found.list) {
            std::string const stem = "snippet_" + std::to_string(done++);
            std::string const problem = run_snippet(snippet, stem, work, compile);
            if (problem.empty()) continue;
            std::cout << name << ":" << snippet.line << ": " << snippet.name << snippet.command << " " << problem
                      << std::endl;
            ++failures;
        }
    }
    std::cout << done << " tested blocks in " << documents.size() << " documents, " << failures << " problems\n";
    return failures == 0 ? 0 : 1;
}
