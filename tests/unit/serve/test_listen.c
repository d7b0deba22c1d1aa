/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening: one address for several loops, never for two servers; left-over Unix sockets are replaced, others kept. */
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

#include "serve/listen.h"

#define LOOPS 3

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weir-listen-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct weir_address parse(const char *text)
{
    struct weir_address address;
    struct weir_fault fault;
    assert_int_equal(weir_address_parse(text, &address, &fault), 0);
    return address;
}

static void finish(const struct weir_address *address, struct weir_listening *listening, const int *fds, size_t count)
{
    weir_listen_remove(address, listening);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/* Listens, says where, and that nobody else can listen there. */
static void only_one(const char *text)
{
    int fds[LOOPS];
    int others[LOOPS];
    struct weir_listening listening;
    struct weir_listening again;
    struct weir_fault fault;
    struct weir_address address = parse(text);
    assert_int_equal(weir_listen_open(&address, LOOPS, fds, &listening, &fault), 0);

    struct weir_address same = parse(listening.name);
    assert_int_equal(weir_listen_open(&same, LOOPS, others, &again, &fault), WEIR_EEXIST);
    assert_non_null(strstr(fault.text, listening.name));
    assert_non_null(strstr(fault.text, "in use"));
    finish(&address, &listening, fds, LOOPS);

    assert_int_equal(weir_listen_open(&same, LOOPS, others, &again, &fault), 0);
    assert_string_equal(listening.name, again.name);
    finish(&same, &again, others, LOOPS);
}

static void tcp(void **state)
{
    (void)state;
    only_one("127.0.0.1:0");
}

static void unix_socket(void **state)
{
    (void)state;
    char text[128];
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    only_one(text);
    assert_int_equal(access(text + 5, F_OK), -1);
}

static void left_over_socket(void **state)
{
    (void)state;
    int fd;
    struct weir_listening listening;
    char text[128];
    struct weir_fault fault;
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    struct weir_address address = parse(text);
    assert_int_equal(weir_listen_open(&address, 1, &fd, &listening, &fault), 0);
    close(fd); /* as a killed server leaves it */
    assert_int_equal(access(address.path, F_OK), 0);
    assert_int_equal(weir_listen_open(&address, 1, &fd, &listening, &fault), 0);
    finish(&address, &listening, &fd, 1);
}

static void no_socket_is_kept(void **state)
{
    (void)state;
    int fd;
    struct weir_listening listening;
    char text[128];
    struct weir_fault fault;
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    struct weir_address address = parse(text);
    FILE *file = fopen(address.path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(weir_listen_open(&address, 1, &fd, &listening, &fault), WEIR_EEXIST);
    assert_int_equal(unlink(address.path), 0);
}

static void a_successors_socket_stays(void **state)
{
    (void)state;
    int first, second;
    struct weir_listening old, new;
    char text[128];
    struct weir_fault fault;
    snprintf(text, sizeof(text), "unix:%s/s", folder);
    struct weir_address address = parse(text);
    assert_int_equal(weir_listen_open(&address, 1, &first, &old, &fault), 0);
    close(first);
    usleep(50000); /* more than a tick of a file system's clock */
    assert_int_equal(weir_listen_open(&address, 1, &second, &new, &fault), 0);
    weir_listen_remove(&address, &old);
    assert_int_equal(access(address.path, F_OK), 0);
    finish(&address, &new, &second, 1);
    assert_int_equal(access(address.path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp),
        cmocka_unit_test_setup_teardown(unix_socket, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(left_over_socket, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_successors_socket_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(no_socket_is_kept, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
