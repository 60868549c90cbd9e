// expect: conversion from
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/tensor_view.hpp>

using namespace shardwise;

#ifdef SHARDWISE_FIXED
using Memory = Host;
#else
using Memory = DeviceBackend<detail::AnyApi>;
#endif

float first(TensorView<float, 1, Memory> values) {
    TensorView<float, 1, Host> const here = values;
    return here.data()[0];
}
