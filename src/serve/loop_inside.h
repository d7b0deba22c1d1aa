/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside a loop: between loop.c, which has its handles, and loop_hand.c, which hands over. */
#pragma once

#include "serve/loop.h"

void weir_loop_accepts(struct weir_loop *loop, bool again); /* or no more, while its listeners stay open */
void weir_loop_close_listeners(struct weir_loop *loop);
void weir_loop_checks_times(struct weir_loop *loop); /* of its connections, from now on */
void weir_loop_drain_begins(struct weir_loop *loop, uint64_t longest_ns);

/* Woken: what the server's handing over asks of it, and whom a predecessor has sent. */
void weir_loop_follow(struct weir_loop *loop);
void weir_loop_take_arrivals(struct weir_loop *loop);
