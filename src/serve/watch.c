/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of subjects, found by the hash of their kind and name (open addressing). Each has what was told of it last,
 * and how many lines it may still write. What cannot be written now is not noted as told, so the next look tries again.
 * Called by watch_look.c and, to begin a look, by server.c; observe/logger.c writes the lines. */
#include "serve/watch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"
#include "weir/error.h"

#define INDEX_SIZE (2 * WEIR_WATCH_SUBJECTS_MAX) /* a power of two */
#define KIND_MAX 48
#define OTHERS "(others)"

struct subject {
    char kind[KIND_MAX];
    char *name;
    bool seen;
    unsigned told_state; /* states */
    uint64_t told_total; /* events: as told; conditions: when it was over last */
    uint64_t last_total; /* conditions */
    uint64_t grown_ns;   /* conditions: when the total was last seen to grow */
    bool on;             /* conditions: begun has been told */
    unsigned lines;      /* that may go now */
    uint64_t refilled_ns;
};

struct weir_watch {
    struct weir_logger *logger;
    uint64_t begun_ns, now_ns, wall_ns;
    struct subject *subjects;
    size_t count;
    uint16_t *index; /* open addressing by the hash of kind and name; 0 = empty, else number + 1 */
};

int weir_watch_create(struct weir_logger *logger, struct weir_watch **ret_watch)
{
    struct weir_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return WEIR_ENOMEM;
    watch->logger = logger;
    watch->subjects = calloc(WEIR_WATCH_SUBJECTS_MAX, sizeof(watch->subjects[0]));
    watch->index = calloc(INDEX_SIZE, sizeof(watch->index[0]));
    if (!watch->subjects || !watch->index) {
        weir_watch_destroy(watch);
        return WEIR_ENOMEM;
    }
    *ret_watch = watch;
    return 0;
}

void weir_watch_destroy(struct weir_watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < watch->count; i++)
        free(watch->subjects[i].name);
    free(watch->subjects);
    free(watch->index);
    free(watch);
}

struct weir_logger *weir_watch_logger(const struct weir_watch *watch)
{
    return watch->logger;
}

void weir_watch_look(struct weir_watch *watch, uint64_t now_ns, uint64_t wall_ns)
{
    if (watch->begun_ns == 0)
        watch->begun_ns = now_ns;
    watch->now_ns = now_ns;
    watch->wall_ns = wall_ns;
}

uint64_t weir_watch_age_ns(const struct weir_watch *watch)
{
    return watch->now_ns - watch->begun_ns;
}

/* ---- subjects ---- */

/* Names come from the configuration and from servers it names: their hash needs no secret. */
static uint16_t *place_of(const struct weir_watch *watch, struct weir_subject wanted)
{
    struct weir_siphash_state hash;
    weir_siphash_start(&hash, &(struct weir_sip_key){ 0 });
    weir_siphash_add(&hash, wanted.kind, strlen(wanted.kind) + 1);
    weir_siphash_add(&hash, wanted.name, strlen(wanted.name));
    size_t at = (size_t)weir_siphash_end(&hash) % INDEX_SIZE;
    while (watch->index[at]) {
        const struct subject *subject = &watch->subjects[watch->index[at] - 1];
        if (strcmp(subject->kind, wanted.kind) == 0 && strcmp(subject->name, wanted.name) == 0)
            break;
        at = (at + 1) % INDEX_SIZE;
    }
    return &watch->index[at];
}

/* Half of the room is for those that share one subject, a few for each kind. NULL: memory is out. */
static struct subject *subject_of(struct weir_watch *watch, struct weir_subject wanted)
{
    uint16_t *place = place_of(watch, wanted);
    if (!*place && watch->count >= WEIR_WATCH_SUBJECTS_MAX / 2) {
        wanted.name = OTHERS;
        place = place_of(watch, wanted);
    }
    if (!*place && watch->count < WEIR_WATCH_SUBJECTS_MAX) {
        struct subject *subject = &watch->subjects[watch->count];
        char *name = strdup(wanted.name);
        if (!name)
            return NULL;
        *subject = (struct subject){ .name = name, .lines = WEIR_WATCH_BURST, .refilled_ns = watch->now_ns };
        (void)snprintf(subject->kind, sizeof(subject->kind), "%s", wanted.kind);
        *place = (uint16_t)++watch->count;
    }
    return *place ? &watch->subjects[*place - 1] : NULL;
}

/* Whether one more line may go; if so, it is taken. */
static bool take_line(const struct weir_watch *watch, struct subject *subject)
{
    uint64_t due = (watch->now_ns - subject->refilled_ns) / WEIR_WATCH_REFILL_NS;
    if (due > 0) {
        subject->refilled_ns += due * WEIR_WATCH_REFILL_NS;
        subject->lines = due < WEIR_WATCH_BURST - subject->lines ? subject->lines + (unsigned)due : WEIR_WATCH_BURST;
    }
    if (subject->lines == 0)
        return false;
    subject->lines--;
    return true;
}

/* ---- what is seen ---- */

void weir_watch_state(struct weir_watch *watch, struct weir_subject subject, unsigned state, bool calm,
                      enum weir_log_level level, const char *event, const char *format, ...)
{
    char message[WEIR_WATCH_MESSAGE_MAX];
    struct subject *known = subject_of(watch, subject);
    if (!known || (known->seen && known->told_state == state))
        return;
    bool quiet = !known->seen && calm;
    if (!quiet && !take_line(watch, known))
        return;
    weir_assert(format);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    if (!quiet && !weir_logger_write(watch->logger, watch->wall_ns, level, event, message))
        return;
    known->seen = true;
    known->told_state = state;
}

/* "limit a: text" or "text"; false: it may not go now. */
static bool write_counted(const struct weir_watch *watch, struct subject *subject, enum weir_log_level level,
                          const char *ending, const char *text, uint64_t count, const char *unit)
{
    char event[KIND_MAX + 8];
    char message[WEIR_WATCH_MESSAGE_MAX];
    if (!take_line(watch, subject))
        return false;
    (void)snprintf(event, sizeof(event), "%s%s", subject->kind, ending);
    (void)snprintf(message, sizeof(message), "%s%s%s (%" PRIu64 "%s)", subject->name, subject->name[0] ? ": " : "",
                   text, count, unit);
    return weir_logger_write(watch->logger, watch->wall_ns, level, event, message);
}

void weir_watch_event(struct weir_watch *watch, struct weir_subject subject, uint64_t total, enum weir_log_level level,
                      const char *text)
{
    struct subject *known = subject_of(watch, subject);
    if (known && total > known->told_total && write_counted(watch, known, level, "", text, total, " since the start"))
        known->told_total = total;
}

void weir_watch_condition(struct weir_watch *watch, struct weir_subject subject, uint64_t total,
                          enum weir_log_level level, const char *text)
{
    struct subject *known = subject_of(watch, subject);
    if (!known)
        return;
    if (total > known->last_total) {
        known->grown_ns = watch->now_ns;
        known->last_total = total;
        if (!known->on)
            known->on = write_counted(watch, known, level, "_begun", text, total - known->told_total, " so far");
    } else if (known->on && watch->now_ns - known->grown_ns >= WEIR_WATCH_QUIET_NS &&
               write_counted(watch, known, WEIR_LOG_INFO, "_over", "no more for a minute", total - known->told_total,
                             " in all")) {
        known->on = false;
        known->told_total = total;
    }
}
