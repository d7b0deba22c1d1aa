/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of a CL.THROTTLE whose counters are at the engine (cl_throttle: { engine: redis }): a token bucket whose
 * parameters came with the request. All have one name there, which no limit of a file can have, and of a key whose
 * parameters change the time at which it is full stays, as redis-cell has it. */
#pragma once

#include "rules/config.h"
#include "rules/rules.h"

struct weir_cell {
    struct weir_rule rule;
    struct weir_remote_limit limit;
};

/* WEIR_ENOMEM; WEIR_ERANGE and WEIR_EINVAL with the fault. */
int weir_cell_create(const struct weir_config *config, const struct weir_limit_spec *spec, struct weir_cell **ret_cell,
                     struct weir_fault *ret_fault);
void weir_cell_destroy(struct weir_cell *cell); /* NULL is allowed */

/* WEIR_ERANGE: it is longer than WEIR_KEY_BYTES_MAX. */
int weir_cell_key(const struct weir_config *config, struct weir_slice key, struct weir_remote_key *ret_key);
