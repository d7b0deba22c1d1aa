/* SPDX-License-Identifier: Apache-2.0
 *
 * weir-etcd.so. */
#include "modules/digest.h"
#include "modules/module.h"

extern const struct weir_module weir_module;

__attribute__((visibility("default"))) const struct weir_module weir_module = {
    .digest = WEIR_MODULE_DIGEST,
    .name = WEIR_MODULE_ETCD,
    .lock_open_etcd = weir_lock_etcd_open,
};
