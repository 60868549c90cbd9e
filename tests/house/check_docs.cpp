// SPDX-License-Identifier: Apache-2.0
// check_docs [--alone] ROOT WORK_FOLDER PROGRAM_FOLDER COMPILE...: builds and runs the tested blocks of README.md and docs/**/*.md
// and compares what they print. COMPILE is the compiler with its flags; PROGRAM_FOLDER holds the program shardwise.
// Commands find ROOT in their environment. Programs are compiled in one unit, in a fraction of the time, and one by one where that
// does not compile, or with --alone, which also finds an #include that one has from another.
#include "doc_snippets.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string quoted(std::string const& text) {
    std::string out = "'";
    for (char const c : text) out += c == '\'' ? std::string{"'\\''"} : std::string{c};
    return out + "'";
}

/// Compiles a program; the end of the command line may send what the compiler says elsewhere.
bool compiles(std::string const& compile, fs::path const& source, fs::path const& program,
              std::string const& end = {}) {
    return std::system((compile + " " + quoted(source.string()) + " -o " + quoted(program.string()) + end).c_str()) ==
           0;
}

/// A tested block, where it stands, and what runs it.
struct Block {
    house::Snippet snippet;
    std::string document;
    std::string stem;
    std::string command;  ///< Empty until its program is compiled.
};

/// Compiles the programs that can be in one unit; whether it did.
bool compile_together(std::vector<Block>& blocks, fs::path const& work, std::string const& compile) {
    std::vector<std::string> programs;
    std::vector<Block*> joined;
    for (Block& block : blocks) {
        if (!block.snippet.command.empty()) continue;
        std::string const program = house::make_program(block.snippet.code);
        if (!house::can_join(program)) continue;
        programs.push_back(program);
        joined.push_back(&block);
    }
    if (joined.empty()) return true;
    fs::path const source = work / "together.cpp";
    fs::path const made = work / "together";
    house::write_text(source, house::join_programs(programs));
    if (!compiles(compile, source, made, " 2> " + quoted((work / "together.log").string()))) return false;
    for (std::size_t i = 0; i < joined.size(); ++i)
        joined[i]->command = quoted(made.string()) + " " + std::to_string(i);
    return true;
}

/// Runs one block; empty when it does what its document says.
std::string run_block(Block& block, fs::path const& work, std::string const& compile) {
    house::Snippet const& snippet = block.snippet;
    if (!snippet.command.empty()) block.command = snippet.command;
    if (block.command.empty()) {
        fs::path const source = work / (block.stem + ".cpp");
        fs::path const program = work / block.stem;
        house::write_text(source, house::make_program(snippet.code));
        if (!compiles(compile, source, program)) return "does not compile";
        block.command = quoted(program.string());
    }
    fs::path const printed = work / (block.stem + ".printed");
    int const status = std::system((block.command + " > " + quoted(printed.string())).c_str());
    // Command lines may end with any code (a plan that does not fit is 3); programs end well.
    if (snippet.command.empty() && status != 0) return "fails when run";
    if (!snippet.has_output) return {};
    fs::path const expected = work / (block.stem + ".expected");
    house::write_text(expected, snippet.output);
    std::string const compare = "diff -u " + quoted(expected.string()) + " " + quoted(printed.string());
    return std::system(compare.c_str()) == 0 ? std::string{} : "prints something else than the document says";
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_alone = argc > 1 && std::string_view{argv[1]} == "--alone";
    if (is_alone) {
        --argc;
        ++argv;
    }
    if (argc < 5) {
        std::cerr << "usage: check_docs [--alone] ROOT WORK_FOLDER PROGRAM_FOLDER COMPILE...\n";
        return 2;
    }
    fs::path const root = fs::absolute(argv[1]);
    fs::path const work = fs::absolute(argv[2]);
    std::string const path = std::string{argv[3]} + ":" + std::getenv("PATH");
    setenv("PATH", path.c_str(), 1);
    setenv("ROOT", root.c_str(), 1);
    std::string compile;
    for (int i = 4; i < argc; ++i) compile += quoted(argv[i]) + " ";
    fs::remove_all(work);
    fs::create_directories(work);
    // Blocks may write into the folder that they run in.
    fs::current_path(work);

    std::vector<fs::path> documents;
    if (fs::exists(root / "README.md")) documents.push_back(root / "README.md");
    if (fs::exists(root / "docs")) {
        for (auto const& entry : fs::recursive_directory_iterator(root / "docs")) {
            if (entry.path().extension() == ".md") documents.push_back(entry.path());
        }
    }
    std::sort(documents.begin(), documents.end());

    int failures = 0;
    std::vector<Block> blocks;
    for (fs::path const& document : documents) {
        std::string const name = document.lexically_relative(root).generic_string();
        house::Snippets const found = house::find_snippets(house::read_text(document));
        for (std::string const& problem : found.problems) {
            std::cout << name << ": " << problem << std::endl;
            ++failures;
        }
        for (house::Snippet const& snippet : found.list)
            blocks.push_back({snippet, name, "snippet_" + std::to_string(blocks.size()), {}});
    }
    if (!is_alone && !compile_together(blocks, work, compile))
        std::cout << "the programs do not compile in one unit: each is compiled alone" << std::endl;
    for (Block& block : blocks) {
        std::string const problem = run_block(block, work, compile);
        if (problem.empty()) continue;
        std::cout << block.document << ":" << block.snippet.line << ": " << block.snippet.name << block.snippet.command
                  << " " << problem << std::endl;
        ++failures;
    }
    std::cout << blocks.size() << " tested blocks in " << documents.size() << " documents, " << failures
              << " problems\n";
    return failures == 0 ? 0 : 1;
}
