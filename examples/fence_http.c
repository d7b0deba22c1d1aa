/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP service that only the newest holder of a lock can write to: one value in memory, its marks in a file.
 *
 *     cc fence_http.c -lweir -o fence_http && ./fence_http 127.0.0.1 8090 /var/lib/fence_http/marks
 *     PUT /install   Weir-Fence: 1763769600.7      fences older holders; before the first read
 *     GET /value
 *     PUT /value     Weir-Fence: 1763769600.7      412 fenced, 428 no token or not installed
 *     GET /check     Weir-Fence: 1763769600.7      204 if it is the mark now: for nginx (docs/fencing-http.md)
 *
 * The part to take over is `fence_of` and `value_put`: read the header, and do the write inside of weir_fence_write.
 * The HTTP around it is small on purpose: one request a connection, no chunked bodies. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "weir/fence.h"

#define LOCK "value"
#define REQUEST_MAX 65536

struct service {
    struct weir_fence *fence;
    char value[REQUEST_MAX];
    size_t size;
};

struct request {
    char text[REQUEST_MAX + 1];
    size_t size;
    const char *body;
    size_t body_size;
    int measured; /* it says how long its body is */
    struct service *service;
};

/* The header's value; its size in *ret_size. NULL: there is none, or more than one, which is as bad. */
static const char *header(const struct request *request, const char *name, size_t *ret_size)
{
    const char *found = NULL;
    size_t length = strlen(name);
    for (const char *line = strstr(request->text, "\r\n"); line && line + 2 < request->body;
         line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;
        if (strncasecmp(at, name, length) != 0 || at[length] != ':')
            continue;
        if (found)
            return NULL;
        at += length + 1;
        at += strspn(at, " \t");
        found = at;
        *ret_size = strcspn(at, "\r\n");
    }
    return found;
}

/* One Content-Length, digits only: a body that is chunked or of two lengths is not guessed at. */
static int length_of(const struct request *request, size_t *ret_length)
{
    size_t size = 0, other = 0, length = 0;
    const char *text = header(request, "Content-Length", &size);
    if (!text || size == 0 || size > 9 || header(request, "Transfer-Encoding", &other))
        return -1;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        length = length * 10 + (size_t)(text[i] - '0');
    }
    *ret_length = length;
    return 0;
}

static int fence_of(const struct request *request, struct weir_token *ret_token)
{
    size_t size = 0;
    const char *text = header(request, "Weir-Fence", &size);
    return text ? weir_token_parse(text, size, ret_token) : WEIR_EPROTO;
}

static int nothing(void *context)
{
    (void)context;
    return 0;
}

/* Runs under the mark: whatever changes the resource belongs in here. */
static int value_put(void *context)
{
    struct request *request = context;
    memcpy(request->service->value, request->body, request->body_size);
    request->service->size = request->body_size;
    return 0;
}

static int guarded(struct request *request)
{
    struct weir_fence *fence = request->service->fence;
    struct weir_token token;
    int error = fence_of(request, &token);
    if (error)
        return error;
    if (strncmp(request->text, "PUT /install ", 13) == 0)
        return weir_fence_install(fence, LOCK, strlen(LOCK), token);
    if (strncmp(request->text, "PUT /value ", 11) == 0 && !request->measured)
        return WEIR_EINVAL;
    if (strncmp(request->text, "PUT /value ", 11) == 0)
        return weir_fence_write(fence, LOCK, strlen(LOCK), token, value_put, request);
    if (strncmp(request->text, "GET /check ", 11) == 0)
        return weir_fence_write(fence, LOCK, strlen(LOCK), token, nothing, NULL);
    return WEIR_ENOENT;
}

static const char *status_of(int error)
{
    switch (error) {
    case 0:
        return "204 No Content";
    case WEIR_EFENCED:
        return "412 Precondition Failed";
    case WEIR_EPROTO:
    case WEIR_ENOTINSTALLED:
        return "428 Precondition Required";
    case WEIR_EINVAL:
        return "411 Length Required";
    case WEIR_ENOENT:
        return "404 Not Found";
    default:
        return "503 Service Unavailable";
    }
}

static void answer(int client, struct request *request)
{
    char head[256], mark[WEIR_TOKEN_TEXT_SIZE] = "";
    struct service *service = request->service;
    if (strncmp(request->text, "GET /value ", 11) == 0) {
        int size = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                            service->size);
        if (write(client, head, (size_t)size) == size && write(client, service->value, service->size) < 0)
            perror("fence_http");
        return;
    }
    int error = guarded(request);
    /* The mark lets a fenced client tell the lock service of an incarnation that it may not know. */
    if (weir_token_format(weir_fence_mark(service->fence, LOCK, strlen(LOCK)), mark) != 0)
        (void)snprintf(mark, sizeof(mark), "none");
    int size = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nWeir-Fence-Mark: %s\r\n%sConnection: close\r\n\r\n",
                        status_of(error), mark, error ? "Content-Length: 0\r\n" : "");
    if (write(client, head, (size_t)size) < 0)
        perror("fence_http");
}

/* 0: a whole request is in request->text, its body where the head ends. */
static int request_read(int client, struct request *request)
{
    for (;;) {
        ssize_t got = read(client, request->text + request->size, REQUEST_MAX - request->size);
        if (got <= 0)
            return -1;
        request->size += (size_t)got;
        request->text[request->size] = '\0';
        const char *end = strstr(request->text, "\r\n\r\n");
        if (!end)
            continue;
        request->body = end + 4;
        request->body_size = 0;
        request->measured = length_of(request, &request->body_size) == 0;
        if (request->body_size > REQUEST_MAX)
            return -1;
        if (request->text + request->size >= request->body + request->body_size)
            return 0;
    }
}

static int listen_at(const char *host, const char *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
    const int on = 1;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (server < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(server, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(server, 16) != 0)
        return -1;
    return server;
}

int main(int argc, char **argv)
{
    static struct service service;
    static struct request request;
    struct weir_fault fault;
    if (argc != 4) {
        fprintf(stderr, "usage: fence_http HOST PORT FILE\n");
        return 2;
    }
    if (weir_fence_open(&(struct weir_fence_options){ .path = argv[3] }, &service.fence, &fault) != 0) {
        fprintf(stderr, "fence_http: %s: %s\n", argv[3], fault.text);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a client that has gone is no end */
    int server = listen_at(argv[1], argv[2]);
    if (server < 0) {
        perror("fence_http");
        return 2;
    }
    for (int client; (client = accept(server, NULL, NULL)) >= 0; close(client)) {
        request.size = 0;
        request.service = &service;
        if (request_read(client, &request) == 0)
            answer(client, &request);
    }
    return 1;
}
