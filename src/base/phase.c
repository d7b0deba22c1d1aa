/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the check alone; each table is with its state machine: core/breaker/breaker.c, core/lease/waiter.c and
 * serve/conn_socket.c. A move that a table lacks ends in weir_assert_failed, with the names of both phases; in
 * WebAssembly it traps. */
#include "base/phase.h"

#ifdef __wasm__
#define REFUSE(from, to) __builtin_trap()
#else
#include <stdio.h>
#define REFUSE(from, to) refuse(from, to)

static _Noreturn __attribute__((cold)) void refuse(const char *from, const char *to)
{
    char text[96];
    snprintf(text, sizeof text, "no phase moves from %s to %s", from, to);
    weir_assert_failed(text, __FILE__, __LINE__);
}
#endif

void weir_phase_check(const struct weir_phase *phases, unsigned from, unsigned to)
{
    if (!weir_phase_may(phases, from, to))
        REFUSE(phases[from].name, phases[to].name);
}
