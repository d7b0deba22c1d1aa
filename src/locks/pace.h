/* SPDX-License-Identifier: Apache-2.0
 *
 * The pace of raises: one above the clock waits for the clock's next second (core/lease/incarnation.h). No batch waits
 * for it, whoever needs the raise: what is held goes on, and what would be given a new token is put off until it is
 * due (engine.h). Thread rule: one thread for each pace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_pace {
    uint64_t due_ns; /* CLOCK_MONOTONIC; 0: no raise waits */
};

/* May the incarnation be raised to `raised` now? Else it is due at pace->due_ns: read then what the store has, for
 * others may have raised it. `clock_s` is the highest clock that is known. */
bool weir_pace_may(struct weir_pace *pace, uint64_t raised, uint64_t clock_s);

/* A raise waits, and is not due yet: the store need not be asked. */
bool weir_pace_waits(const struct weir_pace *pace);

uint64_t weir_pace_clock_s(void); /* this machine's */
