#pragma once

// What most tests include, parsed once per configuration. Only the build includes this: every test names what it uses.
#include <shardwise/readers.hpp>
#include <shardwise/shardwise.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>
