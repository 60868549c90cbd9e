// expect: no matching function for call to
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/rms_norm.hpp>

using namespace shardwise;

#ifdef SHARDWISE_FIXED
using Memory = Host;
#else
using Memory = DeviceBackend<detail::AnyApi>;
#endif

Result<> normalised(TensorView<float const, 2, Memory> in, TensorView<float const, 1, Host> weight,
                    TensorView<float, 2, Memory> out, HostStream& stream) {
    return rms_norm<float>(in, weight, out, 1e-5F, stream);
}
