// SPDX-License-Identifier: Apache-2.0
// Stands before the calls that change files (LD_PRELOAD), counts those below one folder, and ends the process at one of them:
//
//   WATCHED_FOLDER  the folder, absolute
//   WATCHED_LOG     a file that gets a line of each call before it is made: its name and what it is about
//   KILLED_AT       the number of a call, from 1
//   KILLED          before, within (half of what a write has to write is written) or after
//   WATCHED_FREE    what the disk of the folder has free, in bytes
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

std::string_view variable(char const* name) {
    auto const* const value = std::getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
}

bool is_below(std::string_view path) {
    static std::string const folder(variable("WATCHED_FOLDER"));
    return !folder.empty() && path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}
std::string path_of(int descriptor) {
    std::string const link = "/proc/self/fd/" + std::to_string(descriptor);
    char path[4096];
    auto const size = ::readlink(link.c_str(), path, sizeof(path));
    return {path, size > 0 ? static_cast<std::size_t>(size) : 0};
}

[[noreturn]] void die() {
    (void)::kill(::getpid(), SIGKILL);
    ::_exit(9);
}

/// The call of that name behind this one.
template <class Call>
Call* next(char const* name) {
    return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

/// Counts a call where it is about something below the folder; true where it is the one.
bool is_the_one(std::string_view name, std::string_view path) {
    if (!is_below(path)) return false;
    static long count = 0;
    static long const one = std::strtol(std::string(variable("KILLED_AT")).c_str(), nullptr, 10);
    static int const log = [] {
        std::string const path(variable("WATCHED_LOG"));
        return path.empty() ? -1
                            : static_cast<int>(
                                  ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666));
    }();
    auto const number = ++count;
    auto const line = std::string(name) + " " + std::string(path) + "\n";
    if (log >= 0) (void)next<ssize_t(int, void const*, std::size_t)>("write")(log, line.data(), line.size());
    return number == one;
}

/// One call at a time: those that are in the log when the process ends were made.
std::recursive_mutex& calls() {
    static std::recursive_mutex one;
    return one;
}

/// Makes a call, with the end of the process before or after it.
template <class Call>
auto make(std::string_view name, std::string_view path, Call const& call) -> decltype(call()) {
    std::lock_guard const lock(calls());
    if (!is_the_one(name, path)) return call();
    if (variable("KILLED") == "after") (void)call();
    die();
}

/// Makes a write: of half of it, where the process ends within.
template <class Call>
ssize_t make_write(std::string_view name, std::string_view path, std::size_t size, Call const& call) {
    std::lock_guard const lock(calls());
    if (!is_the_one(name, path)) return call(size);
    auto const how = variable("KILLED");
    if (how == "within") (void)call((size + 1) / 2);
    if (how == "after") (void)call(size);
    die();
}

int open_file(char const* symbol, char const* path, int flags, mode_t mode) {
    auto const call = [&] { return next<int(char const*, int, ...)>(symbol)(path, flags, mode); };
    return (flags & O_CREAT) != 0 ? make("open", path, call) : call();
}
mode_t mode_of(int flags, std::va_list words) {
    bool const makes_file = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return makes_file ? static_cast<mode_t>(va_arg(words, unsigned)) : 0;
}

/// Asks for what a disk has free, and says the folder's own number.
template <class Disk>
int ask_space(char const* symbol, char const* path, Disk* disk) {
    auto const done = next<int(char const*, Disk*)>(symbol)(path, disk);
    auto const free = variable("WATCHED_FREE");
    if (done != 0 || free.empty() || !is_below(path)) return done;
    disk->f_frsize = 1;
    disk->f_bavail = static_cast<fsblkcnt_t>(std::atoll(free.data()));
    return done;
}

}  // namespace

extern "C" {

int statvfs(char const* path, struct statvfs* disk) noexcept {
    return ask_space("statvfs", path, disk);
}
int statvfs64(char const* path, struct statvfs64* disk) noexcept {
    return ask_space("statvfs64", path, disk);
}

int mkdir(char const* path, mode_t mode) {
    return make("mkdir", path, [&] { return next<int(char const*, mode_t)>("mkdir")(path, mode); });
}
int open(char const* path, int flags, ...) {
    std::va_list words;
    va_start(words, flags);
    auto const mode = mode_of(flags, words);
    va_end(words);
    return open_file("open", path, flags, mode);
}
int open64(char const* path, int flags, ...) {
    std::va_list words;
    va_start(words, flags);
    auto const mode = mode_of(flags, words);
    va_end(words);
    return open_file("open64", path, flags, mode);
}
int fallocate(int descriptor, int mode, off_t offset, off_t size) {
    return make("fallocate", path_of(descriptor),
                [&] { return next<int(int, int, off_t, off_t)>("fallocate")(descriptor, mode, offset, size); });
}
int ftruncate(int descriptor, off_t size) noexcept {
    return make("ftruncate", path_of(descriptor), [&] { return next<int(int, off_t)>("ftruncate")(descriptor, size); });
}
ssize_t write(int descriptor, void const* data, std::size_t size) {
    auto* const behind = next<ssize_t(int, void const*, std::size_t)>("write");
    return make_write("write", path_of(descriptor), size,
                      [&](std::size_t count) { return behind(descriptor, data, count); });
}
ssize_t pwrite(int descriptor, void const* data, std::size_t size, off_t offset) {
    auto* const behind = next<ssize_t(int, void const*, std::size_t, off_t)>("pwrite");
    return make_write("pwrite", path_of(descriptor), size,
                      [&](std::size_t count) { return behind(descriptor, data, count, offset); });
}
int fsync(int descriptor) {
    return make("fsync", path_of(descriptor), [&] { return next<int(int)>("fsync")(descriptor); });
}
int rename(char const* from, char const* to) noexcept {
    return make("rename", to, [&] { return next<int(char const*, char const*)>("rename")(from, to); });
}
int unlink(char const* path) noexcept {
    return make("unlink", path, [&] { return next<int(char const*)>("unlink")(path); });
}
int rmdir(char const* path) noexcept {
    return make("rmdir", path, [&] { return next<int(char const*)>("rmdir")(path); });
}

}  // extern "C"
