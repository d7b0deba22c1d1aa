/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/revisor: what a node and the engine know of the newest definitions becomes the same. The engine is a shelf of
 * notes in this process, which answers when it is told to. */
#include "limits/revisor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"

#define LIMITS_MAX 1200
#define WALL_NS (UINT64_C(1700000000) * WEIR_NS_PER_SECOND)

/* ---- the engine ---- */

struct note {
    uint64_t id[2];
    uint8_t *bytes;
    size_t size;
};

struct engine {
    struct weir_remote remote;
    struct note notes[LIMITS_MAX];
    size_t notes_count;
    struct weir_remote_note *asked[LIMITS_MAX]; /* and not answered */
    size_t asked_count;
    size_t reads, wholes, writes;
    bool away;     /* it is not ready */
    int refuses;   /* what note says */
    int status;    /* what its answers say */
    uint64_t seen; /* a bit for each of the first notes that are asked for, by their place in the shelf */
    size_t others; /* asked for, and none of them */
    size_t heads;  /* of which size the last one was asked for */
};

static const uint8_t secret[16] = { 1, 2, 3 };

static int on_note(struct weir_remote *remote, struct weir_remote_note *note)
{
    struct engine *engine = (struct engine *)remote;
    if (engine->refuses)
        return engine->refuses;
    assert_true(engine->asked_count < LIMITS_MAX);
    engine->asked[engine->asked_count++] = note;
    return 0;
}

static bool on_ready(struct weir_remote *remote)
{
    return !((struct engine *)remote)->away;
}

static const struct weir_remote_ops engine_ops = { .name = "shelf", .note = on_note, .ready = on_ready };

static struct note *note_of(struct engine *engine, const uint64_t id[2])
{
    for (size_t i = 0; i < engine->notes_count; i++)
        if (memcmp(engine->notes[i].id, id, sizeof(engine->notes[i].id)) == 0)
            return &engine->notes[i];
    assert_true(engine->notes_count < LIMITS_MAX);
    struct note *made = &engine->notes[engine->notes_count++];
    memcpy(made->id, id, sizeof(made->id));
    return made;
}

static void put(struct note *note, const void *bytes, size_t size)
{
    free(note->bytes);
    note->bytes = malloc(size + 1);
    memcpy(note->bytes, bytes, size);
    note->size = size;
}

/* All that is asked for, and what the answers lead to. */
static void answer(struct engine *engine)
{
    while (engine->asked_count > 0) {
        struct weir_remote_note *asked = engine->asked[--engine->asked_count];
        struct note *note = note_of(engine, asked->id), was = { .size = 0 };
        if (note->bytes)
            put(&was, note->bytes, note->size);
        engine->reads += !asked->data;
        engine->wholes += !asked->data && asked->head == WEIR_REVISION_BYTES_MAX;
        engine->writes += asked->data != NULL;
        assert_true(asked->data || asked->head == WEIR_REVISION_HEAD || asked->head == WEIR_REVISION_BYTES_MAX);
        if (asked->data && !engine->status)
            put(note, asked->data, asked->size);
        const size_t told = asked->data || was.size < asked->head ? was.size : asked->head;
        asked->done(asked, engine->status, engine->status ? NULL : was.bytes, engine->status ? 0 : told);
        free(was.bytes);
    }
}

/* ---- the node ---- */

struct node {
    struct engine engine;
    struct weir_revisor revisor;
    uint64_t now_ns;
};

static uint64_t wall_of(void *context)
{
    return WALL_NS + ((struct node *)context)->now_ns;
}

static struct weir_revisions *revisions_of(const char *node, const char *text, uint64_t wall_ns)
{
    struct weir_revisions *revisions;
    const struct weir_revision_own own = { "x", { text, strlen(text) }, 0 };
    assert_int_equal(weir_revisions_create(secret, node, &revisions), 0);
    assert_int_equal(weir_revisions_own(revisions, &own, 1, wall_ns), 0);
    return revisions;
}

static struct node *node_start(const char *text)
{
    struct node *node = calloc(1, sizeof(*node));
    assert_non_null(node);
    node->engine.remote.ops = &engine_ops;
    node->now_ns = WEIR_NS_PER_SECOND;
    node->revisor.revisions = revisions_of("n", text, WALL_NS);
    node->revisor.wall_ns = wall_of;
    node->revisor.context = node;
    return node;
}

static void node_stop(struct node *node)
{
    assert_int_equal(node->revisor.asking, 0);
    weir_revisions_destroy(node->revisor.revisions);
    for (size_t i = 0; i < node->engine.notes_count; i++)
        free(node->engine.notes[i].bytes);
    free(node);
}

/* The next one that is due, and all that comes of it. */
static void turn(struct node *node)
{
    node->now_ns += WEIR_REVISOR_PERIOD_NS;
    weir_revisor_turn(&node->revisor, &node->engine.remote, node->now_ns);
    answer(&node->engine);
    assert_int_equal(node->revisor.asking, 0);
}

static void id_of(const struct weir_revisions *revisions, uint64_t ret_id[2])
{
    struct weir_revision_brief brief;
    assert_true(weir_revisions_brief(revisions, 0, &brief));
    memcpy(ret_id, brief.id, sizeof(brief.id));
}

/* The newest that a node of this text knows, whose file was reloaded to it at that time; its bytes, to free. */
static uint8_t *newer_bytes(const char *text, uint64_t wall_ns, size_t *ret_size)
{
    struct weir_revisions *other = revisions_of("other", "before", WALL_NS);
    const struct weir_revision_own own = { "x", { text, strlen(text) }, 0 };
    uint64_t id[2], number;
    uint8_t *bytes;
    weir_revisions_alone(other, WALL_NS);
    assert_int_equal(weir_revisions_own(other, &own, 1, wall_ns), 0);
    id_of(other, id);
    assert_int_equal(weir_revisions_bytes(other, id, &bytes, ret_size, &number), 0);
    weir_revisions_destroy(other);
    return bytes;
}

/* At the engine from now on. */
static void put_newer(struct node *node, const char *text, uint64_t wall_ns)
{
    uint64_t id[2];
    size_t size;
    uint8_t *bytes = newer_bytes(text, wall_ns, &size);
    id_of(node->revisor.revisions, id);
    put(note_of(&node->engine, id), bytes, size);
    free(bytes);
}

/* By which definition the node decides whose file says `file`; "": by the file's. */
static void decides_by(const struct node *node, const char *file, const char *text)
{
    struct weir_revision_found found;
    const struct weir_revision_own own = { "x", { file, strlen(file) }, 0 };
    assert_int_equal(weir_revisions_find(node->revisor.revisions, &own, WALL_NS, &found), 0);
    assert_string_equal(found.text ? found.text : "", text);
    free(found.text);
}

static struct weir_revision_own *many(const char *text)
{
    static char names[LIMITS_MAX][8];
    static struct weir_revision_own own[LIMITS_MAX];
    for (size_t i = 0; i < LIMITS_MAX; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%zu", i);
        own[i] = (struct weir_revision_own){ names[i], { text, strlen(text) }, 0 };
    }
    return own;
}

/* ---- turns ---- */

static void a_turn_is_due_each_period_unless_one_is_under_way(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    struct engine *engine = &node->engine;
    const uint64_t first_ns = node->now_ns;
    engine->away = true;
    weir_revisor_turn(&node->revisor, &engine->remote, first_ns);
    assert_int_equal(engine->asked_count, 0);
    engine->away = false;
    weir_revisor_turn(&node->revisor, &engine->remote, first_ns); /* none was lost by its being away */
    assert_int_equal(engine->asked_count, 1);
    assert_int_equal(engine->asked[0]->head, WEIR_REVISION_HEAD);
    weir_revisor_turn(&node->revisor, &engine->remote, first_ns + 2 * WEIR_REVISOR_PERIOD_NS);
    assert_int_equal(engine->asked_count, 1); /* still under way */
    answer(engine);
    weir_revisor_turn(&node->revisor, &engine->remote, first_ns + WEIR_REVISOR_PERIOD_NS - 1);
    assert_int_equal(engine->asked_count, 0);
    weir_revisor_turn(&node->revisor, &engine->remote, first_ns + WEIR_REVISOR_PERIOD_NS);
    assert_int_equal(engine->asked_count, 1);
    answer(engine);
    node_stop(node);
}

/* So many at a time, each as often as any other. */
static void all_limits_are_looked_at_in_turn(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    struct weir_revision_own *own = many("mine");
    for (size_t count = WEIR_REVISOR_BATCH - 1; count <= WEIR_REVISOR_BATCH + 1; count++) {
        assert_int_equal(weir_revisions_own(node->revisor.revisions, own, count, WALL_NS), 0);
        turn(node); /* as many as "x", which is gone, and is kept in mind */
        const size_t all = weir_revisions_count(node->revisor.revisions), reads = node->engine.reads;
        for (size_t i = 0; i < all; i++)
            turn(node);
        const size_t batch = all < WEIR_REVISOR_BATCH ? all : WEIR_REVISOR_BATCH;
        assert_int_equal(node->engine.reads - reads, all * batch);
    }
    assert_int_equal(weir_revisions_own(node->revisor.revisions, own, LIMITS_MAX - 1, WALL_NS), 0);
    node->engine.writes = 0;
    for (int i = 0; i < 3; i++) /* 1,200, 512 at a time: each that is new is met, and written */
        turn(node);
    assert_int_equal(node->engine.notes_count, LIMITS_MAX);
    assert_int_equal(node->engine.writes, LIMITS_MAX - 1 - (WEIR_REVISOR_BATCH + 1));
    node_stop(node);
}

/* Of many, too, what a reload has changed is told at the next turn; what the engine refuses holds up no others. */
static void what_is_not_told_yet_comes_first(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    struct weir_revision_own *own = many("mine");
    assert_int_equal(weir_revisions_own(node->revisor.revisions, own, LIMITS_MAX - 1, WALL_NS), 0);
    for (int i = 0; i < 6; i++)
        turn(node);
    for (size_t i = 0; i < LIMITS_MAX - 1; i += 199) {
        own[i].text = (struct weir_slice){ "changed", 7 };
        assert_int_equal(weir_revisions_own(node->revisor.revisions, own, LIMITS_MAX - 1, WALL_NS), 0);
        node->engine.writes = 0;
        turn(node);
        assert_int_equal(node->engine.writes, 1);
    }
    assert_int_equal(weir_revisions_own(node->revisor.revisions, many("again"), LIMITS_MAX - 1, WALL_NS), 0);
    for (size_t i = 0; i < node->engine.notes_count; i++)
        put(&node->engine.notes[i], "not ours", 8);
    node->revisor.next = 0;
    turn(node);
    assert_int_equal(node->revisor.corrupt, WEIR_REVISOR_BATCH);
    assert_int_equal(node->revisor.next, WEIR_REVISOR_BATCH / 2);
    node_stop(node);
}

/* A node that ends tries each once, and waits for the answers. */
static void at_the_end_all_is_told(void **state)
{
    (void)state;
    const struct weir_revision_own own = { "x", { "changed", 7 }, 0 };
    for (int fails = 0; fails < 2; fails++) {
        struct node *node = node_start("mine");
        struct engine *engine = &node->engine;
        turn(node);
        assert_int_equal(weir_revisions_own(node->revisor.revisions, &own, 1, WALL_NS), 0);
        engine->away = true;
        assert_false(weir_revisor_ends(&node->revisor, &engine->remote));
        engine->away = false;
        for (int i = 0; i < 2; i++)
            assert_true(weir_revisor_ends(&node->revisor, &engine->remote));
        engine->status = fails ? WEIR_EDOWN : 0;
        answer(engine);
        assert_int_equal(engine->writes, 2 - fails);
        assert_false(weir_revisor_ends(&node->revisor, &engine->remote));
        node_stop(node);
    }
}

/* ---- one of them ---- */

static void what_the_engine_does_not_know_is_written_once(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    uint64_t id[2], number;
    uint8_t *bytes;
    size_t size;
    turn(node);
    assert_int_equal(node->engine.writes, 1);
    id_of(node->revisor.revisions, id);
    assert_int_equal(weir_revisions_bytes(node->revisor.revisions, id, &bytes, &size, &number), 0);
    assert_int_equal(number, 1);
    const struct note *note = note_of(&node->engine, id);
    assert_int_equal(note->size, size);
    assert_memory_equal(note->bytes, bytes, size);
    free(bytes);
    for (int i = 0; i < 20; i++)
        turn(node);
    assert_int_equal(node->engine.writes, 1);
    assert_int_equal(node->engine.wholes, 0);
    assert_int_equal(node->engine.reads, 21);
    assert_int_equal(node->revisor.corrupt + node->revisor.beyond, 0);
    node_stop(node);
}

static void what_is_newer_there_is_read_whole_and_believed(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    turn(node);
    put_newer(node, "newer", WALL_NS + 60 * WEIR_NS_PER_SECOND);
    turn(node);
    decides_by(node, "mine", "newer");
    assert_int_equal(node->engine.wholes, 1);
    turn(node);
    assert_int_equal(node->engine.wholes, 1);
    assert_int_equal(node->engine.writes, 1); /* the first */
    node_stop(node);
}

/* Between a read and a write another node may have been faster: what it wrote is not lost. */
static void what_a_write_has_overwritten_is_written_again_if_it_was_newer(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    uint64_t id[2];
    id_of(node->revisor.revisions, id);
    weir_revisor_turn(&node->revisor, &node->engine.remote, node->now_ns);
    struct weir_remote_note *asked = node->engine.asked[--node->engine.asked_count];
    asked->done(asked, 0, NULL, 0); /* nothing is there yet */
    assert_int_equal(node->engine.asked_count, 1);
    assert_non_null(node->engine.asked[0]->data);
    put_newer(node, "newer", WALL_NS + 60 * WEIR_NS_PER_SECOND);
    struct note newer = { .size = 0 }, *note = note_of(&node->engine, id);
    put(&newer, note->bytes, note->size);
    answer(&node->engine);
    decides_by(node, "mine", "newer");
    assert_memory_not_equal(note->bytes, newer.bytes, WEIR_REVISION_HEAD);
    turn(node);
    assert_memory_equal(note->bytes, newer.bytes, WEIR_REVISION_HEAD);
    free(newer.bytes);
    node_stop(node);
}

/* ---- what fails ---- */

static void what_is_not_ours_is_counted_and_left_alone(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    uint64_t id[2];
    put_newer(node, "newer", WALL_NS + 60 * WEIR_NS_PER_SECOND);
    id_of(node->revisor.revisions, id);
    struct note *note = note_of(&node->engine, id);
    note->bytes[0] ^= 1; /* which the head shows */
    turn(node);
    assert_int_equal(node->revisor.corrupt, 1);
    assert_int_equal(node->engine.wholes, 0);
    note->bytes[0] ^= 1;
    note->bytes[note->size - 1] ^= 1; /* which all of it shows */
    turn(node);
    assert_int_equal(node->revisor.corrupt, 2);
    assert_int_equal(node->engine.wholes, 1);
    node->engine.status = WEIR_ECORRUPT; /* it is no note at all */
    turn(node);
    assert_int_equal(node->revisor.corrupt, 3);
    decides_by(node, "mine", "");
    assert_int_equal(node->engine.writes, 0);
    node_stop(node);
}

static void an_engine_that_fails_is_asked_again(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    const int statuses[] = { WEIR_EDOWN, WEIR_EUNKNOWN };
    for (size_t i = 0; i < 2; i++) {
        node->engine.status = statuses[i];
        turn(node);
        assert_int_equal(node->engine.reads, i + 1);
    }
    node->engine.status = 0;
    node->engine.refuses = WEIR_EDOWN;
    turn(node);
    assert_int_equal(node->engine.reads, 2);
    assert_int_equal(node->revisor.corrupt, 0);
    node->engine.refuses = 0;
    weir_revisor_turn(&node->revisor, &node->engine.remote, node->now_ns + WEIR_REVISOR_PERIOD_NS);
    struct weir_remote_note *asked = node->engine.asked[--node->engine.asked_count];
    node->engine.refuses = WEIR_EDOWN; /* the write, that is */
    asked->done(asked, 0, NULL, 0);
    assert_int_equal(node->revisor.asking, 0);
    node->engine.refuses = 0;
    node->now_ns += WEIR_REVISOR_PERIOD_NS;
    turn(node);
    assert_int_equal(node->engine.writes, 1);
    node_stop(node);
}

/* A write that nobody knows of tells nobody: what a reload made is told until it is heard. */
static void a_write_that_fails_has_told_nobody(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    const struct weir_revision_own own = { "x", { "reloaded", 8 }, 0 };
    turn(node);
    assert_int_equal(weir_revisions_own(node->revisor.revisions, &own, 1, WALL_NS), 0);
    node->now_ns += WEIR_REVISOR_PERIOD_NS;
    weir_revisor_turn(&node->revisor, &node->engine.remote, node->now_ns);
    for (int status = 0; status < 2; status++) { /* it reads, and then fails to write */
        struct weir_remote_note *asked = node->engine.asked[--node->engine.asked_count];
        const struct note *note = note_of(&node->engine, asked->id);
        asked->done(asked, status ? WEIR_EUNKNOWN : 0, status ? NULL : note->bytes, status ? 0 : WEIR_REVISION_HEAD);
    }
    put_newer(node, "theirs", WALL_NS + 60 * WEIR_NS_PER_SECOND); /* who wrote that has not heard of it */
    turn(node);
    turn(node);
    decides_by(node, "reloaded", "");
    node_stop(node);
}

/* ---- what keys say ---- */

static void a_number_that_only_keys_say_is_passed_or_counted(void **state)
{
    (void)state;
    struct node *node = node_start("mine");
    const struct weir_limit_spec spec = { .count = 10, .period_ns = WEIR_NS_PER_SECOND };
    const struct weir_remote_limit *limit;
    uint64_t id[2];
    assert_int_equal(weir_remote_limit_create("x", 0, 7, &spec, &limit, NULL), 0);
    turn(node);
    id_of(node->revisor.revisions, id);
    const struct note *note = note_of(&node->engine, id);
    const uint32_t met[] = { 7, 8 }; /* its own is no news */
    for (size_t i = 0; i < 2; i++) {
        weir_remote_limit_meet(limit, met[i]);
        weir_revisor_met(&node->revisor, limit);
        for (int look = 0; look < 2 * WEIR_REVISION_LOOKS; look++)
            turn(node);
        const uint64_t number = weir_big_get(note->bytes + 4, 8);
        assert_true(i == 0 ? number == 1 : number > 8);
        assert_int_equal(node->engine.writes, i + 1);
        assert_int_equal(node->revisor.beyond, 0);
    }
    for (uint32_t i = 1; i < 3; i++) {
        struct weir_remote_limit *changed = (struct weir_remote_limit *)(uintptr_t)limit;
        changed->met = WEIR_REVISION_CLOCK_MAX + i;
        weir_revisor_met(&node->revisor, limit);
        weir_revisor_met(&node->revisor, limit); /* which is nothing new */
        assert_int_equal(node->revisor.beyond, i);
    }
    weir_remote_limit_drop(limit);
    node_stop(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_is_due_each_period_unless_one_is_under_way),
        cmocka_unit_test(all_limits_are_looked_at_in_turn),
        cmocka_unit_test(what_is_not_told_yet_comes_first),
        cmocka_unit_test(at_the_end_all_is_told),
        cmocka_unit_test(what_the_engine_does_not_know_is_written_once),
        cmocka_unit_test(what_is_newer_there_is_read_whole_and_believed),
        cmocka_unit_test(what_a_write_has_overwritten_is_written_again_if_it_was_newer),
        cmocka_unit_test(what_is_not_ours_is_counted_and_left_alone),
        cmocka_unit_test(an_engine_that_fails_is_asked_again),
        cmocka_unit_test(a_write_that_fails_has_told_nobody),
        cmocka_unit_test(a_number_that_only_keys_say_is_passed_or_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
