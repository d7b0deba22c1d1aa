/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies under our keys and is not ours; requests that come twice, or after they were given back; numbers beyond
 * 2^53; keys that must not live for ever.
 *
 *     redis_faults SOCKET */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "single.h"

static void foreign_values(struct server *server)
{
    static const char garbage[300] = "WEI1 but not really";
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op op = op_of(limit, "list", 1), both[2] = { op_of(limit, "list", 1), op };
    struct weir_script_call call;
    command(server, "RPUSH", &op, "x", 1);
    check(decide(server, &op) == WEIR_ECORRUPT, "a list under our key");
    check(command(server, "LLEN", &op, NULL, 0) == 1, "it is left as it is");
    check(ask(server, WEIR_REMOTE_PEEK, &op, 1, NULL, &call) == WEIR_ECORRUPT, "a peek tells too");
    check(ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == WEIR_ECORRUPT, "a refund tells too");
    check(ask(server, WEIR_REMOTE_FORGET, &op, 1, NULL, &call) == WEIR_ECORRUPT, "it is not forgotten either");
    both[1] = op_of(limit, "good", 1);
    both[1].key.tag = both[0].key.tag;
    check(ask(server, WEIR_REMOTE_DECIDE, both, 2, NULL, &call) == WEIR_ECORRUPT, "one of two is not ours");
    check(command(server, "EXISTS", &both[1], NULL, 0) == 0, "and the other is not charged");
    const struct {
        const char *name;
        size_t size;
    } strings[] = { { "empty", 0 }, { "short", 5 }, { "long", sizeof garbage } };
    for (size_t i = 0; i < 3; i++) {
        op = op_of(limit, strings[i].name, 1);
        command(server, "SET", &op, garbage, strings[i].size);
        check(decide(server, &op) == WEIR_ECORRUPT, strings[i].name);
        check(command(server, "STRLEN", &op, NULL, 0) == (long long)strings[i].size, "is left as it is");
    }
    op = op_of(limit, "cut", 1);
    check(decide(server, &op) == 0, "a value of ours");
    char key[WEIR_SCRIPT_KEY_MAX];
    size_t size = weir_script_key("faults", &op, key);
    redisReply *value = redisCommand(server->context, "GET %b", key, size);
    command(server, "SET", &op, value->str, (size_t)value->len - 1);
    check(decide(server, &op) == WEIR_ECORRUPT, "cut by one byte");
    value->str[107] = 1;
    command(server, "SET", &op, value->str, (size_t)value->len);
    check(decide(server, &op) == WEIR_ECORRUPT, "of more stints than there are");
    value->str[107] = 0;
    value->str[64] ^= (char)0x80;
    command(server, "SET", &op, value->str, (size_t)value->len);
    check(decide(server, &op) == WEIR_ECORRUPT, "of a time beyond 2^59 ticks");
    value->str[64] ^= (char)0x80;
    /* Other parameters make it a changed limit, which core looks at: an algorithm that is none. */
    value->str[4] = 77;
    command(server, "SET", &op, value->str, (size_t)value->len);
    check(decide(server, &op) == WEIR_ECORRUPT, "of an algorithm that is none");
    freeReplyObject(value);
    weir_remote_limit_drop(limit);
}

/* Values of ours with a few bytes changed, met by a limit of other parameters, so that core reads them: any answer will
 * do, but one there must be. */
static void damaged_values(struct server *server)
{
    struct test_random random = { test_random_seed() };
    bool good = true;
    for (int i = 0; i < 1000; i++) {
        struct weir_limit_spec spec = { .algorithm = (enum weir_algorithm)(i % 5),
                                        .count = 10,
                                        .period_ns = 60000000000 };
        const struct weir_remote_limit *limit = limit_of(spec);
        spec.count = 20;
        spec.algorithm = (enum weir_algorithm)(i / 5 % 5);
        const struct weir_remote_limit *other = limit_of(spec);
        struct weir_remote_op op = op_of(limit, "damaged", 4);
        char key[WEIR_SCRIPT_KEY_MAX];
        size_t size = weir_script_key("faults", &op, key);
        command(server, "DEL", &op, NULL, 0);
        good = good && decide(server, &op) == 0;
        redisReply *value = redisCommand(server->context, "GET %b", key, size);
        for (uint64_t n = 1 + test_random_below(&random, 3); n > 0; n--)
            value->str[4 + test_random_below(&random, value->len - 4)] = (char)test_random_u64(&random);
        command(server, "SET", &op, value->str, (size_t)value->len);
        freeReplyObject(value);
        op.limit = other;
        int status = decide(server, &op);
        /* Busy: as of a newer definition, whose calendar is not known here. */
        good = good && (status == 0 || status == WEIR_ECORRUPT || status == WEIR_EBUSY);
        weir_remote_limit_drop(limit);
        weir_remote_limit_drop(other);
    }
    check(good, "values with bytes changed are answered");
}

static const struct weir_remote_limit *revised(enum weir_algorithm algorithm, uint64_t count, uint32_t revision)
{
    const struct weir_limit_spec spec = {
        .algorithm = algorithm,
        .align = algorithm == WEIR_FIXED_WINDOW ? WEIR_ALIGN_FIRST : WEIR_ALIGN_CALENDAR,
        .count = count,
        .period_ns = 366 * 86400 * 1000000000ull,
    };
    const struct weir_remote_limit *limit;
    if (weir_remote_limit_create("api", 0, revision, &spec, &limit, NULL))
        abort();
    return limit;
}

/* What is left after one more by this limit; UINT64_MAX: it is not admitted. */
static uint64_t left(struct server *server, struct weir_remote_op *op, const struct weir_remote_limit *limit)
{
    op->limit = limit;
    return decide(server, op) == 0 && op->verdict.admitted ? op->verdict.remaining : UINT64_MAX;
}

/* Nodes of two definitions in turn: the older one's never carries a key back, but decides by what it finds. */
static void never_back(struct server *server, enum weir_algorithm from, enum weir_algorithm to)
{
    const struct weir_remote_limit *older = revised(from, 100, 1), *newer = revised(to, 200, NOW_S);
    struct weir_remote_op op = op_of(older, "never back", 1);
    char what[80];
    bool good = true;
    command(server, "DEL", &op, NULL, 0);
    for (uint64_t i = 0; i < 40; i++)
        good = good && left(server, &op, older) == 99 - i;
    for (uint64_t i = 0; i < 60; i += 2) /* keep: 60 were left, and are */
        good = good && left(server, &op, newer) == 59 - i && left(server, &op, older) == 58 - i &&
               op.verdict.capacity == 200;
    good = good && left(server, &op, older) == UINT64_MAX && left(server, &op, newer) == UINT64_MAX;
    good = good && weir_remote_limit_met(older) == NOW_S && weir_remote_limit_met(newer) == 0;
    snprintf(what, sizeof what, "nothing is lost or gained between definitions of algorithms %d and %d", from, to);
    check(good, what);
    weir_remote_limit_drop(older);
    weir_remote_limit_drop(newer);
}

/* A node that does not know yet which definition is the newest decides by the one it finds. */
static void unknown(struct server *server)
{
    const struct weir_remote_limit *known = revised(WEIR_TOKEN_BUCKET, 100, WEIR_REVISION_FIRST),
                                   *starting = revised(WEIR_TOKEN_BUCKET, 50, 0);
    struct weir_remote_op op = op_of(known, "unknown", 1);
    bool good = left(server, &op, known) == 99;
    for (uint64_t i = 0; i < 20; i += 2)
        good = good && left(server, &op, starting) == 98 - i && left(server, &op, known) == 97 - i;
    check(good, "a node that does not know the newest definition carries nothing over to its own");
    weir_remote_limit_drop(known);
    weir_remote_limit_drop(starting);
}

/* A definition that became too long to have revisions: the keys of one that had them come under it. */
static void without(struct server *server, enum weir_algorithm from, enum weir_algorithm to)
{
    const struct weir_remote_limit *before = revised(from, 200, NOW_S), *now = revised(to, 100, WEIR_REVISION_NONE);
    const struct weir_remote_limit *after = revised(from, 200, NOW_S + 1);
    struct weir_remote_op op = op_of(before, "without", 1);
    bool good = true;
    command(server, "DEL", &op, NULL, 0);
    for (uint64_t i = 0; i < 40; i++)
        good = good && left(server, &op, before) == 199 - i;
    for (uint64_t i = 0; i < 20; i++) /* keep: no more than was left, and no more than there is */
        good = good && left(server, &op, now) == 59 - i && op.verdict.capacity == 100;
    good = good && left(server, &op, after) == 39 && op.verdict.capacity == 200;
    check(good, "a definition without revisions decides the keys of one that had them");
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(now);
    weir_remote_limit_drop(after);
}

/* Values as versions before revisions wrote them, in turn with ours: what was charged is charged. */
static void of_former_versions(struct server *server)
{
    const struct weir_remote_limit *limit = revised(WEIR_TOKEN_BUCKET, 100, WEIR_REVISION_FIRST),
                                   *ours = revised(WEIR_TOKEN_BUCKET, 100, NOW_S);
    struct weir_remote_op op = op_of(limit, "former", 1);
    char key[WEIR_SCRIPT_KEY_MAX];
    size_t size = weir_script_key("faults", &op, key);
    bool good = left(server, &op, limit) == 99;
    for (uint64_t i = 0; i < 40 && good; i += 2) {
        redisReply *value = redisCommand(server->context, "GET %b", key, size);
        memset(value->str + 48, (int)(i + 0x80), 8); /* a hash of 64 bits, where the revision is now */
        value->str[7] = 0;
        command(server, "SET", &op, value->str, (size_t)value->len);
        freeReplyObject(value);
        good = left(server, &op, ours) == 98 - i && left(server, &op, limit) == 97 - i;
    }
    check(good, "values of former versions are taken over as they are");
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(ours);
}

/* What core writes for one of several is that and no more. */
static void several_at_once(struct server *server)
{
    const struct weir_remote_limit *older = revised(WEIR_TOKEN_BUCKET, 100, WEIR_REVISION_FIRST),
                                   *newer = revised(WEIR_TOKEN_BUCKET, 200, NOW_S);
    struct weir_remote_op ops[3];
    struct weir_script_call call;
    bool good = true;
    for (size_t i = 0; i < 3; i++) {
        ops[i] = op_of(older, (const char *[]){ "one", "two", "three" }[i], 1);
        ops[i].key.tag = ops[0].key.tag;
        good = good && decide(server, &ops[i]) == 0;
    }
    long long size = command(server, "STRLEN", &ops[0], NULL, 0);
    for (size_t i = 0; i < 3; i++)
        ops[i].limit = newer;
    ops[2].units = 100; /* and is refused, so that nothing is written over what core wrote */
    good = good && ask(server, WEIR_REMOTE_DECIDE, ops, 3, NULL, &call) == 0 && !ops[2].verdict.admitted;
    for (size_t i = 0; i < 3; i++)
        good = good && ops[i].verdict.remaining == 99 && command(server, "STRLEN", &ops[i], NULL, 0) == size;
    check(good, "several keys carried over in one request are as long as before");
    weir_remote_limit_drop(older);
    weir_remote_limit_drop(newer);
}

static void revisions(struct server *server)
{
    for (int from = WEIR_TOKEN_BUCKET; from <= WEIR_SLIDING_COUNTER; from++)
        for (int to = WEIR_TOKEN_BUCKET; to <= WEIR_SLIDING_COUNTER; to++)
            never_back(server, (enum weir_algorithm)from, (enum weir_algorithm)to);
    without(server, WEIR_TOKEN_BUCKET, WEIR_TOKEN_BUCKET);
    without(server, WEIR_FIXED_WINDOW, WEIR_TOKEN_BUCKET);
    unknown(server);
    several_at_once(server);
    of_former_versions(server);
}

/* Of several buckets none is charged where one refuses, wherever it stands; and each is where all admit. */
static void buckets_of_which_one_refuses(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op ops[3];
    struct weir_script_call call;
    for (size_t i = 0; i < 3; i++) {
        ops[i] = op_of(limit, (const char *[]){ "first", "second", "third" }[i], 4);
        ops[i].key.tag = ops[0].key.tag;
    }
    for (size_t refuses = 0; refuses < 3; refuses++) {
        bool good = true;
        ops[refuses].units = 11;
        good = good && ask(server, WEIR_REMOTE_DECIDE, ops, 3, NULL, &call) == 0;
        for (size_t i = 0; i < 3; i++) {
            good = good && ops[i].verdict.admitted == (i != refuses) && ops[i].verdict.remaining == 10 &&
                   command(server, "EXISTS", &ops[i], NULL, 0) == 0;
        }
        check(good, "of three buckets one refuses, and none is charged");
        ops[refuses].units = 4;
    }
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 3, NULL, &call) == 0 && ops[0].verdict.remaining == 6 &&
              ops[1].verdict.remaining == 6 && ops[2].verdict.remaining == 6,
          "all three admit, and each is charged");
    weir_remote_limit_drop(limit);
}

static void request_ids(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op op = op_of(limit, "id", 3), *ops = &op;
    struct weir_script_call call, back, *calls = &back;
    const uint64_t id[2] = { 1, 2 }, late[2] = { 3, 4 };
    int status;
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 1, id, &call) == 0 && op.verdict.remaining == 7, "charged once");
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 1, id, &call) == 0 && op.verdict.admitted && call.again &&
              op.verdict.remaining == 7,
          "the same request again is charged no second time");
    for (int i = 0; i < 2; i++) {
        struct weir_remote_request request = {
            .verb = WEIR_REMOTE_DECIDE, .ops = ops, .count = 1, .test_now_ns = NOW_NS
        };
        weir_script_call_init(&back, &request, "faults", NOW_NS);
        memcpy(back.id, id, sizeof id);
        weir_script_call_add(&back, 0);
        weir_script_call_roll_back(&back, server->sha1, false);
        server_run(server, &calls, 1, &status);
        weir_script_call_deinit(&back);
        op.units = 0;
        check(status == 0 && decide(server, ops) == 0 && op.verdict.remaining == 10, "given back, once");
        op.units = 3;
        if (i == 0)
            check(decide(server, ops) == 0 && op.verdict.remaining == 7, "another's charge");
        if (i == 0) /* the second give back must not touch it */
            check(ask(server, WEIR_REMOTE_REFUND, ops, 1, NULL, &call) == 0 && op.units == 3, "refunded");
    }
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 1, id, &call) == WEIR_EUNKNOWN, "not charged after it was given back");
    struct weir_remote_request request = { .verb = WEIR_REMOTE_DECIDE, .ops = ops, .count = 1, .test_now_ns = NOW_NS };
    check(decide(server, &op) == 0 && op.verdict.remaining == 7, "another's charge");
    weir_script_call_init(&back, &request, "faults", NOW_NS);
    memcpy(back.id, late, sizeof late);
    weir_script_call_add(&back, 0);
    weir_script_call_roll_back(&back, server->sha1, false);
    server_run(server, &calls, 1, &status);
    weir_script_call_deinit(&back);
    check(status == 0, "a give back that overtook its charge");
    op.units = 0;
    check(decide(server, &op) == 0 && op.verdict.remaining == 7, "leaves another's charge");
    op.units = 3;
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 1, late, &call) == WEIR_EUNKNOWN, "which is then refused");
    weir_remote_limit_drop(limit);
}

/* What was refused was not charged, and is decided anew when it comes again. */
static void refused_then_again(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op op = op_of(limit, "refused", 10);
    struct weir_script_call call;
    const uint64_t id[2] = { 5, 6 };
    check(decide(server, &op) == 0 && op.verdict.remaining == 0, "another's charge takes all");
    op.units = 3;
    check(ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && !op.verdict.admitted, "a request is refused");
    op.units = 10;
    check(ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == 0 && op.units == 10, "all is given back");
    op.units = 3;
    check(ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.admitted && !call.again &&
              op.verdict.remaining == 7,
          "the request is charged when it comes again");
    weir_remote_limit_drop(limit);
}

/* Whoever admits owes nothing: a debt is what is used beyond the capacity. */
static void debt_that_is_paid(struct server *server)
{
    enum { DEBT_AT = 88, DEBT_SIZE = 16 }; /* decide.lua: in units and in ticks */
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op op = op_of(limit, "debt", 1);
    char key[WEIR_SCRIPT_KEY_MAX];
    size_t size = weir_script_key("faults", &op, key);
    static const char nothing[DEBT_SIZE];
    check(decide(server, &op) == 0, "a value of ours");
    redisReply *value = redisCommand(server->context, "GET %b", key, size);
    value->str[DEBT_AT + 7] = value->str[DEBT_AT + 14] = 1;
    command(server, "SET", &op, value->str, (size_t)value->len);
    freeReplyObject(value);
    check(decide(server, &op) == 0 && op.verdict.admitted, "with a debt from before");
    value = redisCommand(server->context, "GET %b", key, size);
    check(memcmp(value->str + DEBT_AT, nothing, DEBT_SIZE) == 0, "owes nothing when it admits");
    freeReplyObject(value);
    weir_remote_limit_drop(limit);
}

/* What core computed is written only where nobody was faster: asks of one key that cross on their way. */
static void crossing_asks(struct server *server)
{
    enum { NODES = 6 };
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op ops[NODES];
    struct weir_remote_request requests[NODES];
    struct weir_script_call calls[NODES], *pointers[NODES];
    int status[NODES];
    uint64_t granted = 0;
    bool good = true;
    for (size_t i = 0; i < NODES; i++) {
        ops[i] = op_of(limit, "crossing", 0);
        ops[i].ask = (struct weir_share_ask){ .stint = i + 1, .seq = 1, .want = 3, .ttl_ns = 1000000000 };
        requests[i] =
            (struct weir_remote_request){ .verb = WEIR_REMOTE_ASK, .ops = &ops[i], .count = 1, .test_now_ns = NOW_NS };
        weir_script_call_init(&calls[i], &requests[i], "faults", NOW_NS);
        weir_script_call_add(&calls[i], 0);
        pointers[i] = &calls[i];
    }
    server_run(server, pointers, NODES, status);
    for (size_t i = 0; i < NODES; i++) {
        good = good && status[i] == 0;
        granted += ops[i].answer.granted;
        weir_script_call_deinit(&calls[i]);
    }
    check(good, "asks of one key that cross are all answered");
    check(granted == 10, "and together are granted no more than there is");
    struct weir_remote_op op = op_of(limit, "crossing", 1);
    check(decide(server, &op) == 0 && !op.verdict.admitted, "nothing is left for a decision");
    weir_remote_limit_drop(limit);
}

static void big_numbers(struct server *server)
{
    const uint64_t big = (UINT64_C(1) << 53) + 1;
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){
        .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST, .count = big + 1, .period_ns = WEIR_FILL_MAX_NS });
    struct weir_remote_op op = op_of(limit, "big", big);
    check(decide(server, &op) == 0 && op.verdict.admitted && op.verdict.remaining == 1, "2^53 + 1 of 2^53 + 2");
    op.units = 2;
    check(decide(server, &op) == 0 && !op.verdict.admitted, "2 more are too many");
    op.units = 1;
    check(decide(server, &op) == 0 && op.verdict.admitted && op.verdict.remaining == 0, "1 is not");
    struct weir_script_call call;
    op.units = big;
    check(ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == 0 && op.units == big, "2^53 + 1 back");
    op.units = 0;
    check(decide(server, &op) == 0 && op.verdict.remaining == big, "leave 1 used");
    op.units = UINT64_C(1) << 32;
    check(decide(server, &op) == 0 && op.verdict.remaining == big - op.units, "2^32 are charged");
    struct weir_remote_op other = op_of(limit, "2^32", UINT64_C(1) << 32);
    for (uint64_t left = big + 1, i = 0; i < 3; i++, other.units = 1)
        check(decide(server, &other) == 0 && other.verdict.remaining == (left -= other.units), "to a fresh key, too");
    weir_remote_limit_drop(limit);
}

/* An attempt takes all that is left of them. */
static void big_attempt(struct server *server)
{
    const uint64_t big = UINT64_C(1) << 32;
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW,
                                                                               .align = WEIR_ALIGN_FIRST,
                                                                               .count_mode = WEIR_COUNT_ATTEMPTS,
                                                                               .count = 2 * big,
                                                                               .period_ns = WEIR_FILL_MAX_NS });
    struct weir_remote_op op = op_of(limit, "big attempt", big);
    check(decide(server, &op) == 0 && op.verdict.remaining == big, "2^32 of 2^33");
    op.units = big + 1;
    check(decide(server, &op) == 0 && !op.verdict.admitted && op.verdict.remaining == 0, "more than the others");
    op.units = 0;
    check(decide(server, &op) == 0 && op.verdict.remaining == 0, "are refused, and leave none");
    weir_remote_limit_drop(limit);
}

/* What a counter's former window holds of them counts by its share. */
static void big_counter(struct server *server)
{
    const uint64_t big = UINT64_C(1) << 33, period_ns = 100 * WEIR_NS_PER_SECOND;
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_COUNTER, .count = 2 * big, .period_ns = period_ns });
    struct weir_remote_op op = op_of(limit, "big counter", big);
    clock_ns = NOW_NS / period_ns * period_ns;
    check(decide(server, &op) == 0 && op.verdict.remaining == big, "2^33 in a window");
    clock_ns += period_ns + period_ns / 2;
    op.units = 1;
    for (uint64_t i = 1; i <= 3; i++)
        check(decide(server, &op) == 0 && op.verdict.remaining == 2 * big - big / 2 - i, "half of them in the next");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* What lies under the key of a limit that is off is no matter. */
static void off_is_not_looked_at(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60000000000 }),
                                   *off = limit_of((struct weir_limit_spec){
                                       .mode = WEIR_MODE_OFF, .count = 10, .period_ns = 60000000000 });
    struct weir_remote_op ops[2] = { op_of(limit, "on", 1), op_of(off, "off", 1) };
    struct weir_script_call call;
    ops[1].key.tag = ops[0].key.tag;
    command(server, "RPUSH", &ops[1], "x", 1);
    check(ask(server, WEIR_REMOTE_DECIDE, ops, 2, NULL, &call) == 0 && ops[0].verdict.remaining == 9,
          "beside what is off");
    check(command(server, "LLEN", &ops[1], NULL, 0) == 1, "whose key is left as it is");
    weir_remote_limit_drop(limit);
    weir_remote_limit_drop(off);
}

int main(int argc, char **argv)
{
    struct server server;
    if (argc != 2) {
        fprintf(stderr, "usage: redis_faults SOCKET\n");
        return 2;
    }
    server_open(&server, argv[1]);
    foreign_values(&server);
    damaged_values(&server);
    revisions(&server);
    buckets_of_which_one_refuses(&server);
    request_ids(&server);
    refused_then_again(&server);
    debt_that_is_paid(&server);
    crossing_asks(&server);
    big_numbers(&server);
    big_attempt(&server);
    big_counter(&server);
    off_is_not_looked_at(&server);
    server_close(&server);
    return failures > 0;
}
