// SPDX-License-Identifier: Apache-2.0
// The kernels over rows for one vendor: kernels/instantiate.cu says how they are compiled.
#include <shardwise/kernels/activation_launch.cuh>
#include <shardwise/kernels/add_launch.cuh>
#include <shardwise/kernels/arg_max_launch.cuh>
#include <shardwise/kernels/attention_temperature_launch.cuh>
#include <shardwise/kernels/combine_rows_launch.cuh>
#include <shardwise/kernels/compiled_kernels_launch.cuh>
#include <shardwise/kernels/copy_rows_launch.cuh>
#include <shardwise/kernels/embedding_launch.cuh>
#include <shardwise/kernels/gated_delta_launch.cuh>
#include <shardwise/kernels/layer_norm_launch.cuh>
#include <shardwise/kernels/mean_rows_launch.cuh>
#include <shardwise/kernels/order_experts_launch.cuh>
#include <shardwise/kernels/quantize_launch.cuh>
#include <shardwise/kernels/residual_norm_launch.cuh>
#include <shardwise/kernels/rms_norm_launch.cuh>
#include <shardwise/kernels/rope_launch.cuh>
#include <shardwise/kernels/rope_turns_launch.cuh>
#include <shardwise/kernels/route_launch.cuh>
#include <shardwise/kernels/sample_launch.cuh>
#include <shardwise/kernels/scale_rows_launch.cuh>
#include <shardwise/kernels/soft_cap_launch.cuh>
#include <shardwise/kernels/softmax_launch.cuh>
#include <shardwise/kernels/square_sums_launch.cuh>
#include <shardwise/kernels/store_step_launch.cuh>
#include <shardwise/kernels/weigh_rows_launch.cuh>
#include <shardwise/kernels/xielu_launch.cuh>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template KernelList compiled_kernels<KernelApi>();
template std::string_view compiled_architectures<KernelApi>();
template Result<bool> has_device_code<KernelApi>();

template Result<> launch_rms_norm<KernelApi>(RmsNormCall<float> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Float16> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_rms_norm<KernelApi>(RmsNormCall<Float16, float> const&, KernelApi::Stream);

template Result<> launch_head_norm<KernelApi>(RmsNormCall<float, float> const&, KernelApi::Stream);
template Result<> launch_head_norm<KernelApi>(RmsNormCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_head_norm<KernelApi>(RmsNormCall<Float16, float> const&, KernelApi::Stream);
template Result<> launch_head_layer_norm<KernelApi>(LayerNormCall<float, float> const&, KernelApi::Stream);
template Result<> launch_head_layer_norm<KernelApi>(LayerNormCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_head_layer_norm<KernelApi>(LayerNormCall<Float16, float> const&, KernelApi::Stream);

template Result<> launch_rope<KernelApi>(RopeCall<float> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_rope<KernelApi>(RopeCall<Float16> const&, KernelApi::Stream);

template Result<> launch_activation<KernelApi>(ActivationCall<float> const&, KernelApi::Stream);
template Result<> launch_activation<KernelApi>(ActivationCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_activation<KernelApi>(ActivationCall<Float16> const&, KernelApi::Stream);

template Result<> launch_copy_rows<KernelApi>(std::string_view, CopyRowsCall<float> const&, KernelApi::Stream);
template Result<> launch_copy_rows<KernelApi>(std::string_view, CopyRowsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_copy_rows<KernelApi>(std::string_view, CopyRowsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_mean_rows<KernelApi>(MeanRowsCall<float> const&, KernelApi::Stream);
template Result<> launch_mean_rows<KernelApi>(MeanRowsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_mean_rows<KernelApi>(MeanRowsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_add<KernelApi>(std::string_view, AddCall<float> const&, KernelApi::Stream);
template Result<> launch_add<KernelApi>(std::string_view, AddCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_add<KernelApi>(std::string_view, AddCall<Float16> const&, KernelApi::Stream);
template Result<> launch_add<KernelApi>(std::string_view, AddCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_add<KernelApi>(std::string_view, AddCall<Float16, float> const&, KernelApi::Stream);

template Result<> launch_layer_norm<KernelApi>(LayerNormCall<float> const&, KernelApi::Stream);
template Result<> launch_layer_norm<KernelApi>(LayerNormCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_layer_norm<KernelApi>(LayerNormCall<Float16> const&, KernelApi::Stream);
template Result<> launch_layer_norm<KernelApi>(LayerNormCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_layer_norm<KernelApi>(LayerNormCall<Float16, float> const&, KernelApi::Stream);

template Result<> launch_residual_norm<KernelApi>(ResidualNormCall<float> const&, KernelApi::Stream);
template Result<> launch_residual_norm<KernelApi>(ResidualNormCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_residual_norm<KernelApi>(ResidualNormCall<Float16> const&, KernelApi::Stream);
template Result<> launch_residual_norm<KernelApi>(ResidualNormCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_residual_norm<KernelApi>(ResidualNormCall<Float16, float> const&, KernelApi::Stream);

template Result<> launch_store_step<KernelApi>(StoreStepCall<float, float> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<float, Bfloat16> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<float, std::int8_t> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Bfloat16, float> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Bfloat16, Bfloat16> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Bfloat16, std::int8_t> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Float16, float> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Float16, Bfloat16> const&, KernelApi::Stream);
template Result<> launch_store_step<KernelApi>(StoreStepCall<Float16, std::int8_t> const&, KernelApi::Stream);

template Result<> launch_softmax<KernelApi>(SoftmaxCall<float> const&, KernelApi::Stream);
template Result<> launch_softmax<KernelApi>(SoftmaxCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_softmax<KernelApi>(SoftmaxCall<Float16> const&, KernelApi::Stream);

template Result<> launch_scale_rows<KernelApi>(ScaleRowsCall<float> const&, KernelApi::Stream);
template Result<> launch_scale_rows<KernelApi>(ScaleRowsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_scale_rows<KernelApi>(ScaleRowsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_sum_squares<KernelApi>(SquareSumsCall<float> const&, KernelApi::Stream);
template Result<> launch_sum_squares<KernelApi>(SquareSumsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_sum_squares<KernelApi>(SquareSumsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_scale_by_squares<KernelApi>(ScaleBySquaresCall<float> const&, KernelApi::Stream);
template Result<> launch_scale_by_squares<KernelApi>(ScaleBySquaresCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_scale_by_squares<KernelApi>(ScaleBySquaresCall<Float16> const&, KernelApi::Stream);

template Result<> launch_attention_temperature<KernelApi>(AttentionTemperatureCall<float> const&, KernelApi::Stream);
template Result<> launch_attention_temperature<KernelApi>(AttentionTemperatureCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_attention_temperature<KernelApi>(AttentionTemperatureCall<Float16> const&, KernelApi::Stream);

template Result<> launch_weigh_rows<KernelApi>(WeighRowsCall<float> const&, KernelApi::Stream);
template Result<> launch_weigh_rows<KernelApi>(WeighRowsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_weigh_rows<KernelApi>(WeighRowsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_soft_cap<KernelApi>(SoftCapCall<float> const&, KernelApi::Stream);
template Result<> launch_soft_cap<KernelApi>(SoftCapCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_soft_cap<KernelApi>(SoftCapCall<Float16> const&, KernelApi::Stream);

template Result<> launch_xielu<KernelApi>(XieluCall<float> const&, KernelApi::Stream);
template Result<> launch_xielu<KernelApi>(XieluCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_xielu<KernelApi>(XieluCall<Float16> const&, KernelApi::Stream);

template Result<> launch_combine_rows<KernelApi>(CombineRowsCall<float> const&, KernelApi::Stream);
template Result<> launch_combine_rows<KernelApi>(CombineRowsCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_combine_rows<KernelApi>(CombineRowsCall<Float16> const&, KernelApi::Stream);

template Result<> launch_arg_max<KernelApi>(std::string_view, ArgMaxCall const&, KernelApi::Stream);
template Result<> launch_rope_turns<KernelApi>(RopeTurnsCall const&, KernelApi::Stream);
template Result<> launch_weight_rows<KernelApi>(std::string_view, WeightRowsCall const&, KernelApi::Stream);
template Result<> launch_quantize<KernelApi>(QuantizeCall const&, KernelApi::Stream);

template Result<> launch_sample<KernelApi>(SampleCall const&, KernelApi::Stream);
template Result<> launch_gated_delta<KernelApi>(GatedDeltaCall<float> const&, KernelApi::Stream);
template Result<> launch_gated_delta<KernelApi>(GatedDeltaCall<Bfloat16> const&, KernelApi::Stream);
template Result<> launch_gated_delta<KernelApi>(GatedDeltaCall<Float16> const&, KernelApi::Stream);
template Result<> launch_route<KernelApi>(RouteCall const&, KernelApi::Stream);
template Result<> launch_order_experts<KernelApi>(OrderExpertsCall const&, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
