// SPDX-License-Identifier: Apache-2.0
#pragma once

// What most tests include, parsed once per configuration; the readers are left out: with them it takes longer than it saves.
#include <shardwise/shardwise.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>
