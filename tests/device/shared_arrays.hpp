// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <typeinfo>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// Where the shared memory of device functions lies. It is static thread_local, and its declaration cannot be made to say more than the
/// function that it stands in: names, places and sizes are read from the program's own table of symbols.
class SharedArrays {
public:
    struct Array {
        /// From the start of a thread's variables.
        std::uint64_t at;
        std::uint64_t bytes;
    };
    using Arrays = std::vector<Array>;

    static SharedArrays const& get() {
        static SharedArrays const arrays;
        return arrays;
    }
    /// Those declared in the function whose lambda, which takes nothing, is `Lambda`: in its mangled name the function's own stands first.
    template <class Lambda>
    [[nodiscard]] Arrays of_function() const {
        std::string_view name = typeid(Lambda).name();
        if (name.starts_with('*')) name.remove_prefix(1);
        auto const prefix = "_Z" + std::string(name.substr(0, name.rfind("UlvE")));
        Arrays found;
        for (auto at = std::lower_bound(arrays_.begin(), arrays_.end(), prefix,
                                        [](Named const&one, std::string const&wanted) { return one.first < wanted; });
             at != arrays_.end() && at->first.starts_with(prefix); ++at) {
            if (auto const next = at->first[prefix.size()]; next >= '0' && next <= '9') found.push_back(at->second);
        }
        if (found.empty()) fail("the program's table of symbols has no shared memory of", prefix.c_str());
        return found;
    }
    /// Where a global variable of a thread lies.
    [[nodiscard]] std::uint64_t place(std::string const& name) const {
        for (auto const& one : arrays_)
            if (one.first == name) return one.second.at;
        fail("the program's table of symbols has no", name.c_str());
    }

private:
    using Named = std::pair<std::string, Array>;

    SharedArrays() {
        auto const file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        struct stat facts {};
        if (file < 0 || fstat(file, &facts) != 0) fail("cannot be read:", "/proc/self/exe");
        auto const size = static_cast<std::size_t>(facts.st_size);
        auto* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
        ::close(file);
        if (mapped == MAP_FAILED) fail("cannot be mapped:", "/proc/self/exe");
        auto const* const bytes = static_cast<char const*>(mapped);
        auto const* const header = reinterpret_cast<Elf64_Ehdr const*>(bytes);
        auto const* const sections = reinterpret_cast<Elf64_Shdr const*>(bytes + header->e_shoff);
        for (int i = 0; i < header->e_shnum; ++i) {
            if (sections[i].sh_type != SHT_SYMTAB) continue;
            auto const* const names = bytes + sections[sections[i].sh_link].sh_offset;
            auto const* const symbols = reinterpret_cast<Elf64_Sym const*>(bytes + sections[i].sh_offset);
            for (std::uint64_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k) {
                auto const& symbol = symbols[k];
                if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_shndx == SHN_UNDEF) continue;
                arrays_.push_back({names + symbol.st_name, {symbol.st_value, symbol.st_size}});
            }
        }
        munmap(mapped, size);
        std::sort(arrays_.begin(), arrays_.end(), [](Named const& a, Named const& b) { return a.first < b.first; });
    }
    [[noreturn]] static void fail(char const* what, char const* name) {
        std::fprintf(stderr, "emulator: %s %s\n", what, name);
        std::abort();
    }

    std::vector<Named> arrays_;
};

}  // namespace shardwise::testing
