// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/launch/detail/line_splitter.hpp>
#include <shardwise/launch/detail/output_sink.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What becomes of ranks' output.
struct RankOutputOptions {
    /// "[rank2] " stands before each line.
    bool has_prefix = true;
    /// The folder that rank.N.out and rank.N.err are kept in, as they were written; "": they are not.
    std::string log_folder{};
    /// The log files are added to instead of begun anew.
    bool is_added = false;
    /// Where lines go.
    int output = STDOUT_FILENO;
    int error = STDERR_FILENO;
};

/// The standard output and error of ranks: passed on line by line, never in parts that another's could come between. No
/// rank waits for another's output, nor for who reads the other stream.
class RankOutputs {
public:
    /// Lines of the standard error that are kept of each rank.
    static constexpr std::size_t kept_lines = 20;

    /// For the ranks `first`, `first + 1`, ...
    ///
    /// Errors  file_unwritable for a log file; backend_failure with the system call
    [[nodiscard]] static Result<RankOutputs> open(std::int32_t first, std::int32_t count,
                                                  RankOutputOptions const& options) {
        RankOutputs out;
        out.wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (out.wake_ < 0) return Error{ErrorCode::backend_failure}.in("eventfd").because(std::strerror(errno));
        out.sinks_[0] = std::make_shared<detail::OutputSink>(options.output, out.wake_);
        bool const is_one = is_same_file(options.output, options.error);
        out.sinks_[1] = is_one ? out.sinks_[0] : std::make_shared<detail::OutputSink>(options.error, out.wake_);
        if (!options.log_folder.empty()) {
            if (auto const made = make_folder(options.log_folder); !made) return made.error();
        }
        for (std::int32_t i = 0; i < 2 * count; ++i) {
            auto const rank = std::to_string(first + i / 2);
            Stream stream(options.has_prefix ? "[rank" + rank + "] " : "", i % 2 == 1 ? kept_lines : 0);
            int ends[2] = {-1, -1};
            if (pipe2(ends, O_CLOEXEC) != 0) {
                return Error{ErrorCode::backend_failure}
                    .in("pipe2")
                    .because(std::strerror(errno))
                    .fix("start fewer processes, or raise ulimit -n");
            }
            stream.reading = ends[0];
            stream.writing = ends[1];
            (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
            if (!options.log_folder.empty()) {
                stream.log_name = options.log_folder + "/rank." + rank + (i % 2 == 0 ? ".out" : ".err");
                auto const how = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (options.is_added ? 0 : O_TRUNC);
                stream.log = ::open(stream.log_name.c_str(), how, 0666);
                auto const problem = errno;
                out.streams_.push_back(std::move(stream));
                if (out.streams_.back().log < 0) return unwritable(out.streams_.back().log_name, problem);
                continue;
            }
            out.streams_.push_back(std::move(stream));
        }
        return Result<RankOutputs>(std::move(out));
    }
    RankOutputs(RankOutputs&& other) noexcept
        : wake_(std::exchange(other.wake_, -1)),
          sinks_(std::move(other.sinks_)),
          streams_(std::move(other.streams_)),
          log_problem_(std::move(other.log_problem_)) {}
    RankOutputs& operator=(RankOutputs&&) = delete;
    ~RankOutputs() {
        for (auto& stream : streams_) {
            for (auto* descriptor : {&stream.reading, &stream.writing, &stream.log}) close_one(*descriptor);
        }
        sinks_ = {};
        close_one(wake_);
    }

    /// The ends that a rank writes to; to be closed here once it was started.
    [[nodiscard]] int output_of(std::int32_t i) const { return stream(i, 0).writing; }
    [[nodiscard]] int error_of(std::int32_t i) const { return stream(i, 1).writing; }
    void close_writing() {
        for (auto& stream : streams_) close_one(stream.writing);
    }

    /// Adds what to wait for: output that somebody takes.
    void add_to(std::vector<pollfd>& entries) const {
        entries.push_back({wake_, POLLIN, 0});
        bool const is_full[2] = {sinks_[0]->is_full(), sinks_[1]->is_full()};
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            if (streams_[i].reading >= 0 && !is_full[i % 2]) entries.push_back({streams_[i].reading, POLLIN, 0});
        }
    }
    /// Passes on what has come, at most `chunk` bytes of each stream; false where there was nothing.
    bool pass_on() {
        std::uint64_t count = 0;
        (void)!::read(wake_, &count, sizeof count);
        bool has_any = false;
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            auto& stream = streams_[i];
            if (stream.reading < 0 || sinks_[i % 2]->is_full()) continue;
            has_any = pass_on(stream, *sinks_[i % 2]) || has_any;
        }
        return has_any;
    }
    /// Output still waits for somebody to take it.
    [[nodiscard]] bool is_held_up() const { return sinks_[0]->is_full() || sinks_[1]->is_full(); }
    /// Gives what came without an end of line.
    void finish() {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
            std::string text;
            streams_[i].lines.finish(text);
            sinks_[i % 2]->add(std::move(text));
        }
    }
    /// Writes a text of the launcher itself to the error stream.
    void say(std::string text) const { sinks_[1]->add(std::move(text)); }
    /// Waits until all is written; false where the deadline passes before.
    [[nodiscard]] bool flush(Deadline deadline) const {
        return sinks_[0]->flush(deadline) && sinks_[1]->flush(deadline);
    }

    /// The last lines of a rank's standard error.
    [[nodiscard]] std::deque<std::string> const& last_errors(std::int32_t i) const { return stream(i, 1).lines.last(); }
    /// Whether what the ranks wrote reaches who reads it, and the log files.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> check() const {
        for (int i = 0; i < 2; ++i) {
            auto const problem = sinks_[static_cast<std::size_t>(i)]->problem();
            if (problem != 0) return unwritable(i == 0 ? "the standard output" : "the standard error", problem);
        }
        return {};
    }
    /// What is missing in the log files; nothing where they are whole.
    [[nodiscard]] std::optional<Error> const& log_problem() const { return log_problem_; }

private:
    static constexpr std::size_t chunk = 65536;

    struct Stream {
        Stream(std::string prefix, std::size_t kept) : lines(std::move(prefix), kept) {}

        int reading = -1;
        int writing = -1;
        int log = -1;
        std::string log_name;
        detail::LineSplitter lines;
    };

    RankOutputs() : buffer_(chunk, '\0') {}
    static void close_one(int& descriptor) {
        if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
    }
    [[nodiscard]] Stream const& stream(std::int32_t rank, std::size_t which) const {
        return streams_[2 * static_cast<std::size_t>(rank) + which];
    }
    [[nodiscard]] static Error unwritable(std::string const& name, int problem) {
        return Error{ErrorCode::file_unwritable}.in(name).because(std::strerror(problem));
    }
    /// One pipe or terminal: two threads would mix their lines in it.
    [[nodiscard]] static bool is_same_file(int a, int b) {
        struct stat first {};
        struct stat second {};
        return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
    }
    [[nodiscard]] static Result<> make_folder(std::string const& folder) {
        for (std::size_t end = 1; end != std::string::npos; ++end) {
            end = folder.find('/', end);
            auto const part = folder.substr(0, end);
            if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && end == std::string::npos)
                return unwritable(folder, errno);
            if (end == std::string::npos) break;
        }
        return {};
    }

    [[nodiscard]] bool pass_on(Stream& stream, detail::OutputSink& sink) {
        buffer_.resize(chunk);
        auto const count = ::read(stream.reading, buffer_.data(), buffer_.size());
        if (count < 0) return errno == EINTR;
        if (count == 0) {
            close_one(stream.reading);
            return true;
        }
        std::string_view const bytes(buffer_.data(), static_cast<std::size_t>(count));
        std::string text;
        stream.lines.add(bytes, text);
        sink.add(std::move(text));
        for (auto rest = bytes; stream.log >= 0 && !rest.empty();) {
            auto const written = ::write(stream.log, rest.data(), rest.size());
            if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
            if (written >= 0 || errno == EINTR) continue;
            if (!log_problem_) log_problem_ = unwritable(stream.log_name, errno);
            close_one(stream.log);
        }
        return true;
    }

    int wake_ = -1;
    std::array<std::shared_ptr<detail::OutputSink>, 2> sinks_;
    std::vector<Stream> streams_;
    std::string buffer_;
    std::optional<Error> log_problem_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
