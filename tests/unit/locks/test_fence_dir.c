/* SPDX-License-Identifier: Apache-2.0
 *
 * A fenced value in a folder, under threads that install, read and write as fast as they can: the live test has
 * processes that are stopped, this one has the races. */
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>

#include "fence_fixture.h"
#include "locks/fence_dir.h"

#define HOLDERS 3
#define TURNS 300

struct holder {
    int id;
    bool failed;
    int acknowledged, unknown, refused;
};

static int value_read(uint64_t *ret_value)
{
    struct weir_token token;
    char text[32] = "";
    int file = -1;
    int error = weir_fence_dir_read(folder, &file, &token);
    if (!error && file >= 0) {
        ssize_t got = read(file, text, sizeof(text) - 1);
        error = got < 0 ? WEIR_EIO : 0;
        close(file);
    }
    *ret_value = strtoull(text, NULL, 10);
    return error;
}

static int value_write(struct weir_token token, uint64_t value)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    int file = memfd_create("value", MFD_CLOEXEC);
    if (file < 0 || pwrite(file, text, (size_t)size, 0) != size)
        return WEIR_EIO;
    int error = weir_fence_dir_write(folder, token, file, NULL);
    close(file);
    return error;
}

static void *hold(void *context)
{
    struct holder *holder = context;
    for (int turn = 0; turn < TURNS && !holder->failed; turn++) {
        struct weir_token token = { 7, (uint64_t)(turn * HOLDERS + holder->id + 1) };
        uint64_t value;
        int error = weir_fence_dir_install(folder, token, NULL);
        for (int i = 0; i < 3 && !error; i++) {
            error = value_read(&value);
            if (!error)
                error = value_write(token, value + 1);
            holder->acknowledged += error == 0;
        }
        holder->unknown += error == WEIR_EUNKNOWN;
        holder->refused += error == WEIR_EFENCED;
        /* Between its mark and its value another's install makes a reader wait, at most as long as that takes. */
        holder->failed = error && error != WEIR_EUNKNOWN && error != WEIR_EFENCED && error != WEIR_EBUSY;
    }
    return NULL;
}

static void folder_empty(void)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *found; dir && (found = readdir(dir)) != NULL;)
        (void)unlinkat(dirfd(dir), found->d_name, 0);
    closedir(dir);
}

static void fence_dir__no_acknowledged_update_is_lost(void **state)
{
    (void)state;
    struct holder holders[HOLDERS];
    pthread_t threads[HOLDERS];
    uint64_t value = 0, acknowledged = 0, unknown = 0, refused = 0;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = (struct holder){ .id = i };
        assert_int_equal(pthread_create(&threads[i], NULL, hold, &holders[i]), 0);
    }
    for (int i = 0; i < HOLDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(holders[i].failed);
        acknowledged += (uint64_t)holders[i].acknowledged;
        unknown += (uint64_t)holders[i].unknown;
        refused += (uint64_t)holders[i].refused;
    }
    assert_int_equal(weir_fence_dir_install(folder, (struct weir_token){ 8, 1 }, NULL), 0);
    assert_int_equal(value_read(&value), 0);
    print_message("acknowledged %llu, unknown %llu, refused %llu, value %llu\n", (unsigned long long)acknowledged,
                  (unsigned long long)unknown, (unsigned long long)refused, (unsigned long long)value);
    assert_in_range(value, acknowledged, acknowledged + unknown);
    assert_true(acknowledged > 0);
    folder_empty();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fence_dir__no_acknowledged_update_is_lost, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
