/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations as clients see them: the id, which nobody can guess or make (SipHash, with the secret of permits), and
 * the JSON of /v1/reservations. Unknown and duplicate members are refused. Thread rule: plain values. */
#pragma once

#include "wire/check.h"
#include "wire/permit.h"

#define WEIR_RESERVATION_TEXT (2 * (4 + 8 + 8)) /* place, number, authentication; in hexadecimal digits */

struct weir_reservation_id {
    uint64_t number; /* never given twice, not by another process with the same secret either */
    uint32_t place;
};

void weir_reservation_write(const struct weir_permit_secret *secret, const struct weir_reservation_id *id,
                            char text[WEIR_RESERVATION_TEXT]);
/* False: not one of ours. */
bool weir_reservation_read(const struct weir_permit_secret *secret, struct weir_slice text,
                           struct weir_reservation_id *ret_id);

/* {"attributes":{"user":"ada"},"amount":5000,"ttl_ms":60000}: amount is 1 to WEIR_COST_MAX, or "auto", which is 0 here;
 * ttl_ms may be missing, which is 0 here. Attributes point into `check`: end with weir_check_deinit(&…->check). Errors
 * as weir_check_parse. */
struct weir_reserve_request {
    struct weir_check_request check;
    uint64_t amount, ttl_ms;
};
int weir_reserve_parse(const void *data, size_t size, struct weir_reserve_request *ret_request,
                       struct weir_fault *ret_fault);

/* {"actual":1234}, or {"more":500,"ttl_ms":60000} of which the latter may be missing, which is 0 here. */
int weir_settle_parse(const void *data, size_t size, uint64_t *ret_actual, struct weir_fault *ret_fault);
int weir_extend_parse(const void *data, size_t size, uint64_t *ret_more, uint64_t *ret_ttl_ms,
                      struct weir_fault *ret_fault);
