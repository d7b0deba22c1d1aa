/* SPDX-License-Identifier: Apache-2.0
 *
 * What one slot charged for a request that another slot refused, or that was not answered in time, is given back by the
 * request's id: again and again until the server confirms, or no longer remembers the id. */
#pragma once

#include "limits/redis/request.h"

/* The group's charge, if there was one or will be, is to be undone; before the request is done. `never`: see
 * weir_script_call_roll_back. */
void weir_redis_roll_back(struct weir_redis_group *group, bool never);
void weir_redis_roll_back_tick(struct weir_redis_engine *engine, uint64_t now_ns);
void weir_redis_roll_back_end(struct weir_redis_engine *engine); /* those that wait are lost */
