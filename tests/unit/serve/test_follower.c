/* SPDX-License-Identifier: Apache-2.0
 *
 * Following a store of rule sets: how far back one for this node is looked for, what becomes of what cannot be kept,
 * or comes into force while another is kept and told, and of the exceptions of a store that was lost. */
#include "base/units.h"
#include "rule_store_fixture.h"
#include "rules/exception.h"
#include "rules/kept.h"
#include "serve/follower.h"
#include "serve/follower_seek.h"

static const char mine[] = "limits: []\n", theirs[] = "nodes: [ other ]\nlimits: []\n";

static uint64_t propose(struct weir_rule_store *store, uint64_t expected)
{
    struct weir_rule_change change = change_of(expected, mine);
    change.kind = WEIR_RULE_PROPOSED;
    return append(store, &change).number;
}

/* Versions for others count, and no proposals, also where each comes behind one of those. */
static void proposals_do_not_count_among_what_is_for_others(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    const struct weir_follower_seeker seeker = { store, "me", 60 * SECOND };
    struct weir_follower_found found;
    struct weir_fault fault;
    uint64_t number = append_text(store, 0, mine);
    for (unsigned i = 0; i < WEIR_FOLLOWER_BACK_MAX - 1; i++)
        number = propose(store, append_text(store, number, theirs));
    const struct weir_rule_head head = head_of(store);
    assert_int_equal(weir_follower_seek(&seeker, &head, 0, &found, &fault), 0);
    assert_non_null(found.text);
    assert_int_equal(found.head.number, 1);
    assert_int_equal(found.others, number - 1);
    free(found.text);
    weir_rule_store_close(store);
}

static void nothing(void *context)
{
    (void)context;
}

static struct weir_follower *follow(const char *kept)
{
    struct weir_follower *follower;
    struct weir_fault fault = { 0 };
    const struct weir_follower_options options = {
        .spec = store_spec, .kept = kept, .poll_ns = SECOND / 100, .timeout_ns = 10 * SECOND, .node = "me"
    };
    if (weir_follower_open(&options, &follower, &fault) != 0)
        fail_msg("open: %s %s", fault.field, fault.text);
    return follower;
}

/* Until the thread has done what is seen. */
static struct weir_follower_view wait_for(struct weir_follower *follower,
                                          bool (*is)(const struct weir_follower_view *view))
{
    struct weir_follower_view view;
    for (const uint64_t end_ns = soon();; weir_rule_sleep_until(weir_rule_now_ns() + SECOND / 100)) {
        weir_follower_view(follower, &view);
        if (is(&view))
            return view;
        assert_true(weir_rule_now_ns() < end_ns);
    }
}

static bool cannot_keep(const struct weir_follower_view *view)
{
    return view->keep_failing;
}

/* It is tried again, at the end at the latest. */
static void what_could_not_be_kept_is_kept_later(void **state)
{
    (void)state;
    char kept[128], beside[160];
    struct weir_rule_store *store = store_open();
    append_text(store, 0, mine);
    (void)snprintf(kept, sizeof kept, "%s/kept", store_folder);
    (void)snprintf(beside, sizeof beside, "%s.new", kept);
    assert_int_equal(mkdir(beside, 0700), 0); /* where it is written first */
    struct weir_follower *follower = follow(kept);
    assert_int_equal(weir_follower_start(follower, nothing, NULL), 0);
    const struct weir_rule_head head = head_of(store);
    weir_follower_in_force(follower, &head, (struct weir_slice){ mine, sizeof mine - 1 }, 1);
    (void)wait_for(follower, cannot_keep);
    assert_int_equal(access(kept, F_OK), -1);
    assert_int_equal(rmdir(beside), 0);
    weir_follower_finish(follower);
    assert_int_equal(access(kept, F_OK), 0);
    weir_follower_destroy(follower);
    weir_rule_store_close(store);
}

/* ---- another comes into force meanwhile ---- */

int __real_weir_rule_kept_write(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                                struct weir_fault *ret_fault);
int __wrap_weir_rule_kept_write(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                                struct weir_fault *ret_fault);
int __real_weir_rule_store_tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                                struct weir_fault *ret_fault);
int __wrap_weir_rule_store_tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                                struct weir_fault *ret_fault);

static const char later[] = "limits: []\n# later\n";
static struct weir_follower *moved_on; /* NULL: nothing comes meanwhile */
static bool while_kept;                /* else while it is told */
static struct weir_rule_head later_head;

static void move_on(void)
{
    struct weir_follower *follower = moved_on;
    moved_on = NULL;
    weir_follower_in_force(follower, &later_head, (struct weir_slice){ later, sizeof later - 1 }, 2);
}

int __wrap_weir_rule_kept_write(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                                struct weir_fault *ret_fault)
{
    if (!moved_on || !while_kept)
        return __real_weir_rule_kept_write(path, head, text, ret_fault);
    move_on();
    *ret_fault = (struct weir_fault){ .field = "path", .text = "a disk that fails" };
    return WEIR_EIO;
}

int __wrap_weir_rule_store_tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                                struct weir_fault *ret_fault)
{
    if (moved_on && !while_kept)
        move_on();
    return __real_weir_rule_store_tell(store, told, deadline_ns, ret_fault);
}

static bool has_moved_on(const struct weir_follower_view *view)
{
    return view->in_force == later_head.number;
}

static bool note_version(void *context, const struct weir_rule_told *told)
{
    *(uint64_t *)context = told->version;
    return false;
}

/* While the first is told, or could not be kept, the second comes into force: that is what is kept and told. */
static void what_comes_into_force_meanwhile_is_kept_and_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char kept[128], *text = NULL;
        size_t size = 0;
        uint64_t version = 0;
        struct weir_fault fault = { 0 };
        struct weir_rule_head found;
        (void)snprintf(kept, sizeof kept, "%s/kept", store_folder);
        struct weir_rule_store *store = store_open();
        const uint64_t before = head_of(store).number;
        append_text(store, before, mine);
        const struct weir_rule_head head = head_of(store);
        append_text(store, before + 1, later);
        later_head = head_of(store);
        struct weir_follower *follower = follow(kept);
        while_kept = i == 0;
        moved_on = follower;
        weir_follower_in_force(follower, &head, (struct weir_slice){ mine, sizeof mine - 1 }, 1);
        assert_int_equal(weir_follower_start(follower, nothing, NULL), 0);
        (void)wait_for(follower, has_moved_on);
        weir_follower_finish(follower);
        assert_null(moved_on);
        assert_int_equal(weir_rule_kept_read(kept, &found, &text, &size, &fault), 0);
        assert_int_equal(found.number, later_head.number);
        assert_string_equal(text, later);
        assert_int_equal(weir_rule_store_told(store, true, soon(), note_version, &version, &fault), 0);
        assert_int_equal(version, later_head.number);
        free(text);
        weir_follower_destroy(follower);
        weir_rule_store_close(store);
    }
}

static void remove_store(void)
{
    static const char *const ends[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < 3; i++) {
        char path[160];
        (void)snprintf(path, sizeof path, "%s%s", store_path, ends[i]);
        (void)unlink(path);
    }
}

static bool is_newest_one(const struct weir_follower_view *view)
{
    return view->newest == 1;
}

/* A store that was lost and made anew has fewer versions, the last of them for others: the one before is followed. */
static void what_was_in_force_says_nothing_of_another_store(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    struct weir_rule_head found;
    struct weir_rule_store *store = store_open();
    for (uint64_t i = 0; i < 5; i++)
        append_text(store, i, mine);
    const struct weir_rule_head head = head_of(store);
    weir_rule_store_close(store);
    struct weir_follower *follower = follow(NULL);
    weir_follower_in_force(follower, &head, (struct weir_slice){ mine, sizeof mine - 1 }, 1);
    remove_store();
    store = store_open();
    append_text(store, 0, later);
    append_text(store, 1, theirs);
    assert_int_equal(weir_follower_start(follower, nothing, NULL), 0);
    (void)wait_for(follower, is_newest_one);
    assert_int_equal(weir_follower_newest(follower, &found, &text, &size), 0);
    assert_string_equal(text, later);
    free(text);
    weir_follower_finish(follower);
    weir_follower_destroy(follower);
    weir_rule_store_close(store);
}

static bool is_failing(const struct weir_follower_view *view)
{
    return view->failing;
}

/* A store that was lost and made anew, and has no rules yet, says nothing: who is banned stays so. */
static void an_empty_store_ends_no_ban(void **state)
{
    (void)state;
    char key[64];
    size_t size = 0;
    uint64_t number;
    struct weir_fault fault;
    assert_true(weir_exception_key_add(key, sizeof key, &size, (struct weir_slice){ "user", 4 }));
    assert_true(weir_exception_key_add(key, sizeof key, &size, (struct weir_slice){ "ada", 3 }));
    struct weir_exception_change ban = { .kind = WEIR_EXCEPTION_BAN,
                                         .limit = "api",
                                         .key = { key, size },
                                         .wall_ns = 1,
                                         .author = "ann",
                                         .comment = "too fast" };
    assert_int_equal(weir_rule_change_id(ban.change), 0);
    struct weir_rule_store *store = store_open();
    append_text(store, 0, mine);
    assert_int_equal(weir_rule_store_except(store, &ban, soon(), &number, &fault), 0);
    weir_rule_store_close(store);
    struct weir_follower *follower = follow(NULL);
    assert_int_equal(weir_excepted_keys_count(weir_follower_excepted(follower)), 1);
    assert_int_equal(weir_follower_start(follower, nothing, NULL), 0);
    remove_store();
    store = store_open();
    assert_int_equal(head_of(store).number, 0);
    for (unsigned i = 0; i < 3; i++) {
        (void)wait_for(follower, is_failing); /* "it has no rules any more" */
        weir_rule_sleep_until(weir_rule_now_ns() + SECOND / 5);
        assert_int_equal(weir_excepted_keys_count(weir_follower_excepted(follower)), 1);
    }
    weir_follower_finish(follower);
    weir_follower_destroy(follower);
    weir_rule_store_close(store);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)
    const struct CMUnitTest tests[] = {
        T(proposals_do_not_count_among_what_is_for_others),
        T(what_could_not_be_kept_is_kept_later),
        T(what_comes_into_force_meanwhile_is_kept_and_told),
        T(what_was_in_force_says_nothing_of_another_store),
        T(an_empty_store_ends_no_ban),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
