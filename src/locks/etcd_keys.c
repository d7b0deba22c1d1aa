/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys: PREFIX "incarnation", and PREFIX "lock/" NAME. Names may hold any bytes: etcd's keys do too. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "locks/etcd_inside.h"

json_t *weir_etcd_incarnation_key(const struct weir_etcd *etcd)
{
    char key[WEIR_ETCD_PREFIX_MAX + 16];
    int size = snprintf(key, sizeof key, "%sincarnation", etcd->prefix);
    return weir_etcd_bytes(key, (size_t)size);
}

json_t *weir_etcd_lock_key(const struct weir_etcd *etcd, struct weir_slice name)
{
    char key[WEIR_ETCD_PREFIX_MAX + 8 + WEIR_LOCK_NAME_MAX];
    size_t size = (size_t)snprintf(key, sizeof key, "%slock/", etcd->prefix);
    if (name.size > sizeof key - size)
        return NULL;
    memcpy(key + size, name.data, name.size);
    return weir_etcd_bytes(key, size + name.size);
}

json_t *weir_etcd_number(uint64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRIu64, number);
    return weir_etcd_bytes(text, (size_t)size);
}

json_t *weir_etcd_range(json_t *key)
{
    return json_pack("{s:{s:o}}", "request_range", "key", key);
}

json_t *weir_etcd_compare(json_t *key, const char *target, const char *field, json_t *value)
{
    return json_pack("{s:o,s:s,s:s,s:o}", "key", key, "target", target, "result", "EQUAL", field, value);
}

const json_t *weir_etcd_found(const json_t *answer, size_t index)
{
    const json_t *response = json_array_get(json_object_get(answer, "responses"), index);
    return json_array_get(json_object_get(json_object_get(response, "response_range"), "kvs"), 0);
}
