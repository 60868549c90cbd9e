# SPDX-License-Identifier: Apache-2.0
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import load


class Shardwise(ConanFile):
    name = "shardwise"
    description = "Answers whether a model fits on these devices and where each part goes"
    license = "Apache-2.0"
    topics = ("llm", "gpu", "memory", "placement", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        text = load(self, f"{self.recipe_folder}/include/shardwise/core/version.hpp")
        self.version = ".".join(re.findall(r"^#define SHARDWISE_VERSION_\w+ (\d+)$", text, re.MULTILINE))

    def package_id(self):
        self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"SHARDWISE_{part}"] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()

    def package_info(self):
        # Consumers use shardwise's own config, which knows its components; CMakeDeps would accept unknown ones.
        # The component readers takes nlohmann_json from wherever the consumer has it.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/shardwise"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
