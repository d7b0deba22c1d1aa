/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of one call: parse the address, connect, TLS where it is https, send, read the reply until it is whole.
 * Every step waits at most for what is left until the deadline: by a timeout of the socket without TLS, by poll() with
 * TLS. A host's name is looked up in a thread, which is left behind when it is late. Called by check.c, in_force.c and
 * lock_ask.c; `weir lock NAME` asks over RESP (src/client). */
#include "cli/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/checked.h"
#include "client/clock.h"
#include "rules/number.h"
#include "weir/limiter.h"

#define CA_MAX ((size_t)16 << 20) /* the system's authorities are a quarter of a MiB */

struct target {
    bool tls;
    bool local;     /* `host` is the path of a Unix socket */
    char host[256]; /* without brackets */
    char port[16];
};

struct client {
    int fd;
    SSL_CTX *context; /* NULL without TLS */
    SSL *ssl;
    uint64_t deadline_ns; /* monotonic */
    char *problem;
    size_t problem_size;
};

__attribute__((format(printf, 3, 4))) static int fail(struct client *client, int error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(client->problem, client->problem_size, format, list);
    va_end(list);
    return error;
}

static int target_parse(struct client *client, const char *server, struct target *ret_target)
{
    struct target target = { 0 };
    const char *rest = server;
    if (strncmp(rest, "unix:", 5) == 0) {
        target.local = true;
        rest += 5;
        if (!*rest || strlen(rest) >= sizeof(((struct sockaddr_un *)0)->sun_path))
            return fail(client, WEIR_EINVAL, "the path of a Unix socket must be 1 to 107 bytes");
        strcpy(target.host, rest);
        *ret_target = target;
        return 0;
    }
    target.tls = strncmp(rest, "https://", 8) == 0;
    rest += target.tls ? 8 : strncmp(rest, "http://", 7) == 0 ? 7 : 0;
    const char *colon = strrchr(rest, ':');
    size_t size = colon ? (size_t)(colon - rest) : 0;
    bool bracketed = size > 2 && rest[0] == '[' && colon[-1] == ']';
    size -= bracketed ? 2 : 0;
    if (size == 0 || size >= sizeof(target.host) || !colon[1] || strlen(colon + 1) >= sizeof(target.port))
        return fail(client, WEIR_EINVAL, "'%s' must be HOST:PORT, http(s)://HOST:PORT or unix:/path", server);
    memcpy(target.host, rest + (bracketed ? 1 : 0), size);
    strcpy(target.port, colon + 1);
    *ret_target = target;
    return 0;
}

/* What is left until the deadline becomes the timeout of the next system call. */
static int timeout_set(struct client *client)
{
    uint64_t now = weir_time_read().now_ns;
    if (now >= client->deadline_ns)
        return fail(client, WEIR_EIO, "no answer in time");
    uint64_t left_us = (client->deadline_ns - now) / 1000 + 1;
    struct timeval left = { .tv_sec = (time_t)(left_us / 1000000), .tv_usec = (suseconds_t)(left_us % 1000000) };
    if (setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof(left)) != 0 ||
        setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof(left)) != 0)
        return fail(client, WEIR_EIO, "%s", strerror(errno));
    return 0;
}

/* Until `fd` can be read from, or written to. */
static int wait_for(struct client *client, int fd, short events)
{
    struct pollfd watched = { .fd = fd, .events = events };
    int ready = 0;
    while (ready <= 0) {
        uint64_t left_ns = weir_sub_sat(client->deadline_ns, weir_time_read().now_ns);
        if (left_ns == 0)
            return fail(client, WEIR_EIO, "no answer in time");
        ready = poll(&watched, 1, (int)weir_min_u64(weir_div_ceil(left_ns, WEIR_NS_PER_MS), 60000));
        if (ready < 0 && errno != EINTR)
            return fail(client, WEIR_EIO, "%s", strerror(errno));
    }
    return 0;
}

static const char *refused_why(int failure)
{
    if (failure == ECONNREFUSED)
        return "Connection refused: does weir serve run, and is this its --http address?";
    return failure == EINPROGRESS ? "no connection in time" : strerror(failure);
}

static int connect_to(struct client *client, int family, const struct sockaddr *address, socklen_t size)
{
    client->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = client->fd < 0 ? fail(client, WEIR_EIO, "%s", strerror(errno)) : timeout_set(client);
    if (!error && connect(client->fd, address, size) != 0)
        error = fail(client, WEIR_EIO, "%s", refused_why(errno));
    if (error && client->fd >= 0) {
        (void)close(client->fd);
        client->fd = -1;
    }
    return error;
}

struct lookup {
    struct target target;
    pthread_t thread;
    int done[2]; /* a pipe; its second end is closed when the rest is there */
    int failed;
    struct addrinfo *found;
};

static void *look_up(void *context)
{
    struct lookup *lookup = context;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
    lookup->failed = getaddrinfo(lookup->target.host, lookup->target.port, &hints, &lookup->found);
    (void)close(lookup->done[1]);
    return NULL;
}

/* Of a name. The resolver has time limits of its own, far beyond ours, and cannot be told to stop. So
 * it has a thread, which is left behind with what it uses when it is late: the program ends soon after. */
static int name_find(struct client *client, const struct target *target, struct addrinfo **ret_found)
{
    struct lookup *lookup = malloc(sizeof(*lookup));
    if (!lookup)
        return fail(client, WEIR_ENOMEM, "out of memory");
    *lookup = (struct lookup){ .target = *target };
    int failure = pipe2(lookup->done, O_CLOEXEC) ? errno : 0;
    if (!failure && (failure = pthread_create(&lookup->thread, NULL, look_up, lookup)) != 0) {
        (void)close(lookup->done[0]);
        (void)close(lookup->done[1]);
    }
    if (failure) {
        free(lookup);
        return fail(client, WEIR_EIO, "%s", strerror(failure));
    }
    if (wait_for(client, lookup->done[0], POLLIN) != 0) {
        (void)pthread_detach(lookup->thread);
        return fail(client, WEIR_EIO, "its name was not looked up in time");
    }
    (void)pthread_join(lookup->thread, NULL);
    (void)close(lookup->done[0]);
    int failed = lookup->failed;
    *ret_found = lookup->found;
    free(lookup);
    return failed ? fail(client, WEIR_EIO, "%s", gai_strerror(failed)) : 0;
}

static int connect_tcp(struct client *client, const struct target *target)
{
    const struct addrinfo literal = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
    struct addrinfo *found = NULL;
    int error = getaddrinfo(target->host, target->port, &literal, &found) ? name_find(client, target, &found) : 0;
    if (error)
        return error;
    error = WEIR_EIO;
    for (const struct addrinfo *at = found; at && error; at = at->ai_next)
        error = connect_to(client, at->ai_family, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    return error;
}

static int connect_unix(struct client *client, const struct target *target)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, target->host, strlen(target->host) + 1);
    return connect_to(client, AF_UNIX, (const struct sockaddr *)&address, sizeof(address));
}

static int fail_tls(struct client *client)
{
    long verified = client->ssl ? SSL_get_verify_result(client->ssl) : X509_V_OK;
    unsigned long code = ERR_get_error();
    if (verified != X509_V_OK)
        return fail(client, WEIR_EIO, "the server's certificate: %s", X509_verify_cert_error_string(verified));
    return fail(client, WEIR_EIO, "TLS: %s", code ? ERR_reason_error_string(code) : "the connection broke");
}

/* A TLS record comes and goes in pieces, each of which may take its time: all of them together have what is left. */
static int tls_again(struct client *client, int result)
{
    int wants = SSL_get_error(client->ssl, result);
    if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE)
        return fail_tls(client);
    return wait_for(client, client->fd, wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
}

/* A pipe is as good as a file, --ca <(pass ca), and has as much time as all the rest: also for somebody to open it. */
static int ca_read(struct client *client, int fd, char *text, size_t *ret_size)
{
    ssize_t got = 1;
    *ret_size = 0;
    while (got != 0 && *ret_size < CA_MAX) {
        if (wait_for(client, fd, POLLIN) != 0)
            return WEIR_EIO;
        got = read(fd, text + *ret_size, CA_MAX - *ret_size);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return WEIR_EIO;
        *ret_size += got > 0 ? (size_t)got : 0;
    }
    return got == 0 ? 0 : WEIR_ELIMIT;
}

/* How many certificates of a PEM are trusted from now on. */
static size_t ca_trust(SSL_CTX *context, const char *text, size_t size)
{
    size_t trusted = 0;
    char no_password[] = "";
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    BIO *bio = BIO_new_mem_buf(text, (int)size);
    STACK_OF(X509_INFO) *found = bio ? PEM_X509_INFO_read_bio(bio, NULL, NULL, no_password) : NULL;
    for (int i = 0; i < sk_X509_INFO_num(found); i++) {
        const X509_INFO *info = sk_X509_INFO_value(found, i);
        trusted += info->x509 && X509_STORE_add_cert(store, info->x509) == 1;
    }
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    BIO_free(bio);
    return trusted;
}

static int ca_load(struct client *client, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    char *text = fd >= 0 ? malloc(CA_MAX) : NULL;
    size_t size = 0;
    int error = text ? ca_read(client, fd, text, &size) : WEIR_EIO;
    bool late = weir_time_read().now_ns >= client->deadline_ns;
    if (error || ca_trust(client->context, text, size) == 0)
        error = fail(client, WEIR_EIO,
                     late ? "%s was not to be read in time" : "%s holds no certificate that can be read", path);
    free(text);
    if (fd >= 0)
        (void)close(fd);
    return error;
}

/* Before the connection is made, which would have to wait for it. */
static int tls_prepare(struct client *client, const char *ca_file)
{
    client->context = SSL_CTX_new(TLS_client_method());
    if (!client->context || !SSL_CTX_set_min_proto_version(client->context, TLS1_2_VERSION))
        return fail_tls(client);
    SSL_CTX_set_verify(client->context, SSL_VERIFY_PEER, NULL);
    if (ca_file)
        return ca_load(client, ca_file);
    if (SSL_CTX_set_default_verify_paths(client->context) != 1)
        return fail(client, WEIR_EIO, "the system holds no certificate that can be read");
    return 0;
}

static int tls_start(struct client *client, const struct target *target)
{
    int flags = fcntl(client->fd, F_GETFL);
    if (flags < 0 || fcntl(client->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return fail(client, WEIR_EIO, "%s", strerror(errno));
    client->ssl = SSL_new(client->context);
    if (!client->ssl || SSL_set_fd(client->ssl, client->fd) != 1)
        return fail_tls(client);
    char name[sizeof(target->host)]; /* OpenSSL's macro wants it writable */
    memcpy(name, target->host, sizeof(name));
    /* A certificate is for an address or for a name, never for whichever matches. */
    X509_VERIFY_PARAM *param = SSL_get0_param(client->ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, target->host) != 1 &&
        (SSL_set1_host(client->ssl, target->host) != 1 || SSL_set_tlsext_host_name(client->ssl, name) != 1))
        return fail_tls(client);
    int error = 0, result = 0;
    while (!error && result != 1) {
        ERR_clear_error(); /* of the host that was no address */
        result = SSL_connect(client->ssl);
        error = result == 1 ? 0 : tls_again(client, result);
    }
    return error;
}

static int send_all(struct client *client, const char *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        int error = timeout_set(client);
        if (error)
            return error;
        size_t step = 0;
        if (client->ssl) {
            ERR_clear_error();
            if (SSL_write_ex(client->ssl, data + sent, size - sent, &step) != 1 && (error = tls_again(client, 0)) != 0)
                return error;
        } else {
            ssize_t wrote = send(client->fd, data + sent, size - sent, MSG_NOSIGNAL);
            if (wrote < 0)
                return fail(client, WEIR_EIO, "%s", errno == EAGAIN ? "no answer in time" : strerror(errno));
            step = (size_t)wrote;
        }
        sent += step;
    }
    return 0;
}

/* *ret_size is 0 at the end. */
static int receive(struct client *client, char *data, size_t room, size_t *ret_size)
{
    int error = timeout_set(client);
    while (client->ssl && !error) {
        ERR_clear_error();
        if (SSL_read_ex(client->ssl, data, room, ret_size) == 1)
            return 0;
        *ret_size = 0;
        if (SSL_get_error(client->ssl, 0) == SSL_ERROR_ZERO_RETURN)
            return 0;
        error = tls_again(client, 0);
    }
    if (error)
        return error;
    ssize_t got = recv(client->fd, data, room, 0);
    if (got < 0)
        return fail(client, WEIR_EIO, "%s", errno == EAGAIN ? "no answer in time" : strerror(errno));
    *ret_size = (size_t)got;
    return 0;
}

/* The value of a header of the head, or NULL. */
static const char *header_find(const char *head, const char *name)
{
    size_t size = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, size) == 0 && line[size] == ':')
            return line + size + 1 + strspn(line + size + 1, " \t");
    }
    return NULL;
}

/* The answer once it is whole: our server always says Content-Length, and an answer without is one that ends with the
 * connection. Returns false while more is needed. */
static bool answer_whole(char *data, size_t size, bool ended, struct weir_client_answer *ret_answer)
{
    char *end = strstr(data, "\r\n\r\n");
    if (!end)
        return false;
    size_t head = (size_t)(end - data) + 4;
    char kept = data[head];
    data[head] = '\0';
    const char *text = header_find(data, "content-length");
    size_t length = text ? strtoull(text, NULL, 10) : SIZE_MAX;
    data[head] = kept;
    size_t have = size - head;
    if (have < length && !(ended && !text))
        return false;
    uint64_t status = 0; /* stays 0, which is no status, where there are no three digits */
    (void)weir_number_parse(data + strlen("HTTP/1.1 "), 3, &status);
    ret_answer->status = (int)status;
    ret_answer->size = have < length ? have : length;
    memmove(data, data + head, ret_answer->size);
    data[ret_answer->size] = '\0';
    ret_answer->body = data;
    return true;
}

#define WHICH_PORT "; this asks weir's port of HTTP (8080), not that of RESP (6380)"

static int answer_read(struct client *client, struct weir_client_answer *ret_answer)
{
    size_t size = 0, room = WEIR_CLIENT_HEAD_MAX;
    char *data = malloc(WEIR_CLIENT_ANSWER_MAX + 1);
    int error = data ? 0 : fail(client, WEIR_ENOMEM, "out of memory");
    while (!error && size < room) {
        size_t step = 0;
        error = receive(client, data + size, room - size, &step);
        size += step;
        if (error)
            break;
        data[size] = '\0';
        bool begun = size >= strlen("HTTP/1.1 200");
        if (begun && strncmp(data, "HTTP/1.", 7) != 0)
            error = fail(client, WEIR_EPROTO, "what answers there does not speak HTTP" WHICH_PORT);
        else if (begun && answer_whole(data, size, step == 0, ret_answer))
            return 0;
        else if (step == 0)
            error = fail(client, WEIR_EPROTO,
                         begun ? "the connection was closed before an answer came"
                               : "the connection was closed before an answer came" WHICH_PORT);
        if (strstr(data, "\r\n\r\n"))
            room = WEIR_CLIENT_ANSWER_MAX;
    }
    free(data);
    return error ? error : fail(client, WEIR_ELIMIT, "the answer is longer than 64 MiB, or its head than 1 MiB");
}

static int ask(struct client *client, const struct weir_client_options *options, const struct target *target,
               const char *method, const char *path, const char *body)
{
    bool six = strchr(target->host, ':') != NULL;
    char *text = NULL;
    int size = asprintf(&text,
                        "%s %s HTTP/1.1\r\nHost: %s%s%s%s%s\r\n%s%s%sContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                        method, path, six ? "[" : "", target->local ? "localhost" : target->host, six ? "]" : "",
                        target->local ? "" : ":", target->port, options->token ? "Authorization: Bearer " : "",
                        options->token ? options->token : "", options->token ? "\r\n" : "", strlen(body), body);
    if (size < 0)
        return fail(client, WEIR_ENOMEM, "out of memory");
    int error = send_all(client, text, (size_t)size);
    explicit_bzero(text, (size_t)size);
    free(text);
    return error;
}

static int call(const struct weir_client_options *options, const char *method, const char *path, const char *body,
                struct weir_client_answer *ret_answer, char *problem, size_t problem_size)
{
    struct client client = { .fd = -1, .problem = problem, .problem_size = problem_size };
    struct target target = { 0 };
    client.deadline_ns = weir_time_read().now_ns + options->timeout_ns;
    if (options->token && strpbrk(options->token, "\r\n"))
        return fail(&client, WEIR_EINVAL, "a token has no line ends");
    int error = target_parse(&client, options->server, &target);
    if (!error && target.tls)
        error = tls_prepare(&client, options->ca_file);
    if (!error)
        error = target.local ? connect_unix(&client, &target) : connect_tcp(&client, &target);
    if (!error && target.tls)
        error = tls_start(&client, &target);
    if (!error)
        error = ask(&client, options, &target, method, path, body);
    if (!error)
        error = answer_read(&client, ret_answer);
    SSL_free(client.ssl);
    SSL_CTX_free(client.context);
    if (client.fd >= 0)
        (void)close(client.fd);
    return error;
}

int weir_client_post(const struct weir_client_options *options, const char *path, const char *body,
                     struct weir_client_answer *ret_answer, char *problem, size_t problem_size)
{
    return call(options, "POST", path, body, ret_answer, problem, problem_size);
}

int weir_client_get(const struct weir_client_options *options, const char *path, struct weir_client_answer *ret_answer,
                    char *problem, size_t problem_size)
{
    return call(options, "GET", path, "", ret_answer, problem, problem_size);
}
