/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that are made while memory runs out: at the first allocation, the second, and so on until all were granted.
 * Each time it is WEIR_ENOMEM, and what was made is freed; so it is when the whole object is destroyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "limits/fallback.h"
#include "limits/gossip_host.h"
#include "limits/memory.h"
#include "limits/revisor.h"
#include "limits/share_host.h"
#include "no_memory.h"
#include "weir/snapshot.h"

static const uint8_t secret[16] = "0123456789abcdef";

/* ---- limits in memory ---- */

static int make_limiter(void)
{
    const struct weir_limiter_options options = { .memory_max = 1 << 20, .secret = secret };
    const struct weir_limit_def defs[] = {
        { .name = "a", .spec = { .count = 10, .period_ns = WEIR_NS_PER_SECOND } },
        { .name = "a", .variant = "v", .spec = { .count = 20, .period_ns = WEIR_NS_PER_SECOND } },
        { .name = "daily",
          .spec = { .algorithm = WEIR_FIXED_WINDOW,
                    .count = 5,
                    .period_ns = 86400 * WEIR_NS_PER_SECOND,
                    .calendar = WEIR_CALENDAR_DAY,
                    .tz = "Europe/Berlin" } },
        { .name = "few", .spec = { .algorithm = WEIR_CONCURRENCY, .count = 3, .period_ns = 10 * WEIR_NS_PER_SECOND } },
    };
    struct weir_limiter *limiter;
    weir_limit_id ids[4];
    struct weir_fault fault = { .field = "" };
    int error = weir_limiter_create(&options, &limiter, &fault);
    if (error)
        return error;
    error = weir_limiter_define(limiter, defs, 4, NULL, ids, &fault);
    if (!error) /* and some are gone, and one changed, by the next set */
        error = weir_limiter_define(limiter, &defs[1], 2, NULL, ids, &fault);
    weir_limiter_destroy(limiter);
    return error;
}

static void a_limiter(void **state)
{
    (void)state;
    each_in_turn(make_limiter, 20);
}

static char path[64];

static int write_snapshot(struct weir_limiter *limiter, struct weir_snapshot_stats *ret_stats)
{
    const struct weir_moment moment = { .now_ns = 1, .wall_ns = 1 };
    struct weir_snapshot_writer *writer;
    int error = weir_snapshot_begin(limiter, path, NULL, 0, &writer, NULL);
    if (error)
        return error;
    while ((error = weir_snapshot_step(writer, 4096, &moment, ret_stats, NULL)) == WEIR_EAGAIN)
        ;
    weir_snapshot_end(writer);
    return error;
}

static int read_snapshot(struct weir_limiter *limiter, struct weir_snapshot_stats *ret_stats)
{
    const struct weir_moment moment = { .now_ns = 1, .wall_ns = 1 };
    struct weir_snapshot_reader *reader;
    int error = weir_snapshot_open(path, &reader, NULL);
    if (error)
        return error;
    error = weir_snapshot_restore(reader, limiter, &moment, ret_stats, NULL);
    weir_snapshot_close(reader);
    return error;
}

/* Of three limits, one of whose keys has used something. */
static int make_snapshot(void)
{
    const struct weir_limiter_options options = { .memory_max = 1 << 20, .secret = secret };
    const struct weir_limit_def defs[] = {
        { .name = "a", .spec = { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = 60 * WEIR_NS_PER_SECOND } },
        { .name = "b", .spec = { .count = 20, .period_ns = WEIR_NS_PER_SECOND } },
        { .name = "b", .variant = "v", .spec = { .count = 30, .period_ns = WEIR_NS_PER_SECOND } },
    };
    const struct weir_time time = { 1, 1 };
    struct weir_limiter *limiter, *second = NULL;
    struct weir_snapshot_stats stats = { 0 };
    weir_limit_id ids[3];
    int error = weir_limiter_create(&options, &limiter, NULL);
    if (error)
        return error;
    error = weir_limiter_define(limiter, defs, 3, &time, ids, NULL);
    if (!error) {
        struct weir_charge charge = { .limit = ids[0], .key = { .hash = 1 << 20 }, .cost = 3 };
        assert_true(weir_limiter_admit(limiter, &charge, &time));
        error = write_snapshot(limiter, &stats);
    }
    if (!error)
        error = weir_limiter_create(&options, &second, NULL);
    if (!error)
        error = read_snapshot(second, &stats);
    assert_true(error || stats.keys == 1);
    weir_limiter_destroy(second);
    weir_limiter_destroy(limiter);
    return error;
}

static void a_snapshot(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/weir-no-memory-%ld", (long)getpid());
    struct stat before, after;
    assert_int_equal(fstat(STDOUT_FILENO, &before), 0);
    each_in_turn(make_snapshot, 40);
    assert_int_equal(fstat(STDOUT_FILENO, &after), 0); /* what was not opened was not closed */
    assert_true(after.st_dev == before.st_dev && after.st_ino == before.st_ino);
    (void)unlink(path);
}

/* ---- shared limits ---- */

static int make_fallback(void)
{
    struct weir_fallback *fallback;
    int error = weir_fallback_create(2, 16, 1, &fallback);
    if (!error)
        weir_fallback_destroy(fallback);
    return error;
}

static void a_fallback(void **state)
{
    (void)state;
    each_in_turn(make_fallback, 3);
    weir_fallback_destroy(NULL);
}

static void send_nothing(void *context, uint32_t node, const void *datagram, size_t size)
{
    (void)context, (void)node, (void)datagram, (void)size;
}

static int make_gossip_host(void)
{
    const char *const names[] = { "a", "b" };
    const struct weir_gossip_host_options options = {
        .secret = secret, .nodes = 2, .names = names, .keys_max = 8, .now_ns = 1, .epoch = 1, .send = send_nothing
    };
    const struct weir_limit_spec spec = { .count = 10, .period_ns = WEIR_NS_PER_SECOND };
    const struct weir_remote_key key = { .id = { 1, 2 } };
    const struct weir_time time = { .now_ns = WEIR_NS_PER_SECOND, .wall_ns = 1 };
    const struct weir_remote_limit *limit;
    struct weir_gossip_host *host;
    struct weir_verdict verdict;
    enum weir_share_say say;
    const uint64_t slack = 4;
    int error = weir_gossip_host_create(&options, &host, NULL);
    if (error)
        return error;
    error = weir_remote_limit_create("api", 0, 0, &spec, &limit, NULL);
    if (!error) {
        weir_gossip_host_limits(host, &limit, &slack, 1, &time);
        error = weir_gossip_host_reserve(host, limit, slack, &key, 1, false, &time, &say, &verdict);
        weir_remote_limit_drop(limit);
    }
    weir_gossip_host_destroy(host);
    return error;
}

static void a_gossip_host(void **state)
{
    (void)state;
    each_in_turn(make_gossip_host, 5);
}

static void wake_nobody(void *context, uint64_t at_ns)
{
    (void)context, (void)at_ns;
}

static void note_done(void *context)
{
    *(bool *)context = true;
}

static int submit_nothing(struct weir_remote *remote, struct weir_remote_request *request)
{
    (void)remote, (void)request;
    return WEIR_EDOWN;
}

static const struct weir_remote_limit *shared_limit;

/* A key is made, though nobody can be asked for it. */
static int reserve_shared(struct weir_share_host *host)
{
    const struct weir_share_terms terms = {
        .limit = shared_limit, .leased = true, .chunk_ttl_ns = 1, .deadline_ns = 1
    };
    const struct weir_remote_key key = { .id = { 1, 2 } };
    enum weir_share_say say;
    struct weir_verdict verdict;
    int error = weir_share_host_reserve(host, &terms, &key, 1, false, 1, &say, &verdict);
    return error == WEIR_EDOWN ? 0 : error;
}

static int make_share_host(void)
{
    static const struct weir_remote_ops ops = { .submit = submit_nothing };
    struct weir_remote remote = { &ops };
    struct weir_share_host *host;
    bool done = false;
    int error = weir_share_host_create(
        &(struct weir_share_host_options){ .remote = &remote, .keys_max = 8, .wake = wake_nobody, .secret = secret },
        &host);
    if (error)
        return error;
    error = reserve_shared(host);
    if (!error)
        error = weir_share_host_retire(host, (const char *const[]){ "other" }, 1);
    weir_share_host_close(host, 1, note_done, &done);
    weir_share_host_turn(host, UINT64_C(1) << 62);
    assert_true(done);
    return error;
}

static void a_share_host(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 10, .period_ns = UINT64_C(1000000000) };
    assert_int_equal(weir_remote_limit_create("shared", 0, 0, &spec, &shared_limit, NULL), 0);
    each_in_turn(make_share_host, 5);
    weir_remote_limit_drop(shared_limit);
}

static int make_revisions(void)
{
    const struct weir_revision_own own[] = { { .name = "a", .text = { "one", 3 } },
                                             { .name = "b", .text = { "two", 3 } } };
    struct weir_revision_found found;
    struct weir_revisions *revisions;
    int error = weir_revisions_create(secret, "node", &revisions);
    if (error)
        return error;
    error = weir_revisions_own(revisions, own, 2, 1);
    if (!error)
        error = weir_revisions_find(revisions, own, 1, &found);
    if (!error)
        free(found.text);
    weir_revisions_destroy(revisions);
    return error;
}

static uint64_t one(void *context)
{
    (void)context;
    return 1;
}

static struct weir_remote_note *asked; /* by the revisor; NULL: nothing */

static int note_asked(struct weir_remote *remote, struct weir_remote_note *asks)
{
    size_t i = 0;
    (void)remote;
    while (i < live_count && live[i] != (void *)asks)
        i++;
    assert_true(i < live_count); /* it is not freed yet */
    asked = asks;
    return 0;
}

static bool is_ready(struct weir_remote *remote)
{
    return remote != NULL;
}

/* The engine knows of nothing; what it is told comes back as newer, to a node that knows of nothing either. */
static int make_revisor(void)
{
    static const struct weir_remote_ops ops = { .note = note_asked, .ready = is_ready };
    const struct weir_revision_own own = { .name = "a", .text = { "one", 3 } };
    struct weir_remote remote = { &ops };
    struct weir_revisor revisor = { .wall_ns = one };
    int error = weir_revisions_create(secret, "node", &revisor.revisions);
    if (error)
        return error;
    error = weir_revisions_own(revisor.revisions, &own, 1, 1);
    asked = NULL;
    if (!error)
        weir_revisor_turn(&revisor, &remote, 1);
    for (int i = 0; i < 2 && asked && !error; i++) { /* reads, then writes */
        struct weir_remote_note *is_asked = asked;
        asked = NULL;
        assert_int_equal(is_asked->data != NULL, i == 1);
        is_asked->done(is_asked, 0, NULL, 0);
    }
    error = error || granted < 0 ? WEIR_ENOMEM : 0;
    assert_int_equal(revisor.asking, 0);
    weir_revisions_destroy(revisor.revisions);
    return error;
}

/* Names that no file says any more, and more of them than are remembered. */
static int make_gone(void)
{
    static char names[WEIR_REVISIONS_GONE_MAX + 3];
    struct weir_revision_own own[WEIR_REVISIONS_GONE_MAX + 2];
    struct weir_revisions *revisions;
    int error = weir_revisions_create(secret, "node", &revisions);
    if (error)
        return error;
    memset(names, 'a', sizeof(names) - 1);
    for (size_t i = 0; i < WEIR_REVISIONS_GONE_MAX + 2; i++) /* each longer than the next by one letter */
        own[i] = (struct weir_revision_own){ .name = names + i, .text = { "one", 3 } };
    error = weir_revisions_own(revisions, own, WEIR_REVISIONS_GONE_MAX + 2, 1);
    if (!error)
        error = weir_revisions_own(revisions, own, 0, 1);
    assert_true(error || weir_revisions_count(revisions) == WEIR_REVISIONS_GONE_MAX);
    weir_revisions_destroy(revisions);
    return error;
}

static void revisions(void **state)
{
    (void)state;
    each_in_turn(make_revisions, 5);
    each_in_turn(make_revisor, 5);
    each_in_turn(make_gone, WEIR_REVISIONS_GONE_MAX);
    weir_revisions_destroy(NULL);
}

enum { OWNED = WEIR_REVISIONS_GONE_MAX + 40 };

static void name_all(struct weir_revision_own *own, char names[OWNED][8], const char *text)
{
    for (size_t i = 0; i < OWNED; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%zu", i);
        own[i] = (struct weir_revision_own){ .name = names[i], .text = { text, strlen(text) } };
    }
}

/* A file of which half could be taken in would be told as if the rest had been taken out of it. */
static void a_file_is_taken_in_whole_or_not_at_all(void **state)
{
    (void)state;
    char names[OWNED][8];
    struct weir_revision_own own[OWNED];
    struct weir_revision_found found;
    for (long room = 0;; room++) {
        struct weir_revisions *revisions;
        assert_int_equal(weir_revisions_create(secret, "node", &revisions), 0);
        name_all(own, names, "one");
        assert_int_equal(weir_revisions_own(revisions, own, OWNED, 1), 0);
        const uint64_t generation = weir_revisions_generation(revisions);
        name_all(own, names, "two");
        granted = room;
        counts = true;
        int error = weir_revisions_own(revisions, own, OWNED, 1);
        counts = false;
        live_count = 0;
        assert_int_equal(weir_revisions_count(revisions), OWNED);
        if (error) {
            assert_int_equal(error, WEIR_ENOMEM);
            assert_int_equal(weir_revisions_generation(revisions), generation);
            name_all(own, names, "one");
            assert_int_equal(weir_revisions_own(revisions, own, OWNED, 1), 0);
            assert_int_equal(weir_revisions_generation(revisions), generation); /* as ever: nothing is new */
        }
        for (size_t i = 0; i < OWNED; i++) {
            assert_int_equal(weir_revisions_find(revisions, &own[i], 1, &found), 0);
            assert_null(found.text);
        }
        weir_revisions_destroy(revisions);
        if (!error)
            break;
        room += room > 10 && room < 2 * OWNED - 10 ? 17 : 0;
    }
}

ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

static bool random_fails;

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    return random_fails ? -1 : __real_getrandom(bytes, size, flags);
}

/* Where no secret is given, and none can be had. */
static void without_a_secret_there_is_nothing(void **state)
{
    (void)state;
    const struct weir_share_host_options options = { .wake = wake_nobody };
    struct weir_share_host *host = NULL;
    struct weir_limiter *limiter = NULL;
    random_fails = true;
    assert_int_equal(weir_share_host_create(&options, &host), WEIR_EIO);
    assert_int_equal(weir_limiter_create(NULL, &limiter, NULL), WEIR_EIO);
    random_fails = false;
    assert_true(!host && !limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limiter),     cmocka_unit_test(a_fallback),
        cmocka_unit_test(a_gossip_host), cmocka_unit_test(a_share_host),
        cmocka_unit_test(revisions),     cmocka_unit_test(a_file_is_taken_in_whole_or_not_at_all),
        cmocka_unit_test(a_snapshot),    cmocka_unit_test(without_a_secret_there_is_nothing),
    };
    return cmocka_run_group_tests_name("no memory", tests, NULL, NULL);
}
