// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/group_region.hpp>
#include <shardwise/comm/detail/process_watch.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/core/result.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What stands before the region in shared memory: enough to tell whether all ranks mean the same group.
struct SharedHeader {
    static constexpr std::uint64_t made = 0x7368617264776973;       // "shardwis"
    static constexpr std::uint64_t forgotten = 0x676F6E6500000000;  // "gone"
    static constexpr std::int32_t closed = std::numeric_limits<std::int32_t>::min();

    /// `made` when the region after it is, 0 before. Whoever turns it into forgotten_by(itself) takes the name away, and nobody else
    /// while it lives: by then it may be another region's.
    std::atomic<std::uint64_t> magic;
    /// The process that makes the region.
    std::int32_t maker;
    std::uint64_t layout;
    /// Of the group's key: SharedRegion::number_of.
    std::uint64_t number;
    std::int32_t ranks;
    std::uint64_t chunk_bytes;
    /// How many ranks have come; with `closed`, and so negative, where one gave up before all had.
    std::atomic<std::int32_t> joined;

    [[nodiscard]] static std::uint64_t forgotten_by(std::int32_t process) {
        return forgotten | static_cast<std::uint32_t>(process);
    }
    [[nodiscard]] bool is_forgotten() const { return magic.load(std::memory_order_acquire) >> 32U == forgotten >> 32U; }
};

/// A piece of named shared memory with a group's region in it.
///
/// Memory  mapped until the owner is gone; the name vanishes when all ranks have joined
class SharedRegion {
public:
    SharedRegion() = default;
    SharedRegion(SharedRegion&& other) noexcept
        : name_(std::move(other.name_)),
          descriptor_(std::exchange(other.descriptor_, -1)),
          memory_(std::exchange(other.memory_, nullptr)),
          bytes_(other.bytes_),
          inode_(other.inode_) {}
    SharedRegion& operator=(SharedRegion&& other) noexcept {
        name_.swap(other.name_);
        std::swap(descriptor_, other.descriptor_);
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(inode_, other.inode_);
        return *this;
    }
    ~SharedRegion() {
        if (memory_ != nullptr) munmap(memory_, bytes_);
        if (descriptor_ >= 0) close(descriptor_);
    }

    /// The memory of the group `key` of this user: made by whoever comes first, opened by the others. What a group left that died
    /// while it gathered is taken away.
    ///
    /// Errors  backend_failure with the system call; invalid_argument where the ranks mean different groups;
    ///         deadline_exceeded where the memory is never made
    [[nodiscard]] static Result<SharedRegion> open(std::string_view key, std::int32_t ranks, std::size_t chunk,
                                                   Deadline deadline) {
        while (true) {
            SharedRegion shared;
            shared.name_ = name_of(key);
            shared.bytes_ = header_bytes + GroupRegion::bytes(ranks, chunk);
            auto const name = shared.name_;
            auto const opened = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
            if (opened < 0 && errno != ENOENT) return system_error("shm_open", name);
            auto found = opened >= 0 ? attach(std::move(shared), opened, ranks, chunk, deadline)
                                     : make(std::move(shared), ranks, chunk, true);
            // Else the group is complete or dead, or another rank was faster in making it.
            if (!found || (found->memory_ != nullptr && found->is_gathering())) return found;
            if (found->memory_ != nullptr) found->finish_forgetting();
            if (deadline.has_passed()) return never_made(name);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }

    /// The memory of a rank that is a group by itself: nobody need find it, and nothing is left when it dies.
    [[nodiscard]] static Result<SharedRegion> alone(std::size_t chunk) {
        SharedRegion shared;
        shared.bytes_ = header_bytes + GroupRegion::bytes(1, chunk);
        return make(std::move(shared), 1, chunk, true);
    }

    /// The memory of the group `key` that a path leads to; nothing where it is not made, or something else. To be read only.
    [[nodiscard]] static std::optional<SharedRegion> look_at(std::string_view key, std::string const& path) {
        SharedRegion shared;
        shared.name_ = name_of(key);
        shared.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat status {};
        if (shared.descriptor_ < 0 || fstat(shared.descriptor_, &status) != 0) return std::nullopt;
        shared.bytes_ = static_cast<std::size_t>(status.st_size);
        if (shared.bytes_ < header_bytes || !shared.map(PROT_READ)) return std::nullopt;
        auto const magic = shared.header().magic.load(std::memory_order_acquire);
        bool const is_made = magic == SharedHeader::made || shared.header().is_forgotten();
        if (!is_made || shared.header().layout != layout || shared.header().number != number_of(key))
            return std::nullopt;
        return shared;
    }
    /// Stands for the key of this user's where there is no room for it (FNV-1a).
    [[nodiscard]] static std::uint64_t number_of(std::string_view key) { return fnv1a(name_of(key)); }

    /// Open as long as the memory is mapped.
    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] SharedHeader& header() const { return *static_cast<SharedHeader*>(memory_); }
    [[nodiscard]] GroupRegion& region() const {
        return *reinterpret_cast<GroupRegion*>(static_cast<std::byte*>(memory_) + header_bytes);
    }
    /// Takes the name away: who is in stays in, nobody else comes.
    void forget_name(std::uint64_t expected = SharedHeader::made) const {
        if (header().magic.compare_exchange_strong(expected, forgotten_by_me())) shm_unlink(name_.c_str());
    }
    /// Counts this rank in; false where another one gave up before.
    [[nodiscard]] bool count_in() const { return header().joined.fetch_add(1, std::memory_order_acq_rel) >= 0; }
    /// Keeps ranks from being counted in from now on; false where all have been.
    [[nodiscard]] bool close_group() const {
        auto joined = header().joined.load(std::memory_order_acquire);
        while (joined >= 0) {
            if (joined == header().ranks) return false;
            if (header().joined.compare_exchange_weak(joined, joined | SharedHeader::closed)) break;
        }
        return true;
    }
    [[nodiscard]] bool is_complete() const { return header().joined.load(std::memory_order_acquire) == header().ranks; }
    /// False where the name means, or is about to mean, another group: this one is complete, or it failed to gather.
    [[nodiscard]] bool is_gathering() const {
        auto const joined = header().joined.load(std::memory_order_acquire);
        return header().magic.load(std::memory_order_acquire) == SharedHeader::made && joined >= 0 &&
               joined < header().ranks;
    }
    /// The first rank whose process has come and ended, or -1; `lives` says whether another one lives. Who gave up waiting has left,
    /// and may end.
    [[nodiscard]] std::int32_t ended_rank(bool& lives) const {
        std::int32_t ended = -1;
        for (std::int32_t rank = 0; rank < region().ranks; ++rank) {
            auto const& slot = region().slot(rank);
            auto const process = slot.process.load(std::memory_order_acquire);
            if (process == 0 || slot.presence.load(std::memory_order_acquire) == Presence::left) continue;
            bool const has = has_ended(process);
            if (has && ended < 0) ended = rank;
            lives = lives || !has;
        }
        return ended;
    }
    [[nodiscard]] std::string const& name() const { return name_; }

private:
    static constexpr std::size_t header_bytes = line_pair_bytes;
    static_assert(sizeof(SharedHeader) <= header_bytes);
    /// What two builds must agree on to share memory; first, how often what lies in it has changed its meaning.
    static constexpr std::uint64_t layout =
        7'000'000'000'000 + sizeof(GroupRegion) * 1'000'000 + sizeof(RankSlot) * 1000 + sizeof(Mailbox);

    [[nodiscard]] static Error system_error(std::string_view call, std::string_view name) {
        return Error{ErrorCode::backend_failure}
            .in(call)
            .at(name)
            .because(std::strerror(errno))
            .fix("look at /dev/shm: is there room, and does it belong to this user?");
    }
    [[nodiscard]] static Error never_made(std::string_view name) {
        return Error{ErrorCode::deadline_exceeded}
            .in("shared memory")
            .at(name)
            .because("was begun but never made ready by its first rank")
            .fix("remove it from /dev/shm and start again under another key");
    }
    [[nodiscard]] static std::string name_of(std::string_view key) {
        return "/shardwise-" + std::to_string(getuid()) + "-" + std::string(key);
    }
    [[nodiscard]] Result<> map(int protection) {
        auto* const memory = mmap(nullptr, bytes_, protection, MAP_SHARED, descriptor_, 0);
        if (memory == MAP_FAILED) return system_error("mmap", name_);
        memory_ = memory;
        return {};
    }

    [[nodiscard]] static std::uint64_t forgotten_by_me() {
        return SharedHeader::forgotten_by(static_cast<std::int32_t>(getpid()));
    }
    /// Takes the name away in the place of a process that ended before it could. Nobody else may by then: the name stays this
    /// region's if it is.
    void finish_forgetting() const {
        auto magic = header().magic.load(std::memory_order_acquire);
        auto const process = static_cast<std::int32_t>(static_cast<std::uint32_t>(magic));
        if (!header().is_forgotten() || process == 0 || !has_ended(process)) return;
        if (!header().magic.compare_exchange_strong(magic, forgotten_by_me())) return;
        auto const named = shm_open(name_.c_str(), O_RDWR | O_CLOEXEC, 0600);
        if (named < 0) return;
        Closer const closer{named};
        struct stat status {};
        if (fstat(named, &status) == 0 && status.st_ino == inode_) shm_unlink(name_.c_str());
    }

    struct Closer {
        int descriptor;
        ~Closer() { close(descriptor); }
    };
    struct Unlinker {
        std::string const& path;
        ~Unlinker() {
            if (!path.empty()) unlink(path.c_str());
        }
    };

    /// A file in /dev/shm, without a path if possible; else, or unless `is_unnamed`, with one that is no key's.
    [[nodiscard]] static int new_file(bool is_unnamed, std::string_view name, std::string& path) {
        if (is_unnamed) {
            auto const descriptor = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
            if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
        }
        path = "/dev/shm" + std::string(name.empty() ? "/shardwise" : name) + "#XXXXXX";
        auto const descriptor = mkostemp(path.data(), O_CLOEXEC);
        if (descriptor < 0) path.clear();
        return descriptor;
    }

    /// Nothing where another rank was faster. The memory gets its name when it says who makes it: a maker that dies is no obstacle.
    [[nodiscard]] static Result<SharedRegion> make(SharedRegion shared, std::int32_t ranks, std::size_t chunk,
                                                   bool is_unnamed) {
        std::string made;
        auto const descriptor = shared.descriptor_ = new_file(is_unnamed, shared.name_, made);
        if (descriptor < 0) return system_error("open", "/dev/shm");
        Unlinker const unlinker{made};
        if (ftruncate(descriptor, static_cast<off_t>(shared.bytes_)) != 0)
            return system_error("ftruncate", shared.name_);
        // Room is taken before it is written to: a full /dev/shm is an error here, not a SIGBUS in the middle of a collective.
        if (auto const taken = take_room(descriptor, header_bytes, shared.name_); !taken) return taken.error();
        if (auto const mapped = shared.map(PROT_READ | PROT_WRITE); !mapped) return mapped.error();
        auto* const header = new (shared.memory_) SharedHeader{};
        header->maker = static_cast<std::int32_t>(getpid());
        header->layout = layout;
        header->number = fnv1a(shared.name_);
        header->ranks = ranks;
        header->chunk_bytes = chunk;
        auto const from = made.empty() ? "/proc/self/fd/" + std::to_string(descriptor) : made;
        auto const path = "/dev/shm" + shared.name_;
        auto const follows = made.empty() ? AT_SYMLINK_FOLLOW : 0;
        if (!shared.name_.empty() && linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), follows) != 0) {
            if (errno == EEXIST) return Result<SharedRegion>(SharedRegion());
            // There is no /proc: what has no name gets none.
            if (errno == ENOENT && made.empty()) {
                SharedRegion again;
                again.name_ = shared.name_;
                again.bytes_ = shared.bytes_;
                return make(std::move(again), ranks, chunk, false);
            }
            return system_error("linkat", shared.name_);
        }
        if (auto const taken = take_room(descriptor, shared.bytes_, shared.name_); !taken) {
            shared.forget_name(0);
            return taken.error();
        }
        GroupRegion::create(&shared.region(), ranks, chunk);
        header->magic.store(shared.name_.empty() ? forgotten_by_me() : SharedHeader::made, std::memory_order_release);
        return Result<SharedRegion>(std::move(shared));
    }
    [[nodiscard]] static Result<> take_room(int descriptor, std::size_t bytes, std::string_view name) {
        auto const status = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
        errno = status;
        return status == 0 ? Result<>{} : system_error("posix_fallocate", name);
    }

    [[nodiscard]] static Result<SharedRegion> attach(SharedRegion shared, int descriptor, std::int32_t ranks,
                                                     std::size_t chunk, Deadline deadline) {
        shared.descriptor_ = descriptor;
        struct stat status {};
        while (true) {
            if (fstat(descriptor, &status) != 0) return system_error("fstat", shared.name_);
            if (status.st_uid != geteuid()) {
                return Error{ErrorCode::backend_failure}
                    .in("shared memory")
                    .at(shared.name_)
                    .because("belongs to another user")
                    .got(status.st_uid)
                    .expected(geteuid())
                    .fix("start under another key");
            }
            if (static_cast<std::size_t>(status.st_size) >= header_bytes) break;
            if (deadline.has_passed()) return never_made(shared.name_);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        shared.bytes_ = static_cast<std::size_t>(status.st_size);
        shared.inode_ = status.st_ino;
        if (auto const mapped = shared.map(PROT_READ | PROT_WRITE); !mapped) return mapped.error();
        auto& header = shared.header();
        while (header.magic.load(std::memory_order_acquire) == 0) {
            if (header.maker != 0 && has_ended(header.maker)) {
                shared.forget_name(0);
                continue;
            }
            if (deadline.has_passed()) return never_made(shared.name_);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        if (header.is_forgotten()) return Result<SharedRegion>(std::move(shared));
        Error differs{ErrorCode::invalid_argument};
        differs.in("shared memory").at(shared.name_).fix("start all ranks with the same options and the same build");
        if (header.layout != layout) return differs.because("was made by another version of this library");
        bool lives = false;
        (void)shared.ended_rank(lives);
        if (!lives && has_ended(header.maker)) {
            (void)shared.close_group();
            shared.forget_name();
        }
        if (header.is_forgotten()) return Result<SharedRegion>(std::move(shared));
        if (header.ranks != ranks)
            return differs.because("belongs to a group of another size").got(ranks).expected(header.ranks);
        if (header.chunk_bytes != chunk) {
            return differs.because("belongs to a group with other chunks")
                .got(static_cast<std::int64_t>(chunk))
                .expected(static_cast<std::int64_t>(header.chunk_bytes));
        }
        return Result<SharedRegion>(std::move(shared));
    }

    std::string name_;
    int descriptor_ = -1;
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
    /// Of what another process made.
    ino_t inode_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
