/* SPDX-License-Identifier: Apache-2.0
 *
 * Three parts: messages (letters) between a node and the engine; the definitions of limits, from the node's file or
 * newer ones from limits/revisions.h; and notes, which read or write a definition at the engine and may be lost. Called
 * by the modes exact_host.c and share_hosts.c, where requests are decided. */
#include "sim/script_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "core/share/split.h"

#define PATIENCE_NS WEIR_NS_PER_SECOND
#define CLOCK_NS 1000 /* what Redis shows */
#define TEXT_MAX 64
#define NAME_MAX 24

/* ---- messages ---- */

void weir_sim_letter_send(struct weir_sim *sim, uint32_t from, uint32_t to, struct weir_sim_letter *head,
                          const void *bytes, size_t size)
{
    uint8_t letter[UINT16_MAX];
    weir_assert(sizeof *head + size <= sizeof letter);
    memcpy(letter, head, sizeof *head);
    if (size > 0)
        memcpy(letter + sizeof *head, bytes, size);
    weir_sim_send(sim, from, to, letter, sizeof *head + size);
}

void weir_sim_letter_begin(struct weir_sim_script_node *node, struct weir_script_call *call,
                           struct weir_remote_request *request)
{
    const uint64_t now_ns = weir_sim_now(node->sim, node->number), wall_ns = weir_sim_wall(node->sim, node->number);
    weir_script_call_init(call, request, "weir", weir_script_clock_guess(&node->clock, now_ns, wall_ns));
}

int weir_sim_letter_decode(struct weir_sim_script_node *node, struct weir_script_call *call,
                           const struct weir_sim_letter *head, const uint8_t *bytes)
{
    int status = weir_script_call_decode(call, bytes, head->size);
    weir_script_clock_hear(&node->clock, call, weir_sim_now(node->sim, node->number));
    return status;
}

void weir_sim_letter_call(struct weir_sim_script_node *node, struct weir_sim_letter *head,
                          const struct weir_script_call *call)
{
    head->kind = WEIR_SIM_CALL;
    head->keys = (uint16_t)call->count;
    for (size_t i = 0; i < call->count; i++) {
        size_t size = call->sizes[3 + i]; /* the last digit of the key's id */
        char digit = call->argv[3 + i][size - 1];
        head->key[i] = (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    head->size = (uint32_t)call->sizes[call->argc - 1];
    weir_sim_letter_send(node->sim, node->number, WEIR_SIM_ENGINE, head, call->argv[call->argc - 1], head->size);
}

struct weir_sim_decision weir_sim_letter_run(struct weir_sim *sim, struct weir_sim_script *engine,
                                             const struct weir_sim_letter *head, const uint8_t *bytes,
                                             struct weir_sim_script_reply *ret_reply)
{
    struct weir_sim_script_server *server = weir_sim_plan_of(sim)->server;
    struct weir_sim_decision now = weir_sim_decision_now(sim);
    const uint64_t now_ns = weir_sim_now(sim, WEIR_SIM_ENGINE), shown_ns = now_ns - now_ns % CLOCK_NS;
    uint32_t keys[WEIR_SIM_SCRIPT_OPS], before[WEIR_SIM_SCRIPT_OPS];
    for (uint32_t i = 0; i < head->keys; i++) {
        keys[i] = head->key[i];
        before[i] = weir_sim_script_revision(&engine->values[keys[i]], shown_ns);
    }
    const struct weir_sim_script_call call = { shown_ns, keys, head->keys, bytes, head->size };
    const char *wrong = NULL;
    if (server)
        wrong = server->run(server, engine, &call, ret_reply);
    else
        weir_sim_script_run(engine, &call, ret_reply);
    if (wrong)
        weir_sim_wrong(sim, wrong);
    for (uint32_t i = 0; i < head->keys; i++) {
        const uint32_t after = weir_sim_script_revision(&engine->values[keys[i]], shown_ns); /* 0: all came back */
        if (after > 0 && after < before[i])
            weir_sim_wrong(sim, "a key is carried back to a definition before its own");
    }
    now.at_ns = weir_sub_sat(now.at_ns, now_ns - shown_ns);
    return now;
}

void weir_sim_letter_note(struct weir_sim *sim, struct weir_sim_script *engine, uint32_t from,
                          struct weir_sim_letter *head, const uint8_t *bytes)
{
    struct weir_sim_script_note *note = weir_sim_script_note_of(engine, head->note);
    uint8_t before[WEIR_SIM_SCRIPT_NOTE_MAX];
    weir_assert(note);
    size_t size = note->size;
    memcpy(before, note->bytes, size);
    if (head->kind == WEIR_SIM_READ) {
        size = weir_min_u64(size, head->size);
    } else {
        weir_assert(head->size <= sizeof note->bytes);
        memcpy(note->bytes, bytes, head->size);
        note->size = head->size;
    }
    head->size = (uint32_t)size;
    weir_sim_letter_send(sim, WEIR_SIM_ENGINE, from, head, before, size);
}

bool weir_sim_letter_is_older(const struct weir_sim *sim, const struct weir_sim_script *engine,
                              const struct weir_sim_letter *head)
{
    const struct weir_limit_spec *newest = weir_sim_newest(sim);
    const struct weir_sim_script_value *value = &engine->values[0];
    return newest && head->behind && head->key[0] == 0 && value->size > 0 && !weir_sim_script_is_of(value, newest);
}

/* ---- definitions ---- */

static void name_of(uint32_t limit, char ret_name[NAME_MAX])
{
    (void)snprintf(ret_name, NAME_MAX, limit == 0 ? "api" : "beside%" PRIu32, limit);
}

/* One that is asked for beside the one that is checked: some of what it is asked it refuses. */
static struct weir_limit_spec beside(const struct weir_sim_plan *plan)
{
    struct weir_limit_spec spec = { .period_ns = plan->limit.period_ns };
    spec.count = plan->limit.count / 10 + plan->nodes;
    spec.burst = spec.count;
    return spec;
}

static struct weir_limit_spec file_says(const struct weir_sim_script_node *node, uint32_t limit)
{
    return limit == 0 ? *weir_sim_spec(node->sim, node->number) : beside(weir_sim_plan_of(node->sim));
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

/* A limit as the file has it, with room for what it points to. */
struct line {
    char name[NAME_MAX], text[TEXT_MAX];
    struct weir_revision_own own;
};

static void line_of(const struct weir_sim_script_node *node, uint32_t limit, struct line *ret_line)
{
    const struct weir_limit_spec spec = file_says(node, limit);
    const struct weir_sim_plan *plan = weir_sim_plan_of(node->sim);
    name_of(limit, ret_line->name);
    write_text(&spec, ret_line->text);
    ret_line->own = (struct weir_revision_own){ .name = ret_line->name,
                                                .text = { ret_line->text, strlen(ret_line->text) } };
    ret_line->own.given = plan->numbered ? weir_sim_file(node->sim, node->number) + 1 : 0;
}

static uint64_t wall_ns(void *context)
{
    const struct weir_sim_script_node *node = context;
    return weir_sim_wall(node->sim, node->number);
}

static void put_in_force(struct weir_sim_script_node *node, uint32_t limit)
{
    struct line line;
    struct weir_revision_found found;
    struct weir_fault fault;
    struct weir_limit_spec spec = file_says(node, limit);
    line_of(node, limit, &line);
    int error = weir_revisions_find(node->revisor.revisions, &line.own, wall_ns(node), &found);
    weir_assert(error == 0);
    if (found.text)
        read_text(found.text, &spec);
    free(found.text);
    weir_remote_limit_drop(node->limits[limit]);
    error = weir_remote_limit_create(line.name, 0, (uint32_t)found.number, &spec, &node->limits[limit], &fault);
    weir_assert(error == 0);
    node->reloads++;
    node->shares[limit] = weir_split_spec(&spec, weir_sim_plan_of(node->sim)->nodes, node->number);
}

static void all_in_force(struct weir_sim_script_node *node)
{
    node->generation = weir_revisions_generation(node->revisor.revisions);
    for (uint32_t i = 0; i < node->count; i++) {
        if ((node->absent >> i & 1) == 0)
            put_in_force(node, i);
    }
}

static void follow(struct weir_sim_script_node *node)
{
    if (node->generation != weir_revisions_generation(node->revisor.revisions))
        all_in_force(node);
}

void weir_sim_script_node_reload(struct weir_sim_script_node *node)
{
    struct line lines[WEIR_SIM_SCRIPT_KEYS];
    struct weir_revision_own owns[WEIR_SIM_SCRIPT_KEYS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->absent >> i & 1)
            continue;
        line_of(node, i, &lines[i]);
        owns[count++] = lines[i].own;
    }
    int error = weir_revisions_own(node->revisor.revisions, owns, count, wall_ns(node));
    weir_assert(error == 0);
    all_in_force(node);
}

bool weir_sim_script_node_is_left_behind(const struct weir_sim_script_node *node, const struct weir_remote_limit *limit)
{
    const struct weir_limit_spec *newest = weir_sim_newest(node->sim);
    return newest && (newest->count != limit->spec.count || newest->burst != limit->spec.burst);
}

/* It has met a number that nobody else may know any more, and looks for whoever does: ten times, behind the look that
 * may be under way. */
static bool looks_for_number(struct weir_sim_script_node *node, const struct weir_remote_limit *limit)
{
    const uint32_t met = weir_remote_limit_met(limit);
    if (met > node->met) {
        node->met = met;
        node->met_looks = node->looks;
    }
    return met > limit->revision && node->looks - node->met_looks <= WEIR_REVISION_LOOKS + 1;
}

bool weir_sim_script_node_may_be_behind(struct weir_sim_script_node *node, const struct weir_remote_limit *limit)
{
    bool looks = looks_for_number(node, limit);
    return limit->revision == 0 || !weir_sim_newest(node->sim) || weir_sim_script_node_is_left_behind(node, limit) ||
           looks;
}

const char *weir_sim_script_nodes_agree(struct weir_sim *sim, bool (*is_told)(const struct weir_sim_script_node *node))
{
    const struct weir_remote_limit *first = NULL;
    for (uint32_t i = 0; i < weir_sim_plan_of(sim)->nodes; i++) {
        const struct weir_sim_script_node *node = weir_sim_state(sim, i);
        if (!node || (is_told && !is_told(node)))
            continue;
        const struct weir_remote_limit *limit = node->limits[0];
        first = first ? first : limit;
        if (limit->revision != first->revision || limit->spec.count != first->spec.count ||
            limit->spec.burst != first->spec.burst)
            return "nodes decide by different definitions";
    }
    return NULL;
}

/* ---- notes ---- */

int weir_sim_script_node_note(struct weir_remote *remote, struct weir_remote_note *note)
{
    struct weir_sim_script_node *node = (struct weir_sim_script_node *)remote;
    uint32_t place = 0;
    while (place < 2 * node->count && node->notes[place].note)
        place++;
    if (node->down || place == 2 * node->count)
        return WEIR_EDOWN;
    struct weir_sim_letter head = { .id = ++node->ids, .kind = note->data ? WEIR_SIM_WRITE : WEIR_SIM_READ };
    head.note[0] = note->id[0];
    head.note[1] = note->id[1];
    head.size = (uint32_t)(note->data ? note->size : note->head);
    node->notes[place] = (struct weir_sim_note){ note, head.id, weir_sim_now(node->sim, node->number) + PATIENCE_NS };
    weir_sim_letter_send(node->sim, node->number, WEIR_SIM_ENGINE, &head, note->data, note->data ? note->size : 0);
    return 0;
}

/* A look at the first limit's definition, which tells just that which is the newest here. */
static bool tells_the_same(const struct weir_sim_script_node *node, const struct weir_remote_note *note,
                           const uint8_t *bytes, size_t size)
{
    struct weir_revision_brief brief;
    bool looks = !note->data && note->id[0] == node->id[0] && note->id[1] == node->id[1];
    for (size_t i = 0; looks && weir_revisions_brief(node->revisor.revisions, i, &brief); i++) {
        if (brief.id[0] == node->id[0] && brief.id[1] == node->id[1])
            return size >= sizeof brief.head && memcmp(bytes, brief.head, sizeof brief.head) == 0;
    }
    return false;
}

static void end_note(struct weir_sim_note *place, int status, const void *bytes, size_t size)
{
    struct weir_remote_note *note = place->note;
    place->note = NULL; /* done may begin the next */
    note->done(note, status, bytes, size);
}

void weir_sim_script_node_heard(struct weir_sim_script_node *node, const struct weir_sim_letter *head,
                                const uint8_t *bytes)
{
    for (uint32_t i = 0; i < 2 * node->count; i++) {
        if (node->notes[i].note && node->notes[i].id == head->id) {
            node->looks += tells_the_same(node, node->notes[i].note, bytes, head->size);
            end_note(&node->notes[i], 0, bytes, head->size);
            break;
        }
    }
    follow(node);
}

static void expire(struct weir_sim_script_node *node, uint64_t now_ns)
{
    for (uint32_t i = 0; i < 2 * node->count; i++) {
        if (node->notes[i].note && node->notes[i].lost_ns <= now_ns)
            end_note(&node->notes[i], WEIR_EUNKNOWN, NULL, 0);
    }
}

/* ---- a node ---- */

static void note_id(struct weir_sim_script_node *node, const uint8_t *secret)
{
    struct weir_revisions *alone;
    struct weir_revision_brief brief;
    struct line line;
    line_of(node, 0, &line);
    int error = weir_revisions_create(secret, "", &alone);
    weir_assert(error == 0);
    error = weir_revisions_own(alone, &line.own, 1, wall_ns(node));
    weir_assert(error == 0);
    bool found = weir_revisions_brief(alone, 0, &brief);
    weir_assert(found);
    memcpy(node->id, brief.id, sizeof node->id);
    weir_revisions_destroy(alone);
}

void weir_sim_script_node_start(struct weir_sim_script_node *node, struct weir_sim *sim, uint32_t number,
                                uint32_t limits, const struct weir_remote_ops *ops)
{
    static const uint8_t secret[16] = "weir simulated";
    char name[16];
    weir_assert(limits <= WEIR_SIM_SCRIPT_KEYS && limits <= WEIR_SIM_SCRIPT_NOTES);
    *node = (struct weir_sim_script_node){ .remote = { ops }, .sim = sim, .number = number, .count = limits };
    node->turn_ns = weir_sim_now(sim, number) + 1;
    node->ids = (uint32_t)weir_sim_number(sim) << 20; /* what comes to a former life is not ours */
    uint32_t named = weir_sim_plan_of(sim)->twins && number == 1 ? 0 : number;
    (void)snprintf(name, sizeof name, "n%" PRIu32, named);
    int error = weir_revisions_create(secret, name, &node->revisor.revisions);
    weir_assert(error == 0);
    node->revisor.wall_ns = wall_ns;
    node->revisor.context = node;
    note_id(node, secret);
    weir_sim_script_node_reload(node);
}

void weir_sim_script_node_stop(struct weir_sim_script_node *node)
{
    node->down = true;
    expire(node, WEIR_NEVER);
    for (uint32_t i = 0; i < node->count; i++)
        weir_remote_limit_drop(node->limits[i]);
    weir_revisions_destroy(node->revisor.revisions);
}

uint64_t weir_sim_script_node_due_ns(const struct weir_sim_script_node *node)
{
    uint64_t at_ns = node->turn_ns;
    for (uint32_t i = 0; i < 2 * node->count; i++) {
        if (node->notes[i].note)
            at_ns = weir_min_u64(at_ns, node->notes[i].lost_ns);
    }
    return at_ns;
}

void weir_sim_script_node_turn(struct weir_sim_script_node *node)
{
    const uint64_t now_ns = weir_sim_now(node->sim, node->number);
    expire(node, now_ns);
    if (node->turn_ns <= now_ns) {
        for (uint32_t i = 0; i < node->count; i++) {
            if (node->limits[i])
                weir_revisor_met(&node->revisor, node->limits[i]);
        }
        weir_revisor_turn(&node->revisor, &node->remote, now_ns);
        node->turn_ns = weir_max_u64(node->revisor.due_ns, now_ns + WEIR_SIM_TICK_NS);
    }
    follow(node);
}
