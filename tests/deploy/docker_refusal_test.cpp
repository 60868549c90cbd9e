// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/docker_refusal.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace shardwise;

TEST_CASE("docker_refusal: docker's own texts become what to do") {
    // Texts of docker 20.10.24 (Debian 12) with its own client and with a client of 28.2.2.
    for (auto const& [text, advice] : {
             std::pair{"docker: Error response from daemon: could not select device driver \"\" with capabilities: "
                       "[[gpu]].\n",
                       "install nvidia-container-toolkit"},
             std::pair{"docker: Error response from daemon: could not select device driver \"cdi\" with capabilities: []\n\n"
                       "Run 'docker run --help' for more information\n",
                       "update docker"},
             std::pair{"docker: nvidia.com/gpu=0 is not an absolute path.\nSee 'docker run --help'.\n", "leave --cdi out"},
             std::pair{"docker: Error response from daemon: error gathering device information while adding custom device "
                       "\"/dev/kfd\": no such file or directory.\n",
                       "modprobe amdgpu"},
             std::pair{"docker: Error response from daemon: driver failed programming external connectivity on endpoint b2 "
                       "(8695e91b): Bind for 127.0.0.1:3000 failed: port is already allocated\n",
                       "--port"},
             std::pair{"docker: Error response from daemon: driver failed programming external connectivity on endpoint c1 "
                       "(629e): Error starting userland proxy: listen tcp4 10.1.2.3:3000: bind: cannot assign requested "
                       "address\n",
                       "such as 127.0.0.1"},
             std::pair{"docker: Error response from daemon: Conflict. The container name \"/b1\" is already in use by container "
                       "\"58fa612ea21a\". You have to remove (or rename) that container to be able to reuse that name.\n",
                       "docker rm --force"},
             std::pair{"docker: Error response from daemon: failed to create shim task: OCI runtime create failed: runc create "
                       "failed: unable to start container process: exec: \"vllm\": executable file not found in $PATH: "
                       "unknown\n",
                       "--image"},
             std::pair{"Cannot connect to the Docker daemon at unix:///nowhere. Is the docker daemon running?\n",
                       "systemctl start docker"},
             std::pair{"Error response from daemon: Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup "
                       "registry-1.docker.io on 10.255.255.53:53: connect: network is unreachable\n",
                       "docker load"},
         }) {
        auto const error = docker_refusal(text);
        CHECK(error.code() == ErrorCode::backend_failure);
        CHECK_MESSAGE(std::string(error.advice()).find(advice) != std::string::npos, error.message());
    }
    CHECK(docker_refusal("adding custom device \"/dev/dri/renderD129\"").reason().find("/dev/dri") != std::string_view::npos);
}

TEST_CASE("docker_refusal: an unknown text is passed on by its last line, without control characters") {
    CHECK(docker_refusal("pulling\ndocker: Error response from daemon: something new\x1b[2J\n\n"
                         "Run 'docker run --help' for more information\n")
              .message() ==
          "docker: something new\\x1b[2J; run what --dry-run prints to see all that docker says");
    CHECK(docker_refusal("").reason() == "failed and did not say why");
    for (auto const& row : docker_refusals) {
        // Fields of an error have a fixed capacity.
        CHECK(row.reason.size() < 200);
        CHECK(row.advice.size() < 200);
    }
}
