// expect: no matching function for call to
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/host_communicator.hpp>

using namespace shardwise;

#ifdef SHARDWISE_FIXED
using Memory = Host;
#else
using Memory = DeviceBackend<detail::AnyApi>;
#endif

Result<> sum(HostCommunicator& comm, TensorView<float, 1, Memory> values) {
    return all_reduce(comm, values, ReduceOp::sum);
}
