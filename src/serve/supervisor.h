/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server tells its service manager (systemd.h): that it is ready, reads its file again, ends, and lives. It
 * lives while every loop turns: they are asked several times in the watchdog's time, and the manager hears that all is
 * well only when all have answered. So a server of which one loop hangs is ended and started again, though the others
 * still answer. Threads that may wait for a disk or a database are not asked.
 *
 * Thread rule: that of the server, which calls it. All of it does nothing where nobody wants to be told. */
#pragma once

#include "observe/logger.h"
#include "serve/loop.h"
#include "serve/systemd.h"

struct weir_supervisor {
    const struct weir_systemd *systemd; /* NULL: nobody wants to be told */
    struct weir_common *common;
    struct weir_logger *logger;
    uv_timer_t beat;
    uint64_t asked_ns; /* when the loops were asked */
    bool hung;         /* one of them has not answered: it is in the log */
    bool unheard;      /* the last line did not go: it is in the log */
    bool is_new;       /* the manager does not know this process yet */
    bool reloading;    /* was told, and not yet that it is over */
    char status[200];  /* of the next time that it is ready: "STATUS=..." without the word */
};

/* `systemd` NULL: nobody wants to be told. `logger` hears of a loop that hangs. */
void weir_supervisor_init(struct weir_supervisor *supervisor, const struct weir_systemd *systemd, uv_loop_t *uv,
                          struct weir_common *common, struct weir_logger *logger);

void weir_supervisor_ready(struct weir_supervisor *supervisor); /* it serves; from now on it is watched */
/* It has taken over: it says so when it is ready, so that the manager looks after this process from then on. */
void weir_supervisor_takes_over(struct weir_supervisor *supervisor);
/* Another process has: the manager hears so, and nothing more from this one. It must not hear of this one's end first,
 * which it would take for that of the service. `pid`: 0, not known here. */
void weir_supervisor_leaves(struct weir_supervisor *supervisor, int32_t pid);
void weir_supervisor_reloading(struct weir_supervisor *supervisor); /* until it is settled, however that ends */
void weir_supervisor_settled(struct weir_supervisor *supervisor);   /* as it was asked, or as it was */
void weir_supervisor_stopping(struct weir_supervisor *supervisor);

/* What the manager shows of it from the next "ready" on. Cut to fit. */
void weir_supervisor_status(struct weir_supervisor *supervisor, const char *status);

void weir_supervisor_close(struct weir_supervisor *supervisor); /* its handle */
