/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service manager says, read from its variables: each that is wrong is named, and what is meant for another
 * process is left alone. What is told: to a path, and to a name of the abstract space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/systemd.h"

static const char *const listeners[] = { "resp", "http", NULL };

static void refuses_sockets(struct weir_systemd_environment environment, const char *field, const char *says)
{
    struct weir_systemd systemd;
    struct weir_fault fault = { 0 };
    weir_systemd_init(&systemd);
    assert_int_not_equal(weir_systemd_take(&systemd, &environment, 7, listeners, &fault), 0);
    assert_string_equal(fault.field, field);
    if (!strstr(fault.text, says))
        fail_msg("'%s' is not in '%s'", says, fault.text);
    assert_int_equal(systemd.sockets_count, 0);
}

static void takes_none(struct weir_systemd_environment environment)
{
    struct weir_systemd systemd;
    struct weir_fault fault;
    weir_systemd_init(&systemd);
    assert_int_equal(weir_systemd_take(&systemd, &environment, 7, listeners, &fault), 0);
    assert_int_equal(systemd.sockets_count, 0);
}

static void test_sockets(void **state)
{
    (void)state;
    takes_none((struct weir_systemd_environment){ 0 });
    takes_none((struct weir_systemd_environment){ .listen_fds = "1" });
    takes_none((struct weir_systemd_environment){ .listen_fds = "1", .listen_pid = "8" });
    takes_none((struct weir_systemd_environment){ .listen_fds = "x", .listen_pid = "8" });
    takes_none((struct weir_systemd_environment){ .listen_fds = "0", .listen_pid = "7" });
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "1", .listen_pid = "7 " }, "LISTEN_PID", "'7 '");
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "", .listen_pid = "7" }, "LISTEN_FDS", "''");
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "18446744073709551616", .listen_pid = "7" },
                    "LISTEN_FDS", "no number");
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "18446744073709551615", .listen_pid = "7" },
                    "LISTEN_FDS", "at most 4");
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "1", .listen_pid = "7" }, "LISTEN_FDNAMES", "''");
    refuses_sockets(
        (struct weir_systemd_environment){ .listen_fds = "1", .listen_pid = "7", .listen_fdnames = "httpd" },
        "LISTEN_FDNAMES", "did you mean 'http'");
    refuses_sockets((struct weir_systemd_environment){ .listen_fds = "1", .listen_pid = "7", .listen_fdnames = "ht" },
                    "LISTEN_FDNAMES", "must be resp or http");
}

/* A listener that is told `lines`, by the name that NOTIFY_SOCKET has. */
static void hears(const char *name, const struct sockaddr_un *place, socklen_t size)
{
    const struct weir_systemd_environment environment = { .notify_socket = name, .watchdog_usec = "3000000" };
    struct weir_systemd systemd;
    struct weir_fault fault = { 0 };
    char heard[64] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)place, size), 0);
    weir_systemd_init(&systemd);
    assert_int_equal(weir_systemd_tell(&systemd, "READY=1"), 0);
    assert_int_equal(weir_systemd_connect(&systemd, &environment, getpid(), &fault), 0);
    assert_int_equal(systemd.watchdog_ns, 3000000000);
    assert_int_equal(weir_systemd_tell(&systemd, "READY=1\nSTATUS=x"), 0);
    assert_int_equal(recv(fd, heard, sizeof(heard) - 1, 0), 16);
    assert_string_equal(heard, "READY=1\nSTATUS=x");
    close(fd);
    assert_int_equal(weir_systemd_tell(&systemd, "WATCHDOG=1"), WEIR_EIO);
    /* another one that listens there */
    unlink(name);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)place, size), 0);
    assert_int_equal(weir_systemd_tell(&systemd, "WATCHDOG=1"), 0);
    assert_int_equal(recv(fd, heard, sizeof(heard) - 1, 0), 10);
    close(fd);
    weir_systemd_deinit(&systemd);
    assert_int_equal(weir_systemd_tell(&systemd, "WATCHDOG=1"), 0);
}

static void test_tells(void **state)
{
    (void)state;
    struct sockaddr_un place = { .sun_family = AF_UNIX };
    char name[sizeof(place.sun_path) + 2];
    (void)snprintf(place.sun_path, sizeof(place.sun_path), "/tmp/weir-notify-%d", (int)getpid());
    strcpy(name, place.sun_path);
    hears(name, &place, sizeof(place));
    unlink(name);
    place.sun_path[0] = '\0';
    name[0] = '@';
    hears(name, &place, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
    /* the longest that there can be, which has no NUL behind it */
    memset(place.sun_path + 1, 'x', sizeof(place.sun_path) - 2);
    memset(name + 1, 'x', sizeof(place.sun_path) - 2);
    name[sizeof(place.sun_path) - 1] = '\0';
    hears(name, &place, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static void refuses_notify(struct weir_systemd_environment environment, const char *field, const char *says)
{
    struct weir_systemd systemd;
    struct weir_fault fault = { 0 };
    weir_systemd_init(&systemd);
    assert_int_not_equal(weir_systemd_connect(&systemd, &environment, 7, &fault), 0);
    assert_string_equal(fault.field, field);
    if (!strstr(fault.text, says))
        fail_msg("'%s' is not in '%s'", says, fault.text);
    assert_int_equal(systemd.notify_fd, -1);
    assert_int_equal(systemd.watchdog_ns, 0);
}

static void test_nobody_to_tell(void **state)
{
    (void)state;
    char longest[110] = "/";
    memset(longest + 1, 'x', sizeof(longest) - 2);
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "" }, "NOTIFY_SOCKET", "''");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "@" }, "NOTIFY_SOCKET", "'@'");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "notify" }, "NOTIFY_SOCKET", "must be /path");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = longest }, "NOTIFY_SOCKET", "109 bytes");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "/nowhere/x" }, "NOTIFY_SOCKET", "No such file");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "/nowhere/x", .watchdog_usec = "99999" },
                   "WATCHDOG_USEC", "must be 100000 to");
    refuses_notify((struct weir_systemd_environment){ .notify_socket = "/nowhere/x", .watchdog_usec = "86400000001" },
                   "WATCHDOG_USEC", "must be 100000 to");
    refuses_notify(
        (struct weir_systemd_environment){ .notify_socket = "/nowhere/x", .watchdog_usec = "1", .watchdog_pid = "-7" },
        "WATCHDOG_PID", "no number");
    /* of another's watchdog nothing is read */
    refuses_notify(
        (struct weir_systemd_environment){ .notify_socket = "/nowhere/x", .watchdog_usec = "1", .watchdog_pid = "8" },
        "NOTIFY_SOCKET", "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_tells),
        cmocka_unit_test(test_nobody_to_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
