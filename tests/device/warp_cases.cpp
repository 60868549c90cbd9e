// SPDX-License-Identifier: Apache-2.0
// Kernels of each family on fake devices whose warps are as wide as vendors': a sample of what cases_test.cpp runs on narrower ones.
#define SHARDWISE_TEST_DEVICE_ALONE
#include "arg_max_cases.hpp"
#include "attention_cases.hpp"
#include "gated_delta_cases.hpp"
#include "half_product_cases.hpp"
#include "head_norm_cases.hpp"
#include "kernel_cases.hpp"
#include "mean_cases.hpp"
#include "product_cases.hpp"
#include "quantize_cases.hpp"
#include "routing_cases.hpp"
#include "row_cases.hpp"
#include "sample_cases.hpp"
#include "step_cases.hpp"
#include "sum_cases.hpp"
