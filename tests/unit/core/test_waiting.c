/* SPDX-License-Identifier: Apache-2.0
 *
 * core/lease/waiting.h against a model that keeps all that ever happened in a log and reads it anew for each answer. */
#include "core/lease/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "random.h"

#define MS UINT64_C(1000000)
#define WAITERS 12
#define OWNERS 4 /* some owners come twice */
#define LOG_MAX 4000

static const char *const owners[OWNERS] = { "a", "bb", "bc", "d" };

static struct weir_owner owner_of(unsigned owner)
{
    return (struct weir_owner){ owners[owner], strlen(owners[owner]) };
}

/* ---- the model ---- */

enum what { LEARNED, FREED, STORE_DOWN, STORE_REFUSED, STORE_LATER, FORGOTTEN };

struct entry {
    enum what what;
    unsigned owner;
    uint64_t at_ns, until_ns;
    struct weir_token token;
};

struct one {
    unsigned owner;
    uint64_t until_ns, seen, later_ns;
    bool queued, begun, asked, over, refuted, gone;
    size_t since;            /* the log, as long as it was when it came */
    struct weir_token other; /* that it was seen to wait for; zeros: none */
};

static struct model {
    struct entry log[LOG_MAX];
    size_t logged;
    unsigned order[WAITERS];
    size_t count;
    struct one all[WAITERS];
    uint64_t ask_ns, poll_ns, now_ns;
    bool one_asked;
    unsigned asked;
} model;

static const struct entry *last_grant(void)
{
    for (size_t i = model.logged; i > 0; i--)
        if (model.log[i - 1].what == LEARNED)
            return &model.log[i - 1];
    return NULL;
}

static const struct entry *holder(void)
{
    for (size_t i = model.logged; i > 0 && model.log[i - 1].what != FREED; i--)
        if (model.log[i - 1].what == LEARNED)
            return &model.log[i - 1];
    return NULL;
}

static bool is_held_by(unsigned owner)
{
    return holder() && holder()->owner == owner;
}

static bool is_down(void)
{
    bool down = false;
    for (size_t i = 0; i < model.logged; i++)
        if (model.log[i].what != FREED && model.log[i].what != STORE_REFUSED && model.log[i].what != FORGOTTEN)
            down = model.log[i].what == STORE_DOWN;
    return down;
}

/* Whether the store has answered since it was last forgotten that it had. A refusal of one's own says as much as was
 * known of a holder then. */
static bool is_told(void)
{
    bool told = false, held = false;
    for (size_t i = 0; i < model.logged; i++) {
        enum what what = model.log[i].what;
        held = what == LEARNED || (held && what != FREED);
        if (what == LEARNED || what == STORE_DOWN)
            told = true;
        else if (what == STORE_REFUSED)
            told = held;
        else if (what == STORE_LATER || what == FORGOTTEN)
            told = false;
    }
    return told;
}

static void note_of(enum what what, unsigned owner, uint64_t lease_ns, struct weir_token token)
{
    assert_true(model.logged < LOG_MAX);
    model.log[model.logged++] = (struct entry){ what, owner, model.now_ns, model.now_ns + lease_ns, token };
}

static void note(enum what what)
{
    note_of(what, 0, 0, (struct weir_token){ 0 });
}

/* Whether what it is granted is newer than another's grant that stood while it was here. What is older than that says
 * nothing where others write to the store. */
static bool is_granted_anew(struct one *one, struct weir_token token)
{
    const struct entry *last = last_grant();
    if (last && (model.poll_ns == 0 || last >= &model.log[one->since])) {
        if (last->owner == one->owner)
            one->other = (struct weir_token){ 0 };
        else if (one->other.number == 0) /* what was granted behind the first of them was granted while it was here */
            one->other = last->token;
    }
    return one->other.number > 0 && weir_token_compare(token, one->other) > 0;
}

static void ask_by_lease(void)
{
    uint64_t at_ns = last_grant()->until_ns;
    if (at_ns > model.now_ns + 5000 * MS)
        at_ns = model.now_ns + 5000 * MS;
    if (model.poll_ns > 0 && at_ns > model.now_ns + model.poll_ns)
        at_ns = model.now_ns + model.poll_ns;
    model.ask_ns = at_ns > model.now_ns + MS / 5 ? at_ns : model.now_ns + MS / 5;
}

static bool may_hold(const struct one *one)
{
    const struct entry *grant = last_grant();
    if (one->refuted || one->seen > (grant ? grant->token.incarnation : 0))
        return false;
    if (model.one_asked && model.all[model.asked].owner == one->owner)
        return true;
    bool stale = model.poll_ns > 0 && is_told() && model.now_ns - (grant ? grant->at_ns : 0) >= model.poll_ns;
    return stale || is_held_by(one->owner);
}

static enum weir_waiting_fate model_ends(struct one *one, bool stopping)
{
    if (holder() || is_down() || stopping || one->later_ns > 0)
        return WEIR_WAITING_ENDS;
    one->begun = one->over = false;
    note(FORGOTTEN);
    return WEIR_WAITING_STAYS;
}

static void model_leaves(unsigned at)
{
    size_t place = 0;
    while (model.order[place] != at)
        place++;
    for (model.count--; place < model.count; place++)
        model.order[place] = model.order[place + 1];
    model.all[at].queued = false;
}

/* ---- the queue, and both together ---- */

static struct weir_waiting waiting;
static struct weir_waiter waiters[WAITERS];
static struct test_random dice;

static enum weir_waiter_phase phase_of(const struct one *one)
{
    if (one->over)
        return WEIR_WAITER_OVERDUE;
    if (one->begun)
        return one->asked ? WEIR_WAITER_WAITING_ASKED : WEIR_WAITER_WAITING;
    return one->asked ? WEIR_WAITER_NEW_ASKED : WEIR_WAITER_NEW;
}

static void assert_equal(void)
{
    const struct weir_waiter *at = waiting.first;
    size_t new_count = 0;
    for (size_t i = 0; i < model.count; i++, at = at->next) {
        const struct one *one = &model.all[model.order[i]];
        assert_ptr_equal(at, &waiters[model.order[i]]);
        assert_string_equal(weir_waiter_phases[at->phase].name, weir_waiter_phases[phase_of(one)].name);
        new_count += !one->begun;
    }
    assert_null(at);
    assert_int_equal(waiting.count, model.count);
    assert_int_equal(waiting.new_count, new_count);
    assert_int_equal(waiting.ask_ns, model.one_asked ? UINT64_MAX : model.ask_ns);
    assert_int_equal(waiting.told, is_told());
    assert_int_equal(waiting.down, is_down());
    for (unsigned owner = 0; owner < OWNERS; owner++)
        assert_int_equal(weir_waiting_held_by(&waiting, owner_of(owner)), is_held_by(owner));
}

static void leave(unsigned at)
{
    weir_waiting_leave(&waiting, &waiters[at], WEIR_WAITER_ANSWERED);
    model_leaves(at);
    if (model.count > 0)
        return;
    waiting = (struct weir_waiting){ .poll_ns = model.poll_ns }; /* as the manager does: the next one makes it anew */
    model.logged = 0;
    model.ask_ns = 0;
    model.one_asked = false;
}

static void do_as_told(unsigned at, enum weir_waiting_fate fate)
{
    if (fate == WEIR_WAITING_BEGINS) {
        weir_waiting_begin(&waiting, &waiters[at]);
        model.all[at].begun = true;
    } else if (fate == WEIR_WAITING_PROBED) {
        assert_true(weir_waiter_is_asked(&waiters[at]));
        model.all[at].asked = model.all[at].over = true;
    } else if (fate == WEIR_WAITING_ENDS) {
        leave(at);
    }
}

static void come(unsigned at)
{
    struct one *one = &model.all[at];
    if (one->queued)
        return;
    *one = (struct one){ .owner = (unsigned)test_random_below(&dice, OWNERS),
                         .since = model.logged,
                         .until_ns = model.now_ns + test_random_below(&dice, 3) * 40 * MS,
                         .seen = test_random_below(&dice, 4) ? 0 : test_random_below(&dice, 5),
                         .refuted = test_random_below(&dice, 2) };
    waiters[at] = (struct weir_waiter){
        .owner = owner_of(one->owner), .until_ns = one->until_ns, .seen = one->seen, .refuted = one->refuted
    };
    bool over = one->until_ns <= model.now_ns;
    if (model.count > 0) {
        bool held = holder() && holder()->until_ns > model.now_ns;
        bool known = is_told() && (held || (is_down() && !model.one_asked));
        enum weir_waiting_fate fate = may_hold(one)   ? WEIR_WAITING_PROBED
                                      : over && known ? WEIR_WAITING_ENDS
                                                      : WEIR_WAITING_STAYS;
        assert_int_equal(weir_waiting_come(&waiting, &waiters[at], model.now_ns), fate);
        if (fate != WEIR_WAITING_STAYS)
            return;
    }
    size_t place = model.count, twin = model.count;
    for (size_t i = 0; i < model.count; i++)
        if (model.all[model.order[i]].owner == one->owner)
            twin = i;
    place = twin < model.count ? twin + 1 : place;
    memmove(&model.order[place + 1], &model.order[place], (model.count - place) * sizeof model.order[0]);
    model.order[place] = at;
    model.count++;
    one->queued = true;
    if (over)
        note(FORGOTTEN);
    if (!is_told() && !model.one_asked)
        model.ask_ns = 0;
    struct weir_waiter *before = twin + 1 < model.count ? &waiters[model.order[twin]] : NULL;
    enum weir_waiting_fate fate = weir_waiting_join(&waiting, &waiters[at], before, model.now_ns);
    assert_int_equal(fate, is_told() ? WEIR_WAITING_BEGINS : WEIR_WAITING_STAYS);
    do_as_told(at, fate);
}

static void ask_next(void)
{
    if (model.one_asked || model.count == 0 || model.ask_ns > model.now_ns)
        return;
    size_t place = 0;
    uint64_t later_ns = UINT64_MAX;
    for (; place < model.count && model.all[model.order[place]].later_ns > model.now_ns; place++)
        later_ns = weir_min_u64(later_ns, model.all[model.order[place]].later_ns);
    struct one *next = place < model.count ? &model.all[model.order[place]] : NULL;
    bool busy = !next || next->asked;
    assert_ptr_equal(weir_waiting_ask(&waiting, model.now_ns), busy ? NULL : &waiters[next - model.all]);
    model.ask_ns = next ? model.now_ns + MS / 5 : later_ns;
    model.one_asked = !busy;
    if (!next)
        note(FORGOTTEN);
    if (busy)
        return;
    model.asked = (unsigned)(next - model.all);
    next->asked = true;
    next->later_ns = 0;
}

static void wake(void)
{
    for (size_t i = 0; i < model.count; i++)
        if (!model.all[model.order[i]].begun && !model.all[model.order[i]].asked)
            do_as_told(model.order[i], WEIR_WAITING_BEGINS);
}

static struct weir_waiting_answer answer_draw(enum weir_waiting_said said, unsigned owner)
{
    return (struct weir_waiting_answer){ .said = said,
                                         .holder = owner_of(owner),
                                         .token = { 1 + test_random_below(&dice, 4), test_random_below(&dice, 3) + 1 },
                                         .lease_ns = test_random_below(&dice, 4) * 30 * MS,
                                         .due_ns = model.now_ns + test_random_below(&dice, 5) * 40 * MS };
}

/* What it needs is not made yet. If it alone needs it, others are asked for until then. */
static void put_off(struct one *one, uint64_t due_ns, struct weir_waiting_news *want)
{
    due_ns = weir_max_u64(due_ns, model.now_ns + MS / 5);
    note(FREED);
    note(STORE_LATER);
    want->fate = one->begun ? WEIR_WAITING_STAYS : WEIR_WAITING_ENDS;
    want->wake = one->begun && one->seen == 0;
    model.ask_ns = want->wake ? weir_min_u64(due_ns, model.now_ns + 100 * MS) : 0;
    one->later_ns = one->seen > 0 ? due_ns : 0;
    if (want->wake)
        note(STORE_DOWN);
}

/* The store has answered of who was asked for. */
static void hear(void)
{
    if (!model.one_asked)
        return;
    unsigned at = model.asked;
    struct one *one = &model.all[at];
    enum weir_waiting_said said = (enum weir_waiting_said)test_random_below(&dice, 5);
    unsigned owner = said == WEIR_WAITING_GRANTED ? one->owner : (unsigned)test_random_below(&dice, OWNERS);
    struct weir_waiting_answer answer = answer_draw(said, owner);
    struct weir_waiting_news want = { .fate = WEIR_WAITING_ENDS };
    bool anew = is_granted_anew(one, answer.token);
    model.one_asked = one->asked = false;
    if (said == WEIR_WAITING_GRANTED || said == WEIR_WAITING_HELD) {
        bool granted = said == WEIR_WAITING_GRANTED;
        want.waited = granted && anew;
        want.probe = granted || !is_held_by(owner);
        note_of(LEARNED, owner, answer.lease_ns, answer.token);
        ask_by_lease();
        if (!granted && one->until_ns > model.now_ns)
            want.fate = one->begun ? WEIR_WAITING_STAYS : WEIR_WAITING_BEGINS;
        want.wake = true;
    } else if (said == WEIR_WAITING_LATER) {
        put_off(one, answer.due_ns, &want);
    } else if (said == WEIR_WAITING_UNFIT) {
        note(STORE_REFUSED);
        model.ask_ns = 0;
        want.wake = is_told();
    } else {
        note(STORE_DOWN);
        model.ask_ns = model.now_ns + 100 * MS;
        want.fate = one->begun ? WEIR_WAITING_STAYS : WEIR_WAITING_ENDS;
        want.wake = true;
    }
    struct weir_waiting_news news = weir_waiting_hear(&waiting, &answer, model.now_ns);
    assert_int_equal(news.fate, want.fate);
    assert_int_equal(news.waited, want.waited);
    assert_int_equal(news.probe, want.probe);
    assert_int_equal(news.wake, want.wake);
    do_as_told(at, news.fate);
    if (news.wake)
        wake();
}

/* One who waits is asked for as the holder, or was, and the store says that it is none. */
static void probe(unsigned at)
{
    struct one *one = &model.all[at];
    if (!one->queued || (model.one_asked && model.asked == at))
        return;
    if (!one->asked) {
        weir_waiter_ask(&waiters[at]);
        one->asked = true;
        return;
    }
    bool over = one->over, stopping = test_random_below(&dice, 4) == 0;
    one->asked = one->over = false;
    enum weir_waiting_fate fate = one->gone                  ? WEIR_WAITING_ENDS
                                  : over                     ? model_ends(one, stopping)
                                  : !one->begun && is_told() ? WEIR_WAITING_BEGINS
                                                             : WEIR_WAITING_STAYS;
    assert_int_equal(weir_waiting_denied(&waiting, &waiters[at], stopping), fate);
    do_as_told(at, fate);
}

/* What others' answers tell of the lock. */
static void learn(void)
{
    unsigned owner = (unsigned)test_random_below(&dice, OWNERS);
    struct weir_waiting_answer answer = answer_draw(WEIR_WAITING_GRANTED, owner);
    bool mine = is_held_by(owner);
    if (model.count == 0)
        return;
    switch (test_random_below(&dice, 4)) {
    case 0:
        assert_int_equal(weir_waiting_found(&waiting, &answer, model.now_ns), !model.one_asked);
        if (model.one_asked)
            return;
        note_of(LEARNED, owner, answer.lease_ns, answer.token);
        ask_by_lease();
        wake();
        return;
    case 1:
        assert_int_equal(weir_waiting_renewed(&waiting, &answer, model.now_ns), mine && !model.one_asked);
        if (mine)
            note_of(LEARNED, owner, answer.lease_ns, answer.token);
        if (mine && !model.one_asked)
            wake();
        return;
    case 2:
        weir_waiting_disowned(&waiting, answer.holder);
        if (!mine)
            return;
        break;
    default:
        weir_waiting_freed(&waiting);
    }
    note(FREED);
    model.ask_ns = 0;
}

static void end(unsigned at)
{
    struct one *one = &model.all[at];
    bool stopping = test_random_below(&dice, 8) == 0;
    if (!one->queued || !one->begun || one->over || (one->until_ns > model.now_ns && !stopping) ||
        (model.one_asked && model.asked == at))
        return;
    enum weir_waiting_fate fate = one->asked                            ? WEIR_WAITING_STAYS
                                  : is_held_by(one->owner) && !stopping ? WEIR_WAITING_PROBED
                                                                        : WEIR_WAITING_ENDS;
    one->over = one->asked;
    if (fate == WEIR_WAITING_ENDS)
        fate = model_ends(one, stopping);
    assert_int_equal(weir_waiting_end(&waiting, &waiters[at], stopping), fate);
    do_as_told(at, fate);
}

static void gone(unsigned at)
{
    struct one *one = &model.all[at];
    if (!one->queued)
        return;
    one->gone = true;
    enum weir_waiting_fate fate = weir_waiting_gone(&waiters[at]);
    assert_int_equal(fate, one->asked ? WEIR_WAITING_STAYS : WEIR_WAITING_ENDS);
    do_as_told(at, fate);
}

static void waiting__agrees_with_a_log_that_is_read_anew(void **state)
{
    (void)state;
    for (int run = 0; run < 300; run++) {
        model = (struct model){ .now_ns = 1000 * MS, .poll_ns = run % 3 ? 0 : 20 * MS };
        waiting = (struct weir_waiting){ .poll_ns = model.poll_ns };
        for (int step = 0; step < 1000; step++) {
            unsigned at = (unsigned)test_random_below(&dice, WAITERS);
            static void (*const steps[])(unsigned) = { come, come, come, probe, end, end, gone };
            size_t draw = test_random_below(&dice, 11);
            if (draw < 7)
                steps[draw](at);
            else if (draw == 7)
                ask_next();
            else if (draw == 8)
                hear();
            else if (draw == 9)
                learn();
            else
                model.now_ns += test_random_below(&dice, 20) * MS;
            assert_equal();
            assert_null(weir_waiting_fault(&waiting));
        }
        waiting.asked = NULL;
        while (model.count > 0) { /* whoever is asked for has to be answered first */
            unsigned at = model.order[model.count - 1];
            if (waiters[at].phase == WEIR_WAITER_NEW || waiters[at].phase == WEIR_WAITER_WAITING)
                leave(at);
            else
                weir_waiter_hear(&waiters[at]), model.all[at].asked = model.all[at].over = false;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting__agrees_with_a_log_that_is_read_anew),
    };
    dice.state = test_random_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
