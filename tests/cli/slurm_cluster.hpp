// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"
#include "temporary_folder.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::tests {

/// A real SLURM on this machine for as long as the object lives: two nodes, n1 and n2, of four cores and four GPUs of type
/// h100, which are files. Nothing authenticates, nothing is accounted, its ports are its own.
///
/// Source  Debian's slurm-wlm 22.05: man slurm.conf, gres.conf; slurmd -N makes several nodes of one host
class SlurmCluster {
public:
    SlurmCluster() { why_not_ = start(); }
    SlurmCluster(SlurmCluster const&) = delete;
    SlurmCluster& operator=(SlurmCluster const&) = delete;
    ~SlurmCluster() {
        // slurmctld last: nodes sign off.
        for (auto it = processes_.rbegin(); it != processes_.rend(); ++it) end(*it);
    }

    /// Why there is none; empty where it is up.
    [[nodiscard]] std::string const& why_not() const { return why_not_; }
    [[nodiscard]] std::string conf() const { return folder_ / "slurm.conf"; }

    /// Runs one of SLURM's programs in a folder, with our program by its name.
    [[nodiscard]] Ran run(std::vector<std::string> words, std::string const& in) const {
        std::string const program = SHARDWISE_PROGRAM;
        auto const bin = program.substr(0, program.rfind('/'));
        words.insert(words.begin(), {"env", "-C", in, "timeout", "60"});
        char const* const path = std::getenv("PATH");
        return run_command_line(words, {{"SLURM_CONF", conf()},
                                        {"PATH", bin + ":" + (path == nullptr ? "/usr/bin:/bin" : path)}});
    }

    /// Submits a batch script with arguments, waits for its end, and returns its state ("COMPLETED") and what it wrote.
    [[nodiscard]] std::pair<std::string, std::string> submit(std::string const& script, std::vector<std::string> const& more,
                                                             std::string const& in) const {
        std::vector<std::string> words{"sbatch", "--parsable", "--output=job-%j.out", script};
        words.insert(words.end(), more.begin(), more.end());
        auto const submitted = run(words, in);
        auto const id = submitted.out.substr(0, submitted.out.find('\n'));
        if (submitted.status != 0 || id.empty()) return {"refused", submitted.err};
        std::string state;
        for (int i = 0; i < 400; ++i) {
            state = run({"sh", "-c", "scontrol show job -o " + id + " | sed 's/.*JobState=\\([A-Z_]*\\).*/\\1/'"}, in).out;
            state = state.substr(0, state.find('\n'));
            if (state != "PENDING" && state != "RUNNING" && state != "COMPLETING" && state != "CONFIGURING") break;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        return {state, read_text(in + "/job-" + id + ".out")};
    }

private:
    [[nodiscard]] std::string start() {
        if (run({"sh", "-c", "command -v slurmctld && command -v slurmd && command -v sbatch"}, "/").status != 0)
            return "SLURM (scripts/setup.sh installs slurm-wlm)";
        if (::geteuid() != 0) return "root, as which SLURM's daemons start ranks";
        for (auto const* const node : {"n1", "n2"}) {
            for (int i = 0; i < 4; ++i) {
                auto const path = folder_ / (std::string(node) + "-gpu" + std::to_string(i));
                // Another /dev/null: SLURM takes only device files.
                if (::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0)
                    return std::string("the right to make device files: ") + std::strerror(errno);
            }
        }
        write_files();
        launch({"slurmctld", "-D"});
        // Nodes that come before it try again after seconds only.
        auto const answers = [this](std::vector<std::string> const& words, std::string_view wanted) {
            for (int i = 0; i < 150; ++i) {
                auto const ran = run(words, "/");
                if (ran.status == 0 && (wanted.empty() || ran.out == wanted)) return true;
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
            }
            return false;
        };
        if (!answers({"sinfo", "-h"}, "")) return "a slurmctld that starts: " + log("ctld");
        launch({"slurmd", "-D", "-N", "n1"});
        launch({"slurmd", "-D", "-N", "n2"});
        if (!answers({"sinfo", "-h", "-N", "-o", "%N %T"}, "n1 idle\nn2 idle\n")) return "slurmds that start: " + log("n1");
        return {};
    }

    void write_files() {
        char host[256] = {};
        ::gethostname(host, sizeof host - 1);
        std::string name(host);
        name = name.substr(0, name.find('.'));
        auto const port = 20000 + ::getpid() % 10000 * 3;
        auto const& at = folder_.path();
        for (auto const* const part : {"state", "log", "run"}) ::mkdir((at + "/" + part).c_str(), 0755);
        ::chmod(at.c_str(), 0755);
        std::string conf = "ClusterName=shardwise\nSlurmctldHost=" + name + "(127.0.0.1)\nSlurmctldPort=" +
                           std::to_string(port) +
                           "\nSlurmUser=root\nAuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/linuxproc\n"
                           "TaskPlugin=task/none\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n"
                           "AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n"
                           "SelectTypeParameters=CR_Core_Memory\nSchedulerType=sched/builtin\nStateSaveLocation=" +
                           at + "/state\nSlurmdSpoolDir=" + at + "/spool-%n\nSlurmctldPidFile=" + at +
                           "/run/ctld.pid\nSlurmdPidFile=" + at + "/run/%n.pid\nSlurmctldLogFile=" + at +
                           "/log/ctld.log\nSlurmdLogFile=" + at +
                           "/log/%n.log\nReturnToService=2\nMpiDefault=none\nKillWait=5\nGresTypes=gpu\n"
                           "SlurmdParameters=config_overrides\n";
        std::string gres;
        for (int i = 1; i <= 2; ++i) {
            auto const node = "n" + std::to_string(i);
            conf += "NodeName=" + node + " NodeHostname=" + name + " NodeAddr=127.0.0.1 Port=" + std::to_string(port + i) +
                    " CPUs=4 RealMemory=2000 Gres=gpu:h100:4\n";
            gres += "NodeName=" + node + " Name=gpu Type=h100 File=" + at + "/" + node + "-gpu[0-3]\n";
        }
        (void)folder_.write("slurm.conf", conf + "PartitionName=main Nodes=n[1-2] Default=YES MaxTime=10:00 State=UP\n");
        (void)folder_.write("gres.conf", gres);
        (void)folder_.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n");
    }

    /// Starts a daemon that ends with this process.
    void launch(std::vector<std::string> words) {
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        auto const out = folder_ / ("log/" + words.back() + ".out");
        auto const child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::setenv("SLURM_CONF", conf().c_str(), 1);
            if (std::freopen(out.c_str(), "w", stdout) == nullptr || std::freopen(out.c_str(), "w", stderr) == nullptr)
                ::_exit(126);
            ::execvp(arguments[0], arguments.data());
            ::_exit(127);
        }
        if (child > 0) processes_.push_back(child);
    }

    static void end(pid_t process) {
        ::kill(process, SIGTERM);
        for (int i = 0; i < 300; ++i) {
            if (::waitpid(process, nullptr, WNOHANG) != 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ::kill(process, SIGKILL);
        ::waitpid(process, nullptr, 0);
    }

    [[nodiscard]] std::string log(std::string const& name) const {
        auto const text = read_text(folder_ / ("log/" + name + ".log"));
        return text.size() < 400 ? text : text.substr(text.size() - 400);
    }

    TemporaryFolder folder_;
    std::vector<pid_t> processes_;
    std::string why_not_;
};

}  // namespace shardwise::tests
