/* SPDX-License-Identifier: Apache-2.0
 *
 * weir-etcd.so. */
#include "engine/module/digest.h"
#include "engine/module/module.h"

extern const struct weir_module weir_module;

__attribute__((visibility("default"))) const struct weir_module weir_module = {
    .digest = WEIR_MODULE_DIGEST,
    .name = WEIR_MODULE_ETCD,
    .lock_open_etcd = weir_lock_etcd_open,
};
