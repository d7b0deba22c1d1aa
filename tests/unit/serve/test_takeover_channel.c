/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes between two weirs arrives whole, with its descriptors; the end of one is heard after all that it had said;
 * and what nobody says leaves no descriptor behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/takeover_channel.h"

static struct weir_takeover_message message;

static void make_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
}

/* The lowest that is free: after all that was opened is closed it is the same again. */
static int next_descriptor(void)
{
    int fd = dup(0);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void test_messages_arrive_as_they_were_sent(void **state)
{
    static uint8_t body[WEIR_TAKEOVER_BODY_MAX];
    const size_t sizes[] = { 0, 1, 4096, sizeof(body) - 1, sizeof(body) };
    int fds[2], sent[WEIR_TAKEOVER_FDS_MAX];
    (void)state;
    make_pair(fds);
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < WEIR_TAKEOVER_FDS_MAX; i++)
        sent[i] = i % 2 ? fds[0] : fds[1];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t count = i * (WEIR_TAKEOVER_FDS_MAX / 4);
        assert_int_equal(weir_takeover_send(fds[0], WEIR_TAKEOVER_BYTES, body, sizes[i], sent, count), 0);
        assert_int_equal(weir_takeover_receive(fds[1], 0, &message), 0);
        assert_int_equal(message.kind, WEIR_TAKEOVER_BYTES);
        assert_int_equal(message.size, sizes[i]);
        assert_memory_equal(message.body, body, sizes[i]);
        assert_int_equal(message.fds_count, count);
        for (size_t k = 0; k < count; k++) {
            struct stat one, other;
            assert_int_equal(fstat(message.fds[k], &one), 0);
            assert_int_equal(fstat(sent[k], &other), 0);
            assert_int_equal(one.st_ino, other.st_ino);
        }
        weir_takeover_drop(&message);
    }
    assert_int_equal(weir_takeover_receive(fds[1], 1, &message), WEIR_EAGAIN);
    close(fds[0]);
    close(fds[1]);
}

/* Also where the one that has ended had not read what it was told, which resets the other's end. Whatever that one does
 * first, to say more or to listen, is told of the reset. */
static void test_the_end_comes_after_the_words(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        const bool unread = way % 2, listens = way / 2;
        int fds[2];
        make_pair(fds);
        for (int i = 0; unread && i < 3; i++)
            assert_int_equal(weir_takeover_send(fds[1], WEIR_TAKEOVER_GO, NULL, 0, NULL, 0), 0);
        assert_int_equal(weir_takeover_send(fds[0], WEIR_TAKEOVER_TAKEN, NULL, 0, NULL, 0), 0);
        assert_int_equal(weir_takeover_send(fds[0], WEIR_TAKEOVER_DECIDING, NULL, 0, NULL, 0), 0);
        close(fds[0]);
        if (!listens)
            assert_int_equal(weir_takeover_send(fds[1], WEIR_TAKEOVER_GO, NULL, 0, NULL, 0), WEIR_EIO);
        assert_int_equal(weir_takeover_receive(fds[1], 0, &message), 0);
        assert_int_equal(message.kind, WEIR_TAKEOVER_TAKEN);
        assert_int_equal(weir_takeover_receive(fds[1], 0, &message), 0);
        assert_int_equal(message.kind, WEIR_TAKEOVER_DECIDING);
        for (int i = 0; i < 3; i++)
            assert_int_equal(weir_takeover_receive(fds[1], 1000, &message), WEIR_EIO);
        close(fds[1]);
    }
}

static void send_raw(int fd, const void *data, size_t size, int rights)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .room = { 0 } };
    struct iovec part = { (void *)(uintptr_t)data, size };
    struct msghdr raw = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&raw);
    *header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
    memcpy(CMSG_DATA(header), &rights, sizeof(rights));
    assert_int_equal(sendmsg(fd, &raw, 0), (ssize_t)size);
}

/* Each with a descriptor that must not stay. Of the last all is right. */
static void test_what_nobody_says(void **state)
{
    static uint8_t bytes[WEIR_TAKEOVER_BODY_MAX + 64];
    const struct {
        uint32_t magic;
        uint16_t kind, fds_count;
        uint32_t size;
        size_t sent;
    } rows[] = {
        { 0x57544f30, WEIR_TAKEOVER_BYTES, 1, 4, 20 },        { 0x57544f31, 0, 1, 4, 20 },
        { 0x57544f31, WEIR_TAKEOVER_KINDS, 1, 4, 20 },        { 0x57544f31, WEIR_TAKEOVER_BYTES, 0, 4, 20 },
        { 0x57544f31, WEIR_TAKEOVER_BYTES, 2, 4, 20 },        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 5, 20 },
        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 3, 20 },        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, UINT32_MAX, 20 },
        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 4, 15 },        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 4, 1 },
        { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 40000, 32784 }, { 0x57544f31, WEIR_TAKEOVER_BYTES, 1, 4, 20 },
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    int fds[2];
    (void)state;
    make_pair(fds);
    const int before = next_descriptor();
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes, &rows[i].magic, 4);
        memcpy(bytes + 4, &rows[i].kind, 2);
        memcpy(bytes + 6, &rows[i].fds_count, 2);
        memcpy(bytes + 8, &rows[i].size, 4);
        send_raw(fds[0], bytes, rows[i].sent, fds[0]);
        assert_int_equal(weir_takeover_receive(fds[1], 0, &message), i + 1 < count ? WEIR_EPROTO : 0);
        assert_int_equal(message.fds_count, i + 1 < count ? 0 : 1);
        weir_takeover_drop(&message);
        assert_int_equal(next_descriptor(), before);
    }
    close(fds[0]);
    close(fds[1]);
}

static void test_the_place(void **state)
{
    char folder[] = "/tmp/weir-unit-XXXXXX", path[64], far[200];
    struct weir_fault fault = { 0 };
    struct stat file;
    int fd = -1, again = -1, client = -1;
    int32_t pid = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/takeover", folder);
    assert_int_equal(weir_takeover_connect(path, &client, &fault), WEIR_ENOENT);
    assert_int_equal(weir_takeover_listen(path, &fd, &fault), 0);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(weir_takeover_listen(path, &again, &fault), WEIR_EEXIST);
    assert_int_equal(weir_takeover_connect(path, &client, &fault), 0);
    assert_true(weir_takeover_is_own(client, &pid));
    assert_int_equal(pid, getpid());
    close(client);
    close(fd); /* as a process that was killed: the file stays */
    assert_int_equal(weir_takeover_connect(path, &client, &fault), WEIR_ENOENT);
    assert_int_equal(weir_takeover_listen(path, &fd, &fault), 0);
    close(fd);
    assert_int_equal(unlink(path), 0);
    FILE *other = fopen(path, "w");
    assert_non_null(other);
    (void)fclose(other);
    assert_int_equal(weir_takeover_listen(path, &fd, &fault), WEIR_EIO);
    assert_non_null(strstr(fault.text, "is no socket"));
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(unlink(path), 0);
    memset(far, 'x', sizeof(far) - 1);
    far[0] = '/';
    far[sizeof(far) - 1] = '\0';
    assert_int_equal(weir_takeover_listen(far, &fd, &fault), WEIR_ERANGE);
    assert_int_equal(weir_takeover_connect("", &fd, &fault), WEIR_ERANGE);
    assert_int_equal(rmdir(folder), 0);
}

/* What another user would do: 0 if its connection is no own one here, and if what it listens at is not taken over. */
static int stranger(const char *path, int ready)
{
    struct weir_fault fault = { 0 };
    int fd = -1;
    if (setgid(65534) || setuid(65534) || weir_takeover_connect(path, &fd, &fault)) /* root's is taken over by all */
        return 1;
    close(fd);
    if (unlink(path) || weir_takeover_listen(path, &fd, &fault) || write(ready, "!", 1) != 1)
        return 2;
    return read(ready, &(char){ 0 }, 1) == 0 ? 0 : 3; /* until the other end is closed */
}

static void test_another_user(void **state)
{
    char folder[] = "/tmp/weir-unit-XXXXXX", path[64], byte;
    struct weir_fault fault = { 0 };
    int listen_fd = -1, client = -1, pair[2], status = -1;
    int32_t pid = 0;
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can be two */
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    (void)snprintf(path, sizeof(path), "%s/takeover", folder);
    assert_int_equal(weir_takeover_listen(path, &listen_fd, &fault), 0);
    assert_int_equal(chmod(path, 0666), 0);
    make_pair(pair);
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        _exit(stranger(path, pair[1]));
    }
    close(pair[1]);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    int taken = accept(listen_fd, NULL, NULL);
    assert_true(taken >= 0);
    assert_false(weir_takeover_is_own(taken, &pid));
    assert_int_equal(pid, child);
    assert_int_equal(weir_takeover_connect(path, &client, &fault), WEIR_EHELD);
    assert_non_null(strstr(fault.text, "is another user's"));
    close(pair[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(taken);
    close(listen_fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_arrive_as_they_were_sent),
        cmocka_unit_test(test_the_end_comes_after_the_words),
        cmocka_unit_test(test_what_nobody_says),
        cmocka_unit_test(test_the_place),
        cmocka_unit_test(test_another_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
