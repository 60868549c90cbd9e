// expect: no matching function for call to
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>

using namespace shardwise;

using Device = DeviceBackend<detail::AnyApi>;
#ifdef SHARDWISE_FIXED
using Memory = Device;
#else
using Memory = Host;
#endif

Result<> normalised(TensorView<float const, 2, Memory> in, TensorView<float const, 1, Device> weight,
                    TensorView<float, 2, Device> out, Device::Stream& stream) {
    return rms_norm<float>(in, weight, out, 1e-5F, stream);
}
