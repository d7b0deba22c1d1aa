/* SPDX-License-Identifier: Apache-2.0
 *
 * weir over RESP on a plain socket: 127.0.0.1:PORT. */
#include "lock_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct lock_client {
    int fd;
    char acquire[160], release[160];
    char answer[512];
};

struct lock_client *lock_client_open(const char *address, unsigned number)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const char *port = strrchr(address, ':');
    to.sin_port = htons((uint16_t)(port ? atoi(port + 1) : 0));
    struct lock_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(client->fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror(address);
        close(client->fd);
        free(client);
        return NULL;
    }
    snprintf(client->acquire, sizeof client->acquire,
             "*4\r\n$9\r\nWEIR.LOCK\r\n$8\r\nbench%03u\r\n$5\r\nowner\r\n$5\r\n15000\r\n", number % 1000);
    snprintf(client->release, sizeof client->release, "*3\r\n$11\r\nWEIR.UNLOCK\r\n$8\r\nbench%03u\r\n$5\r\nowner\r\n",
             number % 1000);
    return client;
}

/* Until `lines` ends of lines have come: the answers here have no bulk strings. */
static bool ask(struct lock_client *client, const char *command, unsigned lines, const char *expected)
{
    size_t size = 0;
    if (send(client->fd, command, strlen(command), MSG_NOSIGNAL) < 0)
        return false;
    for (unsigned seen = 0; seen < lines;) {
        ssize_t got = recv(client->fd, client->answer + size, sizeof client->answer - 1 - size, 0);
        if (got <= 0)
            return false;
        for (ssize_t i = 0; i < got; i++)
            seen += client->answer[size + (size_t)i] == '\n';
        size += (size_t)got;
        if (client->answer[0] == '-')
            break;
    }
    client->answer[size] = '\0';
    bool as_expected = strncmp(client->answer, expected, strlen(expected)) == 0;
    if (!as_expected)
        fprintf(stderr, "unexpected: %s\n", client->answer);
    return as_expected;
}

bool lock_client_acquire(struct lock_client *client)
{
    return ask(client, client->acquire, 5, "*4\r\n:1\r\n"); /* 1 incarnation number lease_ms */
}

bool lock_client_release(struct lock_client *client)
{
    return ask(client, client->release, 1, ":1\r\n");
}

void lock_client_close(struct lock_client *client)
{
    close(client->fd);
    free(client);
}
