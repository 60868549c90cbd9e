#include <shardwise/backend/device.cuh>
#include <shardwise/kernels/all_reduce.cuh>
#include <shardwise/kernels/gemm.cuh>
#include <shardwise/kernels/multiply.cuh>
#include <shardwise/kernels/rms_norm.cuh>
#include <shardwise/kernels/rope.cuh>

#include "backends.hpp"
#include "launch_body.hpp"

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;

// The device side for the fake vendor, which kernels/instantiate.cu is for the real ones.
namespace shardwise::inline v0_2_0 {

template void Device<FakeApi>::launch(std::int64_t, testing::AddIndex, DeviceStream<FakeApi>&, std::int64_t);

namespace detail {

template Result<> launch_multiply<FakeApi>(MultiplyCall const&, FakeApi::Stream);
template Result<> launch_gemm<FakeApi, float>(GemmCall const&, FakeApi::Stream);
template Result<> launch_gemm<FakeApi, Bfloat16>(GemmCall const&, FakeApi::Stream);
template Result<> launch_gemm<FakeApi, Float16>(GemmCall const&, FakeApi::Stream);
template Result<> launch_rms_norm<FakeApi>(RmsNormCall<float> const&, FakeApi::Stream);
template Result<> launch_rms_norm<FakeApi>(RmsNormCall<Bfloat16> const&, FakeApi::Stream);
template Result<> launch_rms_norm<FakeApi>(RmsNormCall<Float16> const&, FakeApi::Stream);
template Result<> launch_rope<FakeApi>(RopeCall<float> const&, FakeApi::Stream);
template Result<> launch_rope<FakeApi>(RopeCall<Bfloat16> const&, FakeApi::Stream);
template Result<> launch_rope<FakeApi>(RopeCall<Float16> const&, FakeApi::Stream);
template Result<> launch_all_reduce<FakeApi, float>(AllReduceCall const&, FakeApi::Stream);
template Result<> launch_all_reduce<FakeApi, Bfloat16>(AllReduceCall const&, FakeApi::Stream);
template Result<> launch_all_reduce<FakeApi, Float16>(AllReduceCall const&, FakeApi::Stream);

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
