/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt is one RESP command over link.c. The loop around it ends when the lock is granted or the wait is over. A
 * lost reply, or a wait that the server ended too early, is followed by another attempt, after a pause that doubles
 * each time. After a lost reply the outcome is unknown until an attempt is answered. Called by lock.c, the holder's
 * handle; cli/lock.c asks here who holds a lock. */
#include "client/ask.h"

#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault_format.h"
#include "client/clock.h"
#include "client/link.h"
#include "wire/resp_write.h"

#define PAUSE_MIN_NS (20 * WEIR_NS_PER_MS) /* between two attempts; doubles up to */
#define PAUSE_MAX_NS (500 * WEIR_NS_PER_MS)
#define ARGS_MAX 8
#define COMMAND_MAX (WEIR_LOCK_NAME_MAX + WEIR_LOCK_OWNER_MAX + (ARGS_MAX + 1) * (2 * WEIR_RESP_HEADER_MAX))

static uint8_t *put_text(uint8_t *at, const char *text)
{
    return weir_resp_put_bulk(at, text, strlen(text));
}

static uint8_t *put_number(uint8_t *at, uint64_t value)
{
    char text[24];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return weir_resp_put_bulk(at, text, (size_t)size);
}

static size_t command_make(const struct weir_lock_call *ask, uint64_t wait_ms, uint8_t *buffer)
{
    size_t count = 3U + (ask->ttl_ms ? 1U : 0U) + (wait_ms ? 2U : 0U) + (ask->seen ? 2U : 0U);
    uint8_t *at = weir_resp_put_array(buffer, count);
    at = put_text(at, ask->verb);
    at = weir_resp_put_bulk(at, ask->name.data, ask->name.size);
    at = weir_resp_put_bulk(at, ask->owner.data, ask->owner.size);
    if (ask->ttl_ms)
        at = put_number(at, ask->ttl_ms);
    if (wait_ms)
        at = put_number(put_text(at, "WAIT"), wait_ms);
    if (ask->seen)
        at = put_number(put_text(at, "SEEN"), ask->seen);
    return (size_t)(at - buffer);
}

/* ---- the answer ---- */

/* Of the codes that weir's errors begin with, what they mean for a lock. All say that nothing was done. */
static int error_of(struct weir_slice text)
{
    static const struct {
        const char *code;
        int error;
    } codes[] = { { "LIMIT ", WEIR_ELIMIT }, { "ERR SEEN ", WEIR_ERANGE } };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        size_t size = strlen(codes[i].code);
        if (text.size >= size && memcmp(text.data, codes[i].code, size) == 0)
            return codes[i].error;
    }
    return WEIR_EDOWN;
}

static bool all_integers(const struct weir_resp_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].type != WEIR_RESP_INTEGER)
            return false;
    }
    return count > 0;
}

/* [1, incarnation, number, lease ms], [0, ms of the holder], [-2]; of UNLOCK 1, 0 or -2. */
static int answer_decode(const struct weir_link_answer *answer, struct weir_said *ret_said,
                         struct weir_fault *ret_fault)
{
    const struct weir_resp_value *first = &answer->values[0];
    bool array = first->type == WEIR_RESP_ARRAY;
    const struct weir_resp_value *values = first + (array ? 1 : 0);
    size_t count = answer->count - (array ? 1 : 0);
    if (first->type == WEIR_RESP_ERROR)
        return weir_fault_format(ret_fault, error_of(first->text), "server", "%.*s", (int)first->text.size,
                                 (const char *)first->text.data);
    struct weir_said said = { .sent_ns = answer->sent_ns };
    bool legal = all_integers(values, count);
    if (legal && values[0].integer == -2)
        return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "does not know whether its store did it");
    if (legal && values[0].integer == 1 && count == 4 && values[1].integer >= 0 && values[2].integer >= 0 &&
        values[3].integer >= 0) {
        said.granted = true;
        said.token = (struct weir_token){ (uint64_t)values[1].integer, (uint64_t)values[2].integer };
        said.lease_ns = weir_mul_sat((uint64_t)values[3].integer, WEIR_NS_PER_MS);
    } else if (legal && values[0].integer == 1 && !array) {
        said.granted = true;
    } else if (!legal || values[0].integer != 0) {
        return weir_fault_format(ret_fault, WEIR_EUNKNOWN, "server", "answered what no lock service would");
    }
    *ret_said = said;
    return 0;
}

/* ---- asking, again and again ---- */

static void pause_for(uint64_t pause_ns)
{
    struct timespec pause = { .tv_nsec = (long)pause_ns };
    (void)nanosleep(&pause, NULL);
}

static int ask_once(struct weir_locks *locks, const struct weir_lock_call *ask, uint64_t wait_ns, uint64_t deadline_ns,
                    struct weir_said *ret_said)
{
    uint8_t command[COMMAND_MAX];
    struct weir_link_answer answer;
    struct weir_fault fault = { 0 };
    weir_assert(ask->name.size <= WEIR_LOCK_NAME_MAX && ask->owner.size <= WEIR_LOCK_OWNER_MAX);
    size_t size = command_make(ask, weir_div_ceil(wait_ns, WEIR_NS_PER_MS), command);
    weir_assert(size <= sizeof(command));
    int error = weir_locks_call(locks, command, size, deadline_ns, &answer);
    if (error)
        return error;
    error = answer_decode(&answer, ret_said, &fault);
    if (error)
        weir_locks_fail(locks, &fault);
    return error;
}

int weir_lock_ask(struct weir_locks *locks, const struct weir_lock_call *ask, struct weir_said *ret_said)
{
    uint64_t now_ns = weir_clock_now_ns();
    const uint64_t wait_end_ns = weir_add_sat(now_ns, ask->wait_ns);
    const uint64_t end_ns = weir_add_sat(wait_end_ns, ask->timeout_ns);
    uint64_t lost_ns = 0; /* when an answer was last lost; 0: none was */
    uint64_t held_ns = 0; /* when a wait was last ended before its time, as a server does that ends; 0: none was */
    uint64_t pause_ns = PAUSE_MIN_NS;
    for (;;) {
        struct weir_said said = { 0 };
        int error = ask_once(locks, ask, weir_sub_sat(wait_end_ns, now_ns), end_ns, &said);
        now_ns = weir_clock_now_ns();
        if (!error) {
            said.repeated = lost_ns != 0;
            if (said.granted || now_ns >= wait_end_ns) {
                *ret_said = said;
                return 0;
            }
            held_ns = now_ns;
            lost_ns = 0; /* if that had been granted, this would have been */
        } else if (error == WEIR_EUNKNOWN) {
            lost_ns = now_ns;
        } else if (!lost_ns && (!held_ns || error != WEIR_EDOWN)) {
            return error;
        }
        /* What was lost stays unknown whatever an attempt that was not answered says. */
        uint64_t since_ns = weir_max_u64(lost_ns, held_ns);
        if (now_ns + pause_ns >= weir_min_u64(end_ns, weir_add_sat(since_ns, ask->timeout_ns))) {
            if (!error)
                *ret_said = said;
            return lost_ns ? WEIR_EUNKNOWN : error;
        }
        pause_for(pause_ns);
        pause_ns = weir_min_u64(2 * pause_ns, PAUSE_MAX_NS);
        now_ns = weir_clock_now_ns();
    }
}

bool weir_lock_look(struct weir_locks *locks, struct weir_slice name, uint64_t timeout_ns,
                    struct weir_holder *ret_holder)
{
    uint8_t command[COMMAND_MAX];
    struct weir_link_answer answer;
    weir_assert(name.size <= WEIR_LOCK_NAME_MAX);
    uint8_t *at = put_text(weir_resp_put_array(command, 2), "WEIR.LOCKS");
    at = weir_resp_put_bulk(at, name.data, name.size);
    uint64_t deadline_ns = weir_add_sat(weir_clock_now_ns(), timeout_ns);
    if (weir_locks_call(locks, command, (size_t)(at - command), deadline_ns, &answer) != 0 || answer.count != 6)
        return false;
    const struct weir_resp_value *owner = &answer.values[1], *lease = &answer.values[4];
    if (owner->type != WEIR_RESP_BULK || owner->text.size < 1 || owner->text.size > WEIR_LOCK_OWNER_MAX ||
        lease->type != WEIR_RESP_INTEGER || lease->integer < 0)
        return false;
    ret_holder->owner_size = owner->text.size;
    memcpy(ret_holder->owner, owner->text.data, owner->text.size);
    ret_holder->lease_ms = (uint64_t)lease->integer;
    return true;
}
