// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/scripts/kubernetes_job.hpp>
#include <shardwise/deploy/scripts/mpirun_line.hpp>
#include <shardwise/deploy/scripts/planned_run.hpp>
#include <shardwise/deploy/scripts/slurm_script.hpp>
#include <shardwise/deploy/scripts/torchrun_lines.hpp>
#include <shardwise/plan/read_plan.hpp>

#include "saved_plans.hpp"
#include "temporary_folder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using shardwise::tests::PlanText;

namespace {

[[nodiscard]] bool has(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

[[nodiscard]] SavedPlan plan_of(PlanText const& text) {
    auto plan = parse_plan(text.text(), "plan.json");
    REQUIRE(plan);
    return *std::move(plan);
}

/// The planned run of a plan, to be launched.
[[nodiscard]] JobRequest request_for(PlanText const& text) {
    auto const plan = plan_of(text);
    JobRequest request;
    auto const layout = layout_of(plan);
    REQUIRE(layout);
    request.layout = *layout;
    request.name = job_name_for(plan.model);
    auto const run = planned_run(plan);
    REQUIRE(run);
    request.command = *run;
    request.is_run = true;
    request.mount = plan.source;
    request.image = "shardwise:1";
    return request;
}

/// What bash prints, with programs of these names, each in one line of shell, before all others.
struct Bash {
    testing::TemporaryFolder folder{};

    void add(std::string const& name, std::string const& line) const {
        auto const path = folder.path() + "/" + name;
        std::ofstream(path) << "#!/bin/sh\n" << line << "\n";
        REQUIRE(std::system(("chmod +x " + path).c_str()) == 0);
    }
    [[nodiscard]] std::string run(std::string const& script, std::string const& flags = {}) const {
        auto const path = folder.path() + "/script";
        std::ofstream(path) << script;
        auto const command = "PATH=" + folder.path() + ":$PATH bash " + flags + " " + path + " 2>&1; printf ' %s' $?";
        auto* const pipe = ::popen(command.c_str(), "r");
        REQUIRE(pipe != nullptr);
        std::string out;
        std::array<char, 4096> buffer{};
        while (auto const count = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), count);
        CHECK(::pclose(pipe) == 0);
        return out;
    }
};

[[nodiscard]] std::string lines_of_words(std::vector<std::string> const& words) {
    std::string out;
    for (auto const& word : words) out += "<" + word + ">\n";
    return out;
}

void check_refused(Result<std::string> const& text, ErrorCode code, std::string_view reason) {
    REQUIRE(!text);
    CHECK(text.error().code() == code);
    CHECK_MESSAGE(has(text.error().message(), reason), text.error().message());
}

}  // namespace

TEST_CASE("slurm_script: a task a rank, all devices of a node to each, never --gpus-per-task") {
    auto request = request_for({});
    auto const script = slurm_script(request);
    REQUIRE(script);
    CHECK(*script == R"(#!/bin/bash
#SBATCH --job-name=shardwise-small
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --distribution=block
#SBATCH --signal=TERM@60
#SBATCH --output=%x-%j.out

set -euo pipefail
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${hosts%%$'\n'*}
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}
export MASTER_ADDR MASTER_PORT OMP_NUM_THREADS

exec srun --kill-on-bad-exit=1 --label --cpus-per-task="$SLURM_CPUS_PER_TASK" --mpi=none \
    shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16 "$@"
)");
    request.device_type = "h100";
    request.cpus = 8;
    request.hosts = {"n1", "n2"};
    request.is_run = false;
    request.command = {"python", "train.py"};
    auto const other = slurm_script(request);
    REQUIRE(other);
    CHECK(has(*other, "#SBATCH --gpus-per-node=h100:2\n#SBATCH --cpus-per-task=8\n"));
    CHECK(has(*other, "#SBATCH --nodelist=n1,n2\n"));
    CHECK(has(*other, "\"$SLURM_CPUS_PER_TASK\" \\\n    python train.py\n"));
    // Processors are no devices to a scheduler.
    auto const host = slurm_script(request_for({.kind = "cpu"}));
    REQUIRE(host);
    CHECK_FALSE(has(*host, "gpu"));
}

TEST_CASE("mpirun_line, torchrun_lines: one line, and a line for each node") {
    auto request = request_for({});
    CHECK(*mpirun_line(request) ==
          "mpirun -n 4 --bind-to none --map-by ppr:2:node shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n");
    CHECK(*torchrun_lines(request) ==
          "torchrun --no-python --nnodes 2 --nproc-per-node 2 --node-rank 0 --master-addr "
          "\"${MASTER_ADDR:?is the name of the first node}\" --master-port 29500 "
          "shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n"
          "torchrun --no-python --nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr "
          "\"${MASTER_ADDR:?is the name of the first node}\" --master-port 29500 "
          "shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n");
    request.hosts = {"a", "b.c"};
    request.cpus = 4;
    CHECK(*mpirun_line(request) == "mpirun -n 4 --bind-to none --host a:2,b.c:2 -x OMP_NUM_THREADS=4 "
                                   "shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n");
    CHECK(has(*torchrun_lines(request), "OMP_NUM_THREADS=4 torchrun --no-python --nnodes 2 --nproc-per-node 2 "
                                        "--node-rank 1 --master-addr a --master-port 29500 shardwise"));
    auto const one = request_for({.devices = "4xH100-80GB", .per_node = 4});
    CHECK(*mpirun_line(one) ==
          "mpirun -n 4 --bind-to none shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n");
    CHECK(*torchrun_lines(one) == "torchrun --no-python --standalone --nproc-per-node 4 "
                                  "shardwise run /models/small --tp 2 --pp 2 --kv-dtype bf16\n");
}

TEST_CASE("kubernetes_job: an Indexed Job whose pods find the first by a headless Service") {
    auto const job = kubernetes_job(request_for({.devices = "2x(4xH100-80GB)", .tp = 4, .pp = 2, .per_node = 4}));
    REQUIRE(job);
    CHECK(*job == R"yaml(apiVersion: v1
kind: Service
metadata:
  name: "shardwise-small"
spec:
  clusterIP: "None"
  publishNotReadyAddresses: true
  selector:
    app: "shardwise-small"
  ports:
    - name: rendezvous
      port: 29500
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: "shardwise-small"
spec:
  accessModes:
    - ReadWriteMany
  resources:
    requests:
      storage: "1Gi"
---
apiVersion: batch/v1
kind: Job
metadata:
  name: "shardwise-small"
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  backoffLimit: 0
  template:
    metadata:
      labels:
        app: "shardwise-small"
    spec:
      restartPolicy: Never
      subdomain: "shardwise-small"
      containers:
        - name: ranks
          image: "shardwise:1"
          command: ["shardwise"]
          args:
            - "launch"
            - "--nproc"
            - "4"
            - "--nnodes"
            - "2"
            - "--node-rank"
            - "$(JOB_COMPLETION_INDEX)"
            - "--master-addr"
            - "shardwise-small-0.shardwise-small"
            - "--master-port"
            - "29500"
            - "--"
            - "shardwise"
            - "run"
            - "/models/small"
            - "--tp"
            - "4"
            - "--pp"
            - "2"
            - "--kv-dtype"
            - "bf16"
          env:
            - name: JOB_UID
              valueFrom:
                fieldRef:
                  fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
            - name: SHARDWISE_RENDEZVOUS
              value: "/rendezvous/$(JOB_UID)"
          resources:
            limits:
              nvidia.com/gpu: "4"
          volumeMounts:
            - name: shm
              mountPath: /dev/shm
            - name: model
              mountPath: "/models/small"
              readOnly: true
            - name: rendezvous
              mountPath: /rendezvous
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
        - name: model
          hostPath:
            path: "/models/small"
        - name: rendezvous
          persistentVolumeClaim:
            claimName: "shardwise-small"
)yaml");
    auto request = request_for({.devices = "4xMI300X", .name = "MI300X", .kind = "hip", .per_node = 4});
    request.command = {"echo", "$(PATH) $$ $HOME"};
    request.is_run = false;
    request.cpus = 3;
    auto const one = kubernetes_job(request);
    REQUIRE(one);
    CHECK(has(*one, "amd.com/gpu: \"4\""));
    CHECK(has(*one, "cpu: \"12\""));
    CHECK(has(*one, R"(- "$$(PATH) $$$ $HOME")"));
    CHECK_FALSE(has(*one, "rendezvous:"));
    CHECK_FALSE(has(*one, "--nnodes"));
    request.command = {"a\xFF"};
    check_refused(kubernetes_job(request), ErrorCode::invalid_argument, "UTF-8");
    request.command = {"a"};
    request.image = "--privileged";
    check_refused(kubernetes_job(request), ErrorCode::invalid_argument, "image");
    request = request_for({.devices = "1xM2-Ultra-192GB", .name = "M2-Ultra-192GB", .kind = "metal", .tp = 1, .pp = 1});
    check_refused(kubernetes_job(request), ErrorCode::unsupported, "metal");
}

TEST_CASE("launch scripts: bash accepts them, and hostile words come to the command as they are") {
    PlanText text;
    text.model = "a b'c$(touch x)\n#SBATCH --uid=0";
    text.source = "/models/a b'c$(touch x)\n#SBATCH --uid=0 `id` \"$HOME\" \\ *";
    auto request = request_for(text);
    std::string const more = "in 'two'\nlines; $PATH";
    Bash const bash;
    bash.add("scontrol", "echo n1; echo n2");
    bash.add("torchrun", "printf '<%s>\\n' \"$@\"");
    bash.add("mpirun", "printf '<%s>\\n' \"$@\"");
    bash.add("srun", "echo $MASTER_ADDR $MASTER_PORT $OMP_NUM_THREADS; printf '<%s>\\n' \"$@\"");
    std::string const job =
        "export SLURM_JOB_NODELIST='n[1-2]' SLURM_JOB_ID=30007 SLURM_CPUS_PER_TASK=3\nunset OMP_NUM_THREADS\n";
    auto const words = lines_of_words(request.command);

    auto const script = slurm_script(request);
    REQUIRE(script);
    CHECK(script->find("\n#SBATCH --uid=0 `id`") > script->find("exec srun"));
    CHECK(bash.run(*script, "-n") == " 0");
    CHECK(bash.run(job + "set -- --prompt " + shell_word(more) + "\n" + *script) ==
          "n1 30007 3\n<--kill-on-bad-exit=1>\n<--label>\n<--cpus-per-task=3>\n<--mpi=none>\n" + words + "<--prompt>\n<" +
              more + ">\n 0");

    auto const line = mpirun_line(request);
    REQUIRE(line);
    CHECK(bash.run(*line, "-n") == " 0");
    CHECK(bash.run(*line) == "<-n>\n<4>\n<--bind-to>\n<none>\n<--map-by>\n<ppr:2:node>\n" + words + " 0");

    auto const lines = torchrun_lines(request);
    REQUIRE(lines);
    CHECK(bash.run(*lines, "-n") == " 0");
    CHECK(has(bash.run("unset MASTER_ADDR\n" + *lines), "MASTER_ADDR: is the name of the first node"));
    auto const both = bash.run("MASTER_ADDR='x y'\n" + *lines);
    CHECK(has(both, "<0>\n<--master-addr>\n<x y>\n<--master-port>\n<29500>\n" + words));
    CHECK(has(both, "<1>\n<--master-addr>\n<x y>\n<--master-port>\n<29500>\n" + words));

    // What stands where nothing is quoted is checked.
    for (auto const* const hostile : {"a b'c$(x)", "a\nb", "-x", "", "a:1", "a,b"}) {
        auto other = request;
        other.hosts = {"n1", hostile};
        check_refused(mpirun_line(other), ErrorCode::invalid_argument, "hosts");
        other.hosts.clear();
        other.device_type = hostile;
        if (*hostile != '\0') check_refused(slurm_script(other), ErrorCode::invalid_argument, "device_type");
        other.device_type.clear();
        other.name = hostile;
        check_refused(slurm_script(other), ErrorCode::invalid_argument, "name");
        check_refused(kubernetes_job(other), ErrorCode::invalid_argument, "name");
    }
    request.command.clear();
    check_refused(slurm_script(request), ErrorCode::invalid_argument, "command");
}

TEST_CASE("job_name_for: a name that SLURM and Kubernetes take, of any model") {
    CHECK(job_name_for("meta-llama/Llama-3.1-8B") == "shardwise-meta-llama-llama-3-1-8b");
    CHECK(job_name_for("") == "shardwise");
    CHECK(job_name_for("--\n$(x)--") == "shardwise-x");
    for (auto const& model : {std::string(200, 'a'), std::string(200, '-'), std::string("a-") + std::string(99, 'b')}) {
        CHECK(is_job_name(job_name_for(model)));
        CHECK(job_name_for(model + "-") == job_name_for(model));
    }
}

TEST_CASE("layout_of: more devices on a node than the plan's nodes have, and ranks of a node apart, are errors") {
    auto const more = layout_of(plan_of({.devices = "2x(2xH100-80GB)", .per_node = 4}));
    REQUIRE(!more);
    CHECK(more.error().code() == ErrorCode::invalid_field);
    CHECK(has(more.error().message(), "node 0"));
    CHECK(has(more.error().message(), "got 4, expected at most 2"));
    // A description of machines that are no presets cannot be counted.
    CHECK(layout_of(plan_of({.devices = "some machine", .per_node = 4})));
    // Not all devices of a node need be used.
    CHECK(layout_of(plan_of({.devices = "2x(8xH100-80GB)", .per_node = 2}))->ranks == std::vector<std::int32_t>{2, 2});
    auto plan = plan_of({});
    plan.ranks[1].node = 1;
    plan.ranks[2].node = 0;
    auto const apart = layout_of(plan);
    REQUIRE(!apart);
    CHECK(apart.error().code() == ErrorCode::unsupported);

    plan = plan_of({.devices = "2x(4xH100-80GB)", .per_node = 3});
    auto const uneven = layout_of(plan);
    REQUIRE(uneven);
    JobRequest request;
    request.layout = *uneven;
    request.command = {"x"};
    request.image = "i";
    CHECK(request.layout.ranks == std::vector<std::int32_t>{3, 1});
    for (auto const& text : {slurm_script(request), torchrun_lines(request), kubernetes_job(request)})
        check_refused(text, ErrorCode::unsupported, "3, 1 ranks");
    check_refused(mpirun_line(request), ErrorCode::invalid_argument, "hosts");
    request.hosts = {"a", "b"};
    CHECK(*mpirun_line(request) == "mpirun -n 4 --bind-to none --host a:3,b:1 x\n");
    request.hosts = {"a"};
    check_refused(mpirun_line(request), ErrorCode::invalid_argument, "got 1, expected 2");
    plan = plan_of({});
    plan.ranks[3].device_name = "A100-80GB";
    request.layout = *layout_of(plan);
    request.hosts.clear();
    check_refused(slurm_script(request), ErrorCode::unsupported, "several");
}

TEST_CASE("planned_run: what run does not do is refused, and the rest of the plan becomes flags") {
    auto plan = plan_of({.kv_dtype = "fp32", .quant = "int4", .prefill_chunk = 512});
    plan.dtype = "fp32";
    plan.source = "-odd.gguf";
    CHECK(lines_of_words(*planned_run(plan)) ==
          lines_of_words({"shardwise", "run", "./-odd.gguf", "--tp", "2", "--pp", "2", "--dtype", "fp32", "--quant", "int4",
                          "--kv-dtype", "fp32", "--prefill-chunk", "512"}));
    plan.kv_dtype = "fp16";
    CHECK((*planned_run(plan))[12] == "bf16");
    auto const refused = [](SavedPlan const& other, std::string_view reason) {
        auto const run = planned_run(other);
        REQUIRE(!run);
        CHECK(run.error().code() == ErrorCode::unsupported);
        CHECK_MESSAGE(has(run.error().message(), reason), run.error().message());
        CHECK(has(std::string(run.error().advice()), "-- COMMAND"));
    };
    plan.kv_dtype = "fp8";
    refused(plan, "fp8");
    refused(plan_of({.optimizer = "adam"}), "training");
    refused(plan_of({.pp = 1, .dp = 2}), "dp 2");
    refused(plan_of({.source = ""}), "small");
    refused(plan_of({.tp = 1, .pp = 2, .ep = 2}), "experts");
    CHECK((*planned_run(plan_of({.pp = 1, .ep = 2})))[5] == "--ep");
}
