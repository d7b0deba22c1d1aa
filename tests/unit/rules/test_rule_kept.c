/* SPDX-License-Identifier: Apache-2.0
 *
 * The last good rule set on disk: cut at every byte, changed at every byte, of somebody else, of a later weir, written
 * where nothing can be written. */
#include <signal.h>
#include <sys/resource.h>

#include "rule_store_fixture.h"
#include "rules/kept.h"

static char beside[128];
static const char TEXT[] = "limits:\n  - name: api\n    rate: 100/min\n";

static struct weir_rule_head head_with(uint64_t number, const char *text)
{
    struct weir_rule_head head = { .number = number };
    assert_int_equal(weir_rule_checksum((struct weir_slice){ text, strlen(text) }, head.checksum), 0);
    memset(head.store, 7, sizeof head.store);
    return head;
}

static int keep(uint64_t number, const char *text, struct weir_fault *ret_fault)
{
    struct weir_rule_head head = head_with(number, text);
    return weir_rule_kept_write(store_path, &head, (struct weir_slice){ text, strlen(text) }, ret_fault);
}

static int read_error(struct weir_fault *ret_fault)
{
    struct weir_rule_head head;
    char *text;
    size_t size;
    int error = weir_rule_kept_read(store_path, &head, &text, &size, ret_fault);
    if (error == 0)
        free(text);
    return error;
}

static void expect(uint64_t number, const char *text)
{
    struct weir_rule_head head, wanted = head_with(number, text);
    struct weir_fault fault;
    char *got;
    size_t size;
    assert_int_equal(weir_rule_kept_read(store_path, &head, &got, &size, &fault), 0);
    assert_true(weir_rule_head_same(&head, &wanted));
    assert_int_equal(size, strlen(text));
    assert_string_equal(got, text);
    free(got);
}

static void what_was_kept_comes_back(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct stat status;
    assert_int_equal(read_error(&fault), WEIR_ENOENT);
    assert_int_equal(keep(41, TEXT, &fault), 0);
    expect(41, TEXT);
    assert_int_equal(stat(store_path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(keep(42, "another\n", &fault), 0);
    expect(42, "another\n");
    (void)snprintf(beside, sizeof beside, "%s.new", store_path);
    assert_int_equal(access(beside, F_OK), -1);
    write_whole(beside, "of one that was killed", 22);
    assert_int_equal(keep(43, TEXT, &fault), 0);
    expect(43, TEXT);
}

static void a_file_cut_at_any_byte_is_not_used(void **state)
{
    (void)state;
    static char whole[1024];
    struct weir_fault fault;
    assert_int_equal(keep(41, TEXT, &fault), 0);
    size_t whole_size = read_all(store_path, whole, sizeof whole);
    for (size_t size = 0; size < whole_size; size++) {
        write_whole(store_path, whole, size);
        assert_int_equal(read_error(&fault), WEIR_ECORRUPT);
        assert_non_null(strstr(fault.text, "damaged or cut off"));
    }
    whole[whole_size] = 'x'; /* nor may anything follow */
    write_whole(store_path, whole, whole_size + 1);
    assert_int_equal(read_error(&fault), WEIR_ECORRUPT);
    assert_int_equal(keep(42, TEXT, &fault), 0); /* weir's own, damaged: replaced */
    expect(42, TEXT);
}

static void a_file_changed_at_any_byte_is_not_used(void **state)
{
    (void)state;
    static char whole[1024];
    struct weir_fault fault;
    assert_int_equal(keep(41, TEXT, &fault), 0);
    size_t size = read_all(store_path, whole, sizeof whole);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            char was = whole[i];
            whole[i] = (char)(was ^ (1 << bit));
            write_whole(store_path, whole, size);
            int error = read_error(&fault);
            assert_true(error == WEIR_ECORRUPT || (i < 16 && error == WEIR_EPROTO) ||
                        ((i == 16 || i == 17) && error == WEIR_ERANGE));
            whole[i] = was;
        }
}

static void what_is_somebody_elses_stays(void **state)
{
    (void)state;
    struct weir_fault fault;
    char link[128];
    static const char theirs[] = "their words";
    write_whole(store_path, theirs, sizeof theirs);
    assert_int_equal(read_error(&fault), WEIR_EPROTO);
    assert_int_equal(keep(1, TEXT, &fault), WEIR_EPROTO);
    char now[64];
    assert_int_equal(read_all(store_path, now, sizeof now), sizeof theirs);
    assert_string_equal(now, theirs);
    (void)snprintf(link, sizeof link, "%s.link", store_path);
    assert_int_equal(unlink(store_path), 0);
    assert_int_equal(keep(1, TEXT, &fault), 0);
    assert_int_equal(rename(store_path, link), 0); /* a whole one, but by way of somebody's link */
    assert_int_equal(symlink(link, store_path), 0);
    assert_int_equal(read_error(&fault), WEIR_EPROTO);
    assert_int_equal(keep(1, TEXT, &fault), WEIR_EPROTO);
    assert_int_equal(unlink(store_path), 0);
    assert_int_equal(mkfifo(store_path, 0600), 0); /* is not waited for */
    assert_int_equal(read_error(&fault), WEIR_EPROTO);
    assert_int_equal(keep(1, TEXT, &fault), WEIR_EPROTO);
    assert_int_equal(unlink(store_path), 0);
    assert_int_equal(mkdir(store_path, 0700), 0);
    assert_int_equal(read_error(&fault), WEIR_EPROTO);
    assert_int_equal(keep(1, TEXT, &fault), WEIR_EPROTO);
}

static void what_a_later_weir_wrote_stays(void **state)
{
    (void)state;
    struct weir_fault fault;
    static const char later[] = "weir-rules-kept 2 something else\n";
    write_whole(store_path, later, sizeof later - 1);
    assert_int_equal(read_error(&fault), WEIR_ERANGE);
    assert_int_equal(keep(1, TEXT, &fault), WEIR_ERANGE);
}

static void what_cannot_be_kept_is_told(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_rule_head head = head_with(1, TEXT);
    struct weir_slice text = { TEXT, sizeof TEXT - 1 };
    assert_int_equal(weir_rule_kept_write("", &head, text, &fault), WEIR_ERANGE);
    assert_int_equal(weir_rule_kept_write("/nowhere/at/all", &head, text, &fault), WEIR_EIO);
    assert_non_null(strstr(fault.text, "cannot make /nowhere/at/all.new"));
    head.checksum[0] ^= 1;
    assert_int_equal(weir_rule_kept_write(store_path, &head, text, &fault), WEIR_EINVAL);
    head.number = 0;
    assert_int_equal(weir_rule_kept_write(store_path, &head, text, &fault), WEIR_ERANGE);
    text.size = 0;
    head.number = 1;
    assert_int_equal(weir_rule_kept_write(store_path, &head, text, &fault), WEIR_ERANGE);
    assert_int_equal(keep(5, TEXT, &fault), 0);
    (void)snprintf(beside, sizeof beside, "%s.new", store_path);
    assert_int_equal(mkdir(beside, 0700), 0); /* nothing can be written there */
    assert_int_equal(keep(6, TEXT, &fault), WEIR_EIO);
    expect(5, TEXT);
    assert_int_equal(rmdir(beside), 0);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = (struct rlimit){ .rlim_cur = 16, .rlim_max = before.rlim_max };
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    int error = keep(6, TEXT, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(error, WEIR_EIO);
    assert_int_equal(access(beside, F_OK), -1); /* what was written of it takes no room */
    expect(5, TEXT);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_store_folder, remove_store_folder)
    const struct CMUnitTest tests[] = {
        T(what_was_kept_comes_back),
        T(a_file_cut_at_any_byte_is_not_used),
        T(a_file_changed_at_any_byte_is_not_used),
        T(what_is_somebody_elses_stays),
        T(what_a_later_weir_wrote_stays),
        T(what_cannot_be_kept_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
