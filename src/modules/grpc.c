/* SPDX-License-Identifier: Apache-2.0
 *
 * weir-grpc.so. */
#include "modules/digest.h"
#include "modules/module.h"

extern const struct weir_module weir_module;

__attribute__((visibility("default"))) const struct weir_module weir_module = {
    .digest = WEIR_MODULE_DIGEST,
    .name = WEIR_MODULE_GRPC,
    .grpc = &weir_grpc_library,
};
