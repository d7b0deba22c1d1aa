/* SPDX-License-Identifier: Apache-2.0
 *
 * A fenced value in a folder whose listing fails halfway: no mark goes while an older one stays. Who holds the older
 * one would take itself for the newest (fence_dir.h). And marks in a log that cannot be synced. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "fence_fixture.h"
#include "locks/fence_dir.h"

#define NAMES_MAX 32

/* ---- a folder that is listed from its last name to its first, and breaks off ---- */

struct dirent *__wrap_readdir64(DIR *dir);
struct dirent *__real_readdir64(DIR *dir);

static struct dirent names[NAMES_MAX];
static size_t names_left;
static const DIR *listed;
static long calls_left = -1; /* until a listing fails; below 0: none does */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dirent *)a)->d_name, ((const struct dirent *)b)->d_name);
}

struct dirent *__wrap_readdir64(DIR *dir)
{
    if (calls_left >= 0 && calls_left-- == 0) {
        listed = NULL;
        errno = EIO;
        return NULL;
    }
    if (listed != dir) {
        listed = dir;
        names_left = 0;
        for (const struct dirent *found; (found = __real_readdir64(dir)) != NULL;) {
            assert_true(names_left < NAMES_MAX);
            names[names_left++] = *found;
        }
        qsort(names, names_left, sizeof names[0], by_name);
    }
    if (names_left > 0)
        return &names[--names_left];
    listed = NULL;
    return NULL;
}

static void mark_name(uint64_t number, char *ret_path)
{
    (void)snprintf(ret_path, 512, "%s/%019d.%019llu.mark", folder, 7, (unsigned long long)number);
}

static bool has_mark(uint64_t number)
{
    char mark[512];
    mark_name(number, mark);
    return access(mark, F_OK) == 0;
}

static int folder_empty(void **state)
{
    (void)state;
    DIR *dir = opendir(folder);
    if (!dir)
        return -1;
    for (const struct dirent *found; (found = readdir(dir)) != NULL;)
        (void)unlinkat(dirfd(dir), found->d_name, 0);
    return closedir(dir);
}

static int folder_end(void **state)
{
    return folder_empty(state) == 0 ? rmdir(folder) : -1;
}

/* Both marks are there: who installed the second had no time to remove the first. */
static void two_marks(void)
{
    char mark[512];
    assert_int_equal(folder_empty(NULL), 0);
    for (uint64_t number = 1; number <= 2; number++)
        assert_int_equal(weir_fence_dir_install(folder, (struct weir_token){ 7, number }, NULL), 0);
    mark_name(1, mark);
    int file = open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    assert_true(file >= 0);
    close(file);
}

static void fence_dir__no_mark_goes_while_an_older_one_stays(void **state)
{
    (void)state;
    unsigned installed = 0;
    for (long calls = 0; calls < 60; calls++) {
        two_marks();
        calls_left = calls;
        int error = weir_fence_dir_install(folder, (struct weir_token){ 7, 3 }, NULL);
        calls_left = -1;
        assert_true(error == 0 || error == WEIR_EIO);
        assert_true(!has_mark(1) || has_mark(2));
        installed += error == 0;
    }
    assert_true(installed > 0 && installed < 60);             /* it failed at the look, and behind it */
    assert_true(has_mark(3) && !has_mark(2) && !has_mark(1)); /* the last listing was whole */
}

/* ---- a log whose sync fails, once ---- */

int __wrap_fdatasync(int file);
int __real_fdatasync(int file);

static bool sync_fails;

int __wrap_fdatasync(int file)
{
    if (!sync_fails)
        return __real_fdatasync(file);
    sync_fails = false;
    errno = EIO;
    return -1;
}

/* The kernel says it once, and drops what it could not write: what comes behind that is on no disk either. */
static void fence__after_a_sync_that_failed_nothing_is_acknowledged(void **state)
{
    (void)state;
    assert_int_equal(folder_empty(NULL), 0);
    struct weir_fence *fence = fence_open(path);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    sync_fails = true;
    assert_int_equal(install(fence, "l", 7, 2), WEIR_EIO);
    assert_false(sync_fails);
    assert_int_equal(install(fence, "l", 7, 3), WEIR_EIO);
    assert_int_equal(install(fence, "m", 7, 1), WEIR_EIO);
    assert_int_equal(try_write(fence, "l", 7, 3), WEIR_ENOTINSTALLED);
    weir_fence_close(fence);
    fence = fence_open(path);
    assert_true(number_of(fence, "l") <= 2);
    assert_int_equal(install(fence, "l", 7, 3), 0);
    weir_fence_close(fence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence_dir__no_mark_goes_while_an_older_one_stays),
        cmocka_unit_test(fence__after_a_sync_that_failed_nothing_is_acknowledged),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_end);
}
