// SPDX-License-Identifier: Apache-2.0
// The cases that every back end runs, in one translation unit: the room's program compiles them for the host and the fake
// vendor, and each vendor's program compiles them once more; of those the suite, which has no device, compiles a part.
#include "backend_cases.hpp"
#include "graph_cases.hpp"
#include "peer_cases.hpp"
#if defined(SHARDWISE_HAS_CUDA) || defined(SHARDWISE_HAS_HIP)
#include "host_code_cases.hpp"
#endif
#if !defined(SHARDWISE_TEST_SOME_CASES)
#include "arg_max_cases.hpp"
#include "attention_cases.hpp"
#include "calibrate_cases.hpp"
#include "element_cases.hpp"
#include "expert_product_cases.hpp"
#include "gated_delta_cases.hpp"
#include "half_product_cases.hpp"
#include "half_row_cases.hpp"
#include "head_norm_cases.hpp"
#include "kernel_cases.hpp"
#include "mean_cases.hpp"
#include "product_cases.hpp"
#include "quantize_cases.hpp"
#include "routing_cases.hpp"
#include "row_cases.hpp"
#include "sample_cases.hpp"
#include "square_sum_cases.hpp"
#include "step_cases.hpp"
#include "sum_cases.hpp"
#include "temperature_cases.hpp"
#include "weigh_cases.hpp"
#if defined(SHARDWISE_TEST_HOST) || defined(SHARDWISE_HAS_CUDA) || defined(SHARDWISE_HAS_HIP)
#include "activation_cases.hpp"
#include "attention_model_cases.hpp"
#include "comm_cases.hpp"
#include "encoder_cases.hpp"
#include "expert_model_cases.hpp"
#include "model_cases.hpp"
#include "offload_cases.hpp"
#include "shared_model_cases.hpp"
#include "translation_cases.hpp"
#include "vendor_call_cases.hpp"
#include "weight_stream_cases.hpp"
#endif
#endif
