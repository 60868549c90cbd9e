// expect: DeviceBackend
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/add.hpp>

using namespace shardwise;

#ifdef SHARDWISE_FIXED
using Memory = Host;
#else
using Memory = DeviceBackend<detail::AnyApi>;
#endif

Result<> doubled(TensorView<float const, 2, Memory> in, TensorView<float, 2, Memory> out, HostStream& stream) {
    return add<float>(in, in, out, stream);
}
