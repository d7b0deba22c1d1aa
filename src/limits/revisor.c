/* SPDX-License-Identifier: Apache-2.0
 *
 * For each limit the revisor sends a chain of notes (remote.h), each after the reply to the one before. It reads the
 * head of the definition; if the engine's is newer, it reads the whole; if this node's is newer, it writes that. The
 * reply to a write is what was overwritten: if that was newer, this node takes it over and writes it at a later turn.
 * revisions.c decides which is newer, and hears what numbers keys say that nobody told. Called by serve/sharer.c, on a
 * timer of the first event loop. */
#include "limits/revisor.h"

#include <stdlib.h>

/* One limit's turn: its head is read; then all of it, if that is newer; or what is known here is written. */
struct visit {
    struct weir_remote_note note; /* first */
    struct weir_revisor *revisor;
    struct weir_remote *remote;
    uint64_t number; /* that is being written */
    uint8_t *bytes;
};

static uint64_t wall_ns(const struct weir_revisor *revisor)
{
    return revisor->wall_ns(revisor->context);
}

static void end(struct visit *visit)
{
    visit->revisor->asking--;
    free(visit->bytes);
    free(visit);
}

static void go(struct visit *visit,
               void (*done)(struct weir_remote_note *note, int status, const void *bytes, size_t size))
{
    visit->note.done = done;
    if (visit->remote->ops->note(visit->remote, &visit->note))
        end(visit);
}

/* Who wrote last may have written over what is newer: then that is known here from now on, and written in its turn. */
static void on_written(struct weir_remote_note *note, int status, const void *bytes, size_t size)
{
    struct visit *visit = (struct visit *)note;
    struct weir_revisions *revisions = visit->revisor->revisions;
    if (!status) {
        (void)weir_revisions_hear(revisions, note->id, bytes, size, true, wall_ns(visit->revisor));
        weir_revisions_told(revisions, note->id, visit->number);
    }
    end(visit);
}

static void write_newest(struct visit *visit)
{
    struct weir_remote_note *note = &visit->note;
    if (weir_revisions_bytes(visit->revisor->revisions, note->id, &visit->bytes, &note->size, &visit->number)) {
        end(visit);
        return;
    }
    note->data = visit->bytes;
    go(visit, on_written);
}

static void on_read(struct weir_remote_note *note, int status, const void *bytes, size_t size)
{
    struct visit *visit = (struct visit *)note;
    bool whole = note->head > WEIR_REVISION_HEAD;
    if (status) {
        if (status == WEIR_ECORRUPT)
            atomic_fetch_add_explicit(&visit->revisor->corrupt, 1, memory_order_relaxed);
        end(visit);
        return;
    }
    switch (weir_revisions_hear(visit->revisor->revisions, note->id, bytes, size, whole, wall_ns(visit->revisor))) {
    case WEIR_REVISION_SAME:
        if (size > 0)
            weir_revisions_lies_there(visit->revisor->revisions, note->id, bytes);
        if (weir_revisions_pass(visit->revisor->revisions, note->id, wall_ns(visit->revisor)))
            write_newest(visit);
        else
            end(visit);
        return;
    case WEIR_REVISION_OLDER:
        write_newest(visit);
        return;
    case WEIR_REVISION_NEWER:
        note->head = WEIR_REVISION_BYTES_MAX; /* of what is longer the signature is wrong */
        if (whole)
            end(visit); /* memory was out */
        else
            go(visit, on_read);
        return;
    case WEIR_REVISION_CORRUPT:
        atomic_fetch_add_explicit(&visit->revisor->corrupt, 1, memory_order_relaxed);
        end(visit);
        return;
    }
}

static void begin(struct weir_revisor *revisor, struct weir_remote *remote, const uint64_t id[2])
{
    struct visit *visit = calloc(1, sizeof(*visit));
    if (!visit)
        return; /* the next time */
    visit->revisor = revisor;
    visit->remote = remote;
    visit->note.id[0] = id[0];
    visit->note.id[1] = id[1];
    visit->note.head = WEIR_REVISION_HEAD;
    revisor->asking++;
    go(visit, on_read);
}

/* From place *at on; returns how many. */
static size_t tell(struct weir_revisor *revisor, struct weir_remote *remote, size_t *at, size_t most)
{
    size_t begun = 0;
    uint64_t id[2];
    while (begun < most && weir_revisions_untold(revisor->revisions, at, id)) {
        begin(revisor, remote, id);
        begun++;
    }
    return begun;
}

bool weir_revisor_ends(struct weir_revisor *revisor, struct weir_remote *remote)
{
    if (!remote->ops->ready(remote))
        return false;
    return revisor->asking > 0 || tell(revisor, remote, &revisor->end_next, WEIR_REVISOR_BATCH) > 0;
}

void weir_revisor_turn(struct weir_revisor *revisor, struct weir_remote *remote, uint64_t now_ns)
{
    size_t count = weir_revisions_count(revisor->revisions), at = 0;
    struct weir_revision_brief brief;
    if (revisor->asking > 0 || now_ns < revisor->due_ns || !remote->ops->ready(remote))
        return;
    revisor->due_ns = now_ns + WEIR_REVISOR_PERIOD_NS;
    /* Where not all have their turn at once; half of the room, for it may be that the engine takes none of them. */
    size_t told = count > WEIR_REVISOR_BATCH ? tell(revisor, remote, &at, WEIR_REVISOR_BATCH / 2) : 0;
    for (size_t i = told; i < count && i < WEIR_REVISOR_BATCH; i++) {
        if (revisor->next >= count)
            revisor->next = 0;
        if (weir_revisions_brief(revisor->revisions, revisor->next++, &brief))
            begin(revisor, remote, brief.id);
    }
}

void weir_revisor_met(struct weir_revisor *revisor, const struct weir_remote_limit *limit)
{
    uint32_t number = weir_remote_limit_met(limit);
    if (number > limit->revision && weir_revisions_met(revisor->revisions, limit->name, number))
        atomic_fetch_add_explicit(&revisor->beyond, 1, memory_order_relaxed);
}
