/* SPDX-License-Identifier: Apache-2.0
 *
 * include/weir/lock.h against a server that drops answers, is silent, slow, wrong or gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fake_weir.h"
#include "weir/lock.h"

/* A machine may be busy: what is to be answered has long, and a lease that is to be held is long. */
#define TIMEOUT_MS 10000
#define SHORT_TIMEOUT_MS 1000 /* where one command is not answered */

static const struct weir_lock_options plain = { .owner = "me", .owner_size = 2, .ttl_ms = 2000 };

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* A server, and a client of it. */
struct pair {
    struct fake_weir server;
    struct weir_locks *locks;
};

static struct pair *begin_with(uint64_t lease_ms, uint32_t timeout_ms)
{
    struct pair *pair = malloc(sizeof(*pair));
    fake_weir_start(&pair->server, lease_ms);
    const struct weir_locks_options options = { .address = pair->server.address, .timeout_ms = timeout_ms };
    assert_int_equal(weir_locks_connect(&options, &pair->locks, NULL), 0);
    return pair;
}

static struct pair *begin(uint64_t lease_ms)
{
    return begin_with(lease_ms, TIMEOUT_MS);
}

static void end(struct pair *pair)
{
    weir_locks_disconnect(pair->locks);
    fake_weir_stop(&pair->server);
    free(pair);
}

static struct weir_lock *acquire(struct pair *pair, const struct weir_lock_options *options)
{
    struct weir_lock *lock = NULL;
    assert_int_equal(weir_lock_acquire(pair->locks, "job", 3, options, &lock), 0);
    return lock;
}

static int refusal(struct pair *pair, const struct weir_lock_options *options)
{
    struct weir_lock *const untouched = (struct weir_lock *)pair;
    struct weir_lock *lock = untouched;
    int error = weir_lock_acquire(pair->locks, "job", 3, options, &lock);
    assert_ptr_equal(lock, untouched);
    return error;
}

static void lock_client__connects_to_weir_and_to_nothing_else(void **state)
{
    (void)state;
    static const char *const wrong[] = { "", "nowhere", ":80", "127.0.0.1:", "unix:", "http://127.0.0.1:80" };
    struct weir_locks *locks = NULL;
    struct weir_fault fault;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(weir_locks_connect(&(struct weir_locks_options){ .address = wrong[i] }, &locks, &fault),
                         WEIR_EINVAL);
        assert_string_equal(fault.field, "address");
    }
    struct fake_weir server;
    fake_weir_start(&server, 2000);
    server.server = "redis";
    const struct weir_locks_options options = { .address = server.address,
                                                .token = "secret",
                                                .timeout_ms = TIMEOUT_MS };
    assert_int_equal(weir_locks_connect(&options, &locks, &fault), WEIR_EIO);
    assert_string_equal(fault.text, "what answers there is not weir");
    assert_string_equal(server.hello, "HELLO 2 AUTH default secret");
    fake_weir_stop(&server);
    assert_int_equal(weir_locks_connect(&options, &locks, &fault), WEIR_EIO);
    assert_string_equal(fault.text, "Connection refused");
    assert_null(locks);
    weir_locks_disconnect(NULL);
}

static void lock_client__a_grant_carries_the_token_and_is_mine(void **state)
{
    (void)state;
    char text[FAKE_TEXT_MAX];
    struct pair *pair = begin(60000);
    struct weir_lock *lock = acquire(pair, &plain);
    struct weir_token token = weir_lock_token(lock);
    assert_true(token.incarnation == 7 && token.number == 1);
    assert_true(weir_lock_mine(lock));
    assert_true(weir_lock_left_ms(lock) <= 54000); /* less the margin, a tenth */
    assert_true(weir_lock_left_ms(lock) > 30000);
    fake_weir_command(&pair->server, 0, text);
    assert_string_equal(text, "WEIR.LOCK job me 2000");
    assert_int_equal(weir_lock_release(lock), 0);
    fake_weir_command(&pair->server, 1, text);
    assert_string_equal(text, "WEIR.UNLOCK job me");
    assert_int_equal(pair->server.connections, 1);
    assert_int_equal(weir_lock_release(NULL), 0);
    end(pair);
}

static void lock_client__arguments_out_of_range_are_refused_unasked(void **state)
{
    (void)state;
    static const struct {
        size_t name_size;
        struct weir_lock_options options;
        int error;
        const char *field;
    } cases[] = {
        { 0, { .ttl_ms = 2000 }, WEIR_ERANGE, "name" },
        { 1025, { .ttl_ms = 2000 }, WEIR_ERANGE, "name" },
        { 1, { .ttl_ms = 1999 }, WEIR_ERANGE, "ttl_ms" },
        { 1, { .ttl_ms = 86400001 }, WEIR_ERANGE, "ttl_ms" },
        { 1, { .owner = "", .owner_size = 0 }, WEIR_ERANGE, "owner" },
        { 1, { .owner = "x", .owner_size = 257 }, WEIR_ERANGE, "owner" },
        { 1, { .wait_ms = 86400001 }, WEIR_ERANGE, "wait_ms" },
        { 1, { .seen_incarnation = (UINT64_C(1) << 62) + 1 }, WEIR_ERANGE, "seen_incarnation" },
        { 1, { .progress_ms = 1 }, WEIR_EINVAL, "progress_ms" },
    };
    static const char name[1025] = "x";
    struct pair *pair = begin(2000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weir_lock *lock = NULL;
        struct weir_fault fault;
        assert_int_equal(weir_lock_acquire(pair->locks, name, cases[i].name_size, &cases[i].options, &lock),
                         cases[i].error);
        weir_locks_fault(pair->locks, &fault);
        assert_string_equal(fault.field, cases[i].field);
    }
    assert_int_equal(pair->server.commands_count, 0);
    end(pair);
}

static void lock_client__owners_nobody_chose_differ(void **state)
{
    (void)state;
    char text[2][FAKE_TEXT_MAX];
    struct pair *pair = begin(60000);
    struct weir_lock_options options = { .seen_incarnation = 12 };
    assert_int_equal(weir_lock_release(acquire(pair, &options)), 0);
    assert_int_equal(weir_lock_release(acquire(pair, &options)), 0);
    fake_weir_command(&pair->server, 0, text[0]);
    fake_weir_command(&pair->server, 2, text[1]);
    assert_non_null(strstr(text[0], " 15000 SEEN 12"));
    assert_int_equal(strlen(text[0]), strlen("WEIR.LOCK job  15000 SEEN 12") + 32);
    assert_string_not_equal(text[0], text[1]);
    end(pair);
}

static void lock_client__held_is_denied_and_the_wait_is_sent(void **state)
{
    (void)state;
    char text[FAKE_TEXT_MAX];
    struct pair *pair = begin(60000);
    struct weir_lock *lock = acquire(pair, &plain);
    struct weir_lock_options other = { .owner = "you", .owner_size = 3, .ttl_ms = 3000, .wait_ms = 250 };
    assert_int_equal(refusal(pair, &other), WEIR_EHELD);
    fake_weir_command(&pair->server, 1, text);
    assert_string_equal(text, "WEIR.LOCK job you 3000 WAIT 250");
    assert_int_equal(weir_lock_release(lock), 0);
    end(pair);
}

static void lock_client__a_lost_answer_is_asked_for_again_by_the_same_owner(void **state)
{
    (void)state;
    static const enum fake_act losses[] = { FAKE_DROP, FAKE_UNKNOWN, FAKE_GARBAGE, FAKE_ODD };
    char text[2][FAKE_TEXT_MAX];
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        struct pair *pair = begin(60000);
        FAKE_PLAN(&pair->server, losses[i]);
        struct weir_lock *lock = acquire(pair, &(struct weir_lock_options){ .ttl_ms = 2000 });
        assert_int_equal(weir_lock_token(lock).number, 1);
        fake_weir_command(&pair->server, 0, text[0]);
        fake_weir_command(&pair->server, 1, text[1]);
        assert_string_equal(text[0], text[1]);
        assert_int_equal(weir_lock_release(lock), 0);
        end(pair);
    }
}

static void lock_client__a_lost_answer_stays_unknown(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct pair *pair = begin_with(60000, SHORT_TIMEOUT_MS);
    FAKE_PLAN(&pair->server, FAKE_SILENT);
    assert_int_equal(refusal(pair, &plain), WEIR_EUNKNOWN);
    weir_locks_fault(pair->locks, &fault);
    assert_string_equal(fault.text, "no answer in time");
    /* Not answered by errors that come after it, either. */
    FAKE_PLAN(&pair->server, FAKE_DROP, FAKE_ERROR, FAKE_ERROR, FAKE_ERROR, FAKE_ERROR, FAKE_ERROR, FAKE_ERROR);
    assert_int_equal(refusal(pair, &plain), WEIR_EUNKNOWN);
    FAKE_PLAN(&pair->server, FAKE_DROP, FAKE_DENY);
    assert_int_equal(refusal(pair, &plain), WEIR_EHELD);
    end(pair);
}

static void lock_client__what_was_not_sent_is_down_at_once(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct pair *pair = begin(2000);
    FAKE_PLAN(&pair->server, FAKE_ERROR);
    assert_int_equal(refusal(pair, &plain), WEIR_EDOWN);
    weir_locks_fault(pair->locks, &fault);
    assert_string_equal(fault.text, "DOWN the store fails");
    FAKE_PLAN(&pair->server, FAKE_FULL);
    assert_int_equal(refusal(pair, &plain), WEIR_ELIMIT);
    fake_weir_stop(&pair->server);
    assert_int_equal(refusal(pair, &plain), WEIR_EDOWN);
    assert_int_equal(pair->server.commands_count, 2);
    end(pair);
}

static void lock_client__the_deadline_counts_from_sending_and_the_lease_as_returned(void **state)
{
    (void)state;
    struct pair *pair = begin(700); /* less the margin of 500 ms: 200 */
    FAKE_PLAN(&pair->server, FAKE_SLOW);
    struct weir_lock *lock = acquire(pair, &plain); /* answered after 300 ms */
    assert_false(weir_lock_mine(lock));
    assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
    end(pair);
}

static void lock_client__once_lost_by_its_own_clock_nothing_brings_it_back(void **state)
{
    (void)state;
    struct pair *pair = begin(3000);
    struct weir_lock *lock = acquire(pair, &plain);
    assert_true(weir_lock_mine(lock));
    sleep_ms(2520);
    assert_false(weir_lock_mine(lock));
    assert_int_equal(weir_lock_left_ms(lock), 0);
    pair->server.lease_ms = 60000;
    assert_int_equal(weir_lock_renew(lock), WEIR_ELOST);
    assert_int_equal(fake_weir_count(&pair->server, "WEIR.RELOCK"), 0);
    assert_false(weir_lock_mine(lock));
    assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
    assert_false(pair->server.held); /* given back all the same */
    end(pair);
}

static void lock_client__an_answer_that_comes_too_late_renews_nothing(void **state)
{
    (void)state;
    struct pair *pair = begin(2500); /* its own deadline after 2000 ms */
    struct weir_lock *lock = acquire(pair, &plain);
    pair->server.lease_ms = 60000;
    pair->server.slow_ms = 2100;
    FAKE_PLAN(&pair->server, FAKE_SLOW);
    assert_int_equal(weir_lock_renew(lock), WEIR_ELOST);
    assert_false(weir_lock_mine(lock));
    assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
    end(pair);
}

static void lock_client__a_renewal_extends_or_leaves_the_deadline(void **state)
{
    (void)state;
    struct pair *pair = begin_with(30000, SHORT_TIMEOUT_MS);
    struct weir_lock *lock = acquire(pair, &plain);
    pair->server.lease_ms = 60000;
    assert_int_equal(weir_lock_renew(lock), 0);
    uint64_t left_ms = weir_lock_left_ms(lock);
    assert_true(left_ms > 50000 && left_ms <= 54000);
    pair->server.lease_ms = 2000; /* a shorter lease never replaces it */
    assert_int_equal(weir_lock_renew(lock), 0);
    assert_true(weir_lock_left_ms(lock) > 50000);
    FAKE_PLAN(&pair->server, FAKE_SILENT);
    assert_int_equal(weir_lock_renew(lock), WEIR_EUNKNOWN);
    FAKE_PLAN(&pair->server, FAKE_ERROR);
    assert_int_equal(weir_lock_renew(lock), WEIR_EDOWN);
    assert_true(weir_lock_mine(lock));
    assert_int_equal(weir_lock_release(lock), 0);
    end(pair);
}

static void lock_client__a_renewal_without_a_new_lease_means_lost(void **state)
{
    (void)state;
    static const enum fake_act losses[] = { FAKE_DENY, FAKE_OTHER };
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        struct pair *pair = begin(60000);
        struct weir_lock *lock = acquire(pair, &plain);
        FAKE_PLAN(&pair->server, losses[i]);
        assert_int_equal(weir_lock_renew(lock), WEIR_ELOST);
        assert_false(weir_lock_mine(lock));
        assert_int_equal(weir_lock_renew(lock), WEIR_ELOST);
        assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
        end(pair);
    }
}

static void lock_client__release_says_what_it_knows(void **state)
{
    (void)state;
    struct pair *pair = begin_with(60000, SHORT_TIMEOUT_MS);
    struct weir_lock *lock = acquire(pair, &plain);
    FAKE_PLAN(&pair->server, FAKE_DENY);
    assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
    pair->server.held = false;
    lock = acquire(pair, &plain);
    FAKE_PLAN(&pair->server, FAKE_DROP); /* done, and the second question finds it free: by whom? */
    assert_int_equal(weir_lock_release(lock), WEIR_EUNKNOWN);
    assert_false(pair->server.held);
    lock = acquire(pair, &plain);
    FAKE_PLAN(&pair->server, FAKE_SILENT);
    assert_int_equal(weir_lock_release(lock), WEIR_EUNKNOWN);
    lock = acquire(pair, &plain);
    fake_weir_stop(&pair->server);
    assert_int_equal(weir_lock_release(lock), WEIR_EDOWN);
    end(pair);
}

static void lock_client__a_thread_renews_at_a_third(void **state)
{
    (void)state;
    struct pair *pair = begin(4500); /* its own deadline after 4000 ms, renewal after 1500 */
    struct weir_lock_options options = plain;
    options.renew = true;
    struct weir_lock *lock = acquire(pair, &options);
    FAKE_PLAN(&pair->server, FAKE_PIECES);
    sleep_ms(5000);
    assert_true(weir_lock_mine(lock));
    size_t renewals = fake_weir_count(&pair->server, "WEIR.RELOCK");
    assert_true(renewals >= 2 && renewals <= 4);
    assert_int_equal(weir_lock_release(lock), 0);
    size_t commands = pair->server.commands_count;
    sleep_ms(1600);
    assert_int_equal(pair->server.commands_count, commands);
    end(pair);
}

static void lock_client__a_failed_renewal_is_tried_again_before_the_deadline(void **state)
{
    (void)state;
    struct pair *pair = begin_with(9000, SHORT_TIMEOUT_MS); /* its own deadline after 8100 ms, renewal after 3000 */
    struct weir_lock_options options = plain;
    options.renew = true;
    FAKE_PLAN(&pair->server, FAKE_SERVE, FAKE_ERROR, FAKE_SILENT, FAKE_ERROR);
    struct weir_lock *lock = acquire(pair, &options);
    sleep_ms(8600);
    assert_true(weir_lock_mine(lock));
    assert_true(fake_weir_count(&pair->server, "WEIR.RELOCK") >= 4);
    assert_int_equal(weir_lock_release(lock), 0);
    end(pair);
}

static void lock_client__renewal_stops_when_the_work_does(void **state)
{
    (void)state;
    struct pair *pair = begin(3000); /* its own deadline after 2500 ms, renewal after 1000 */
    struct weir_lock_options options = plain;
    options.renew = true;
    options.progress_ms = 1500;
    struct weir_lock *lock = acquire(pair, &options);
    for (int i = 0; i < 12; i++) {
        sleep_ms(200);
        weir_lock_advance(lock);
    }
    assert_true(weir_lock_mine(lock));
    assert_true(fake_weir_count(&pair->server, "WEIR.RELOCK") >= 1);
    sleep_ms(4300); /* and now the work hangs */
    assert_false(weir_lock_mine(lock));
    weir_lock_advance(lock);
    assert_false(weir_lock_mine(lock));
    assert_int_equal(weir_lock_release(lock), WEIR_ELOST);
    end(pair);
}

/* ---- threads ---- */

struct shared {
    struct pair *pair;
    struct weir_lock *lock;
    int index;
};

static void *use(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < 20; i++) {
        struct weir_lock *own = NULL;
        assert_true(weir_lock_mine(shared->lock));
        weir_lock_advance(shared->lock);
        assert_int_equal(weir_lock_token(shared->lock).number, 1);
        if (shared->index == 0)
            assert_int_equal(weir_lock_renew(shared->lock), 0);
        assert_int_equal(weir_lock_acquire(shared->pair->locks, "other", 5, &(struct weir_lock_options){ 0 }, &own),
                         WEIR_EHELD);
    }
    return NULL;
}

static void lock_client__threads_share_locks_and_a_lock(void **state)
{
    (void)state;
    struct pair *pair = begin(20000);
    struct weir_lock_options options = plain;
    options.renew = true;
    options.progress_ms = 19000;
    struct weir_lock *lock = acquire(pair, &options);
    pthread_t threads[4];
    struct shared shared[4];
    for (int i = 0; i < 4; i++) {
        shared[i] = (struct shared){ pair, lock, i };
        assert_int_equal(pthread_create(&threads[i], NULL, use, &shared[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(weir_lock_release(lock), 0);
    end(pair);
}

/* The lease began with the grant; the deadline must count from no earlier than the last asking before it. */
static void lock_client__who_waited_asks_once_more_and_counts_from_there(void **state)
{
    (void)state;
    struct pair *pair = begin(20000);
    struct weir_lock_options options = plain;
    options.wait_ms = 5000;
    pair->server.slow_ms = 3000;
    FAKE_PLAN(&pair->server, FAKE_SLOW);
    struct weir_lock *lock = acquire(pair, &options);
    assert_int_equal(fake_weir_count(&pair->server, "WEIR.RELOCK"), 1);
    assert_true(weir_lock_left_ms(lock) > 15000); /* at most that, of the first asking, would be left */
    assert_int_equal(weir_lock_release(lock), 0);
    FAKE_PLAN(&pair->server, FAKE_SLOW, FAKE_DENY);
    assert_int_equal(refusal(pair, &options), WEIR_EHELD);
    end(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_client__who_waited_asks_once_more_and_counts_from_there),
        cmocka_unit_test(lock_client__connects_to_weir_and_to_nothing_else),
        cmocka_unit_test(lock_client__a_grant_carries_the_token_and_is_mine),
        cmocka_unit_test(lock_client__arguments_out_of_range_are_refused_unasked),
        cmocka_unit_test(lock_client__owners_nobody_chose_differ),
        cmocka_unit_test(lock_client__held_is_denied_and_the_wait_is_sent),
        cmocka_unit_test(lock_client__a_lost_answer_is_asked_for_again_by_the_same_owner),
        cmocka_unit_test(lock_client__a_lost_answer_stays_unknown),
        cmocka_unit_test(lock_client__what_was_not_sent_is_down_at_once),
        cmocka_unit_test(lock_client__the_deadline_counts_from_sending_and_the_lease_as_returned),
        cmocka_unit_test(lock_client__once_lost_by_its_own_clock_nothing_brings_it_back),
        cmocka_unit_test(lock_client__an_answer_that_comes_too_late_renews_nothing),
        cmocka_unit_test(lock_client__a_renewal_extends_or_leaves_the_deadline),
        cmocka_unit_test(lock_client__a_renewal_without_a_new_lease_means_lost),
        cmocka_unit_test(lock_client__release_says_what_it_knows),
        cmocka_unit_test(lock_client__a_thread_renews_at_a_third),
        cmocka_unit_test(lock_client__a_failed_renewal_is_tried_again_before_the_deadline),
        cmocka_unit_test(lock_client__renewal_stops_when_the_work_does),
        cmocka_unit_test(lock_client__threads_share_locks_and_a_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
