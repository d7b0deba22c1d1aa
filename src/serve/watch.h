/* SPDX-License-Identifier: Apache-2.0
 *
 * What deserves a line in the log: the changes between one look at the server and the next. Whoever looks
 * (serve/watch_look.h) tells what it sees now of each subject, be it new or not; the watch knows what it told last.
 *
 *   A state is told when it changes; one that is calm when first seen is not told.
 *   An event, counted, is told each time the count has grown.
 *   A condition, counted too, is told when the count begins to grow, and when it has not for a minute.
 *
 * Storms are bounded: of one subject WEIR_WATCH_BURST lines at once and then one in WEIR_WATCH_REFILL_NS. A change that
 * was not told then is told later, if it still stands. Subjects above WEIR_WATCH_SUBJECTS_MAX share one for each kind.
 *
 * Thread rule: one thread. */
#pragma once

#include "observe/logger.h"

#define WEIR_WATCH_SUBJECTS_MAX 4096
#define WEIR_WATCH_BURST 4
#define WEIR_WATCH_REFILL_NS (UINT64_C(10) * 1000000000)
#define WEIR_WATCH_QUIET_NS (UINT64_C(60) * 1000000000)
#define WEIR_WATCH_MESSAGE_MAX 512

struct weir_watch;

int weir_watch_create(struct weir_logger *logger, struct weir_watch **ret_watch); /* WEIR_ENOMEM */
void weir_watch_destroy(struct weir_watch *watch);                                /* NULL is allowed */

/* Where its lines go: for who writes lines of another kind. */
struct weir_logger *weir_watch_logger(const struct weir_watch *watch);

/* A look begins: its time. */
void weir_watch_look(struct weir_watch *watch, uint64_t now_ns, uint64_t wall_ns);

/* Since the first look. What has just begun to connect is no trouble yet. */
uint64_t weir_watch_age_ns(const struct weir_watch *watch);

/* A subject is a kind ("engine_server") and a name ("127.0.0.1:6379", or "" where there is one only). */
struct weir_subject {
    const char *kind;
    const char *name;
};

/* `state` is a small number of the caller's. The line's event is `event`, as long as this state is the one that is not
 * told yet. `calm`: nobody needs to hear of it when it is the first one seen. */
__attribute__((format(printf, 7, 8))) void weir_watch_state(struct weir_watch *watch, struct weir_subject subject,
                                                            unsigned state, bool calm, enum weir_log_level level,
                                                            const char *event, const char *format, ...);

/* KIND: the text, and how many there were in all. */
void weir_watch_event(struct weir_watch *watch, struct weir_subject subject, uint64_t total, enum weir_log_level level,
                      const char *text);

/* KIND_begun: the text; and a minute after the last, KIND_over: how many there were meanwhile. */
void weir_watch_condition(struct weir_watch *watch, struct weir_subject subject, uint64_t total,
                          enum weir_log_level level, const char *text);
