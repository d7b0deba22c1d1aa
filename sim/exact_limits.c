/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions of exact-host's limits: a file, of which the check's limit is reloaded; engine/revisions.h, which
 * knows the newest; and engine/revisor.h, which tells the engine, and hears from it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "core/share/split.h"
#include "sim/exact_node.h"

#define PATIENCE_NS WEIR_NS_PER_SECOND
#define TEXT_MAX 64

static const char *const names[EXACT_LIMITS] = { "api", "beside" };

/* One that is asked for beside the one that is checked: some of what it is asked it refuses. */
static struct weir_limit_spec beside(const struct weir_sim_plan *plan)
{
    struct weir_limit_spec spec = { .period_ns = plan->limit.period_ns };
    spec.count = plan->limit.count / 10 + plan->nodes;
    spec.burst = spec.count;
    return spec;
}

static struct weir_limit_spec file_says(const struct exact_node *self, uint32_t limit)
{
    return limit == 0 ? *weir_sim_spec(self->sim, self->number) : beside(weir_sim_plan_of(self->sim));
}

/* A definition as text: what a reload changes. */
static void write_text(const struct weir_limit_spec *spec, char ret_text[TEXT_MAX])
{
    (void)snprintf(ret_text, TEXT_MAX, "%" PRIu64 "/%" PRIu64, spec->count, spec->burst);
}

static void read_text(const char *text, struct weir_limit_spec *spec)
{
    int read = sscanf(text, "%" SCNu64 "/%" SCNu64, &spec->count, &spec->burst);
    weir_assert(read == 2);
}

/* `text` has room for what it points to. */
static struct weir_revision_own own_of(const struct exact_node *self, uint32_t limit, char text[TEXT_MAX])
{
    const struct weir_limit_spec spec = file_says(self, limit);
    const struct weir_sim_plan *plan = weir_sim_plan_of(self->sim);
    write_text(&spec, text);
    struct weir_revision_own own = { .name = names[limit], .text = { text, strlen(text) } };
    own.given = plan->numbered ? weir_sim_file(self->sim, self->number) + 1 : 0;
    return own;
}

static uint64_t wall_ns(void *context)
{
    const struct exact_node *self = context;
    return weir_sim_wall(self->sim, self->number);
}

static void put_in_force(struct exact_node *self, uint32_t limit)
{
    char text[TEXT_MAX];
    struct weir_revision_found found;
    struct weir_fault fault;
    const struct weir_revision_own own = own_of(self, limit, text);
    struct weir_limit_spec spec = file_says(self, limit);
    int error = weir_revisions_find(self->revisor.revisions, &own, wall_ns(self), &found);
    weir_assert(error == 0);
    if (found.text)
        read_text(found.text, &spec);
    free(found.text);
    weir_remote_limit_drop(self->limits[limit]);
    error = weir_remote_limit_create(names[limit], 0, (uint32_t)found.number, &spec, &self->limits[limit], &fault);
    weir_assert(error == 0);
    self->reloads++;
    self->shares[limit] = weir_split_spec(&spec, weir_sim_plan_of(self->sim)->nodes, self->number);
}

static void all_in_force(struct exact_node *self)
{
    self->generation = weir_revisions_generation(self->revisor.revisions);
    for (uint32_t i = 0; i < EXACT_LIMITS; i++)
        put_in_force(self, i);
}

void exact_limits_follow(struct exact_node *self)
{
    if (self->generation != weir_revisions_generation(self->revisor.revisions))
        all_in_force(self);
}

void exact_limits_own(struct exact_node *self)
{
    static const uint8_t secret[16] = "weir simulated";
    char texts[EXACT_LIMITS][TEXT_MAX], name[16];
    struct weir_revision_own owns[EXACT_LIMITS];
    int error = 0;
    if (!self->revisor.revisions) {
        (void)snprintf(name, sizeof name, "n%" PRIu32, self->number);
        error = weir_revisions_create(secret, name, &self->revisor.revisions);
        self->revisor.wall_ns = wall_ns;
        self->revisor.context = self;
    }
    for (uint32_t i = 0; i < EXACT_LIMITS; i++)
        owns[i] = own_of(self, i, texts[i]);
    if (!error)
        error = weir_revisions_own(self->revisor.revisions, owns, EXACT_LIMITS, wall_ns(self));
    weir_assert(error == 0);
    all_in_force(self);
}

/* ---- notes ---- */

int exact_note(struct weir_remote *remote, struct weir_remote_note *note)
{
    struct exact_node *self = (struct exact_node *)remote;
    uint32_t place = 0;
    while (place < EXACT_NOTES && self->notes[place].note)
        place++;
    if (self->down || place == EXACT_NOTES)
        return WEIR_EDOWN;
    struct exact_head head = { .id = ++self->ids, .kind = note->data ? EXACT_WRITE : EXACT_READ };
    head.note[0] = note->id[0];
    head.note[1] = note->id[1];
    head.size = (uint32_t)(note->data ? note->size : note->head);
    self->notes[place] = (struct exact_note){ note, head.id, weir_sim_now(self->sim, self->number) + PATIENCE_NS };
    exact_send(self->sim, self->number, WEIR_SIM_ENGINE, &head, note->data, note->data ? note->size : 0);
    return 0;
}

static void end_note(struct exact_note *place, int status, const void *bytes, size_t size)
{
    struct weir_remote_note *note = place->note;
    place->note = NULL; /* done may begin the next */
    note->done(note, status, bytes, size);
}

void exact_note_heard(struct exact_node *self, const struct exact_head *head, const uint8_t *bytes)
{
    for (uint32_t i = 0; i < EXACT_NOTES; i++) {
        if (self->notes[i].note && self->notes[i].id == head->id) {
            end_note(&self->notes[i], 0, bytes, head->size);
            break;
        }
    }
    exact_limits_follow(self);
}

void exact_notes_expire(struct exact_node *self, uint64_t now_ns)
{
    for (uint32_t i = 0; i < EXACT_NOTES; i++) {
        if (self->notes[i].note && self->notes[i].lost_ns <= now_ns)
            end_note(&self->notes[i], WEIR_EUNKNOWN, NULL, 0);
    }
}
