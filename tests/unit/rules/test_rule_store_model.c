/* SPDX-License-Identifier: Apache-2.0
 *
 * Random calls through two handles of one SQLite file, which are closed and opened again at random, against a list in
 * memory that is obviously right; and what an approval is. */
#include "random.h"
#include "rule_store_fixture.h"

#define HANDLES 2
#define VERSIONS_MAX 400
#define NODES 5
#define NOTES_MAX 4000

struct model_version {
    struct weir_rule_change change;
    char text[64];
    size_t text_size;
    char author[16];
};

struct model {
    struct model_version list[VERSIONS_MAX]; /* [i] is version i + 1 */
    size_t count;
    struct weir_rule_told notes[NOTES_MAX]; /* in the order of telling */
    size_t notes_count;
};

static struct model model;
static struct test_random rnd;
static struct weir_rule_store *handles[HANDLES];

static uint64_t below(uint64_t bound)
{
    return test_random_below(&rnd, bound);
}

static struct weir_rule_store *any_handle(void)
{
    struct weir_rule_store **handle = &handles[below(HANDLES)];
    if (below(20) == 0) {
        weir_rule_store_close(*handle);
        *handle = store_open();
    }
    return *handle;
}

/* ---- the model ---- */

static const struct model_version *model_find(const uint8_t *change)
{
    for (size_t i = 0; i < model.count; i++)
        if (memcmp(model.list[i].change.change, change, WEIR_RULE_CHANGE_SIZE) == 0)
            return &model.list[i];
    return NULL;
}

static const struct model_version *model_text_of(uint64_t number)
{
    const struct model_version *version = &model.list[number - 1];
    return version->change.kind == WEIR_RULE_ROLLBACK ? model_text_of(version->change.of) : version;
}

static bool model_is_newest(const struct weir_rule_told *told)
{
    for (size_t i = model.notes_count; i > 0; i--)
        if (strcmp(model.notes[i - 1].node, told->node) == 0)
            return model.notes[i - 1].version == told->version && model.notes[i - 1].since_ns == told->since_ns;
    return false;
}

/* ---- what is done ---- */

static void do_append(void)
{
    struct model_version made = { .text_size = 1 + below(sizeof made.text - 1) };
    for (size_t i = 0; i < made.text_size; i++)
        made.text[i] = (char)below(256);
    (void)snprintf(made.author, sizeof made.author, "author %u", (unsigned)below(10));
    uint64_t off = below(4) == 0 ? below(3) : 0; /* as who is late */
    made.change = change_of(off > model.count ? 0 : model.count - off, "");
    if (below(3) == 0 && made.change.expected > 0)
        made.change = rollback_of(made.change.expected, 1 + below(made.change.expected));
    else
        made.change.text = (struct weir_slice){ made.text, made.text_size };
    made.change.author = made.author;
    made.change.wall_ns = below(INT64_MAX); /* clocks differ */
    struct weir_rule_appended appended = append(any_handle(), &made.change);
    assert_false(appended.again);
    if (made.change.expected != model.count) {
        assert_int_equal(appended.said, WEIR_RULE_CONFLICT);
    } else {
        assert_int_equal(appended.said, WEIR_RULE_APPENDED);
        model.list[model.count++] = made;
        assert_int_equal(appended.number, model.count);
    }
    assert_int_equal(appended.head.number, model.count);
}

static void do_append_again(void)
{
    if (model.count == 0)
        return;
    size_t which = below(model.count);
    struct model_version *made = &model.list[which];
    struct weir_rule_change change = made->change;
    if (change.kind != WEIR_RULE_ROLLBACK)
        change.text = (struct weir_slice){ made->text, made->text_size };
    change.author = made->author;
    struct weir_rule_appended appended = append(any_handle(), &change);
    assert_true(appended.again);
    assert_int_equal(appended.number, which + 1);
    assert_int_equal(appended.head.number, model.count);
}

static void do_read(void)
{
    struct weir_rule_version version;
    struct weir_fault fault;
    char *text;
    uint64_t number = 1 + below(model.count + 2);
    int error = weir_rule_store_read(any_handle(), number, soon(), &version, &text, &fault);
    assert_int_equal(error, number <= model.count ? 0 : WEIR_ENOENT);
    if (error)
        return;
    const struct model_version *expected = &model.list[number - 1], *of = model_text_of(number);
    assert_int_equal(version.number, number);
    assert_int_equal(version.kind, expected->change.kind);
    assert_int_equal(version.of, expected->change.of);
    assert_int_equal(version.wall_ns, expected->change.wall_ns);
    assert_string_equal(version.author, expected->author);
    assert_ptr_equal(model_find(version.change), expected);
    assert_int_equal(version.text_size, of->text_size);
    assert_memory_equal(text, of->text, of->text_size);
    free(text);
}

struct walk {
    uint64_t next;
    size_t count;
};

static bool walk_on(void *context, const struct weir_rule_version *version)
{
    struct walk *walk = context;
    assert_int_equal(version->number, walk->next--);
    assert_string_equal(version->author, model.list[version->number - 1].author);
    walk->count++;
    return true;
}

static void do_list(void)
{
    struct weir_fault fault;
    uint64_t from = below(model.count + 3), count_max = 1 + below(20);
    uint64_t first = from == 0 || from > model.count ? model.count : from;
    struct walk walk = { .next = first };
    assert_int_equal(weir_rule_store_list(any_handle(), from, count_max, soon(), walk_on, &walk, &fault), 0);
    assert_int_equal(walk.count, first < count_max ? first : count_max);
}

static void do_head(void)
{
    struct weir_rule_head head = head_of(any_handle());
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE] = { 0 };
    assert_int_equal(head.number, model.count);
    if (model.count > 0) {
        const struct model_version *of = model_text_of(model.count);
        assert_int_equal(weir_rule_checksum((struct weir_slice){ of->text, of->text_size }, checksum), 0);
    }
    assert_memory_equal(head.checksum, checksum, sizeof checksum);
}

static void do_tell(void)
{
    struct weir_rule_told told = { .version = 1 + below(3), .since_ns = below(4) };
    struct weir_fault fault;
    (void)snprintf(told.node, sizeof told.node, "node-%u", (unsigned)below(NODES));
    assert_int_equal(weir_rule_store_tell(any_handle(), &told, soon(), &fault), 0);
    if (!model_is_newest(&told) && model.notes_count < NOTES_MAX)
        model.notes[model.notes_count++] = told;
}

struct hearing {
    struct weir_rule_told expected[NODES * WEIR_RULE_TOLD_MAX];
    size_t count, heard;
};

static bool hear(void *context, const struct weir_rule_told *told)
{
    struct hearing *hearing = context;
    assert_true(hearing->heard < hearing->count);
    const struct weir_rule_told *expected = &hearing->expected[hearing->heard++];
    assert_string_equal(told->node, expected->node);
    assert_int_equal(told->version, expected->version);
    assert_int_equal(told->since_ns, expected->since_ns);
    return true;
}

static void do_told(void)
{
    static struct hearing hearing;
    struct weir_fault fault;
    bool newest_only = below(2);
    size_t each_max = newest_only ? 1 : WEIR_RULE_TOLD_MAX;
    hearing = (struct hearing){ .count = 0 };
    for (unsigned node = 0; node < NODES; node++) {
        char name[16];
        size_t count = 0;
        (void)snprintf(name, sizeof name, "node-%u", node);
        for (size_t i = model.notes_count; i > 0 && count < each_max; i--)
            if (strcmp(model.notes[i - 1].node, name) == 0) {
                hearing.expected[hearing.count++] = model.notes[i - 1];
                count++;
            }
    }
    assert_int_equal(weir_rule_store_told(any_handle(), newest_only, soon(), hear, &hearing, &fault), 0);
    assert_int_equal(hearing.heard, hearing.count);
}

static void random_calls_agree_with_a_list(void **state)
{
    (void)state;
    static void (*const verbs[])(void) = { do_append, do_append_again, do_read, do_list,
                                           do_head,   do_tell,         do_tell, do_told };
    uint64_t count = test_effort(400, 2000, 20000);
    rnd.state = test_random_seed();
    for (size_t i = 0; i < HANDLES; i++)
        handles[i] = store_open();
    for (uint64_t i = 0; i < count && model.count < VERSIONS_MAX && model.notes_count < NOTES_MAX; i++)
        verbs[below(sizeof verbs / sizeof verbs[0])]();
    for (size_t i = 0; i < HANDLES; i++)
        weir_rule_store_close(handles[i]);
}

/* Of the version before it alone, and only once: what came after a proposal was made from something else. */
static void an_approval_has_the_text_of_the_proposal_before_it(void **state)
{
    (void)state;
    struct weir_rule_store *store = store_open();
    struct weir_rule_version version;
    struct weir_fault fault;
    char *text;
    append_text(store, 0, "one");
    struct weir_rule_change change = change_of(1, "two");
    change.kind = WEIR_RULE_PROPOSED;
    assert_int_equal(append(store, &change).number, 2);
    struct weir_rule_change approval = rollback_of(2, 2);
    approval.kind = WEIR_RULE_APPROVED;
    assert_int_equal(append(store, &approval).number, 3);
    assert_int_equal(weir_rule_store_read(store, 3, soon(), &version, &text, &fault), 0);
    assert_int_equal(version.kind, WEIR_RULE_APPROVED);
    assert_int_equal(version.of, 2);
    assert_string_equal(text, "two");
    free(text);
    approval = rollback_of(3, 2);
    approval.kind = WEIR_RULE_APPROVED;
    assert_int_equal(weir_rule_change_check(&approval, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "of");
    weir_rule_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_calls_agree_with_a_list, make_store_folder, remove_store_folder),
        cmocka_unit_test_setup_teardown(an_approval_has_the_text_of_the_proposal_before_it, make_store_folder,
                                        remove_store_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
