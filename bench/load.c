/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_load PORT|PATH CONNECTIONS DEPTH MILLISECONDS KEYS VERDICT COMMAND...: loads a RESP server from one thread.
 *
 * Each connection sends DEPTH commands at once, waits for all their replies and sends the next; "@word"
 * in COMMAND becomes one of KEYS keys at random: word:0123456789. VERDICT says how a reply tells that it was admitted:
 * "first-0" or "first-1"
 * (its first integer is that), or "none". Prints one line of figures; latencies are those of a whole pipeline. */
#include "histogram.h"
#include "measure.h"
#include "replies.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1000
#define DEPTH_MAX 1024
#define COMMAND_MAX 1024
#define READ_BYTES 262144
#define KEY_MAX 64
#define KEY_DIGITS 10
#define SETUP_SECONDS 5 /* how long the first reply may take */

struct connection {
    int fd;
    uint64_t sent_ns;
    uint64_t due; /* replies still to come */
    struct replies replies;
};

struct load {
    uint64_t connection_count;
    uint64_t depth;
    uint64_t duration_ns;
    uint64_t keys;
    uint64_t random;
    char command[COMMAND_MAX];
    size_t command_size;
    size_t digits_end; /* offset in the command behind the key's last digit; 0 if there is no key */
    char *pipeline;    /* the command, DEPTH times */
    struct replies_shape shape;
    struct replies_tally tally;
    struct histogram latencies;
    struct connection *connections;
    char in[READ_BYTES];
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_load: %s%s%s\n", what, errno == 0 ? "" : ": ", errno == 0 ? "" : strerror(errno));
    exit(1);
}

/* ---- what is sent ---- */

static void add_text(struct load *load, const char *text, size_t size)
{
    if (size > sizeof load->command - load->command_size) {
        fail("the command is too long");
    }
    memcpy(load->command + load->command_size, text, size);
    load->command_size += size;
}

static void build_command(struct load *load, int words, char **word)
{
    char head[32];
    char key[KEY_MAX];
    add_text(load, head, (size_t)snprintf(head, sizeof head, "*%d\r\n", words));
    for (int i = 0; i < words; i++) {
        bool is_key = word[i][0] == '@';
        const char *text = word[i];
        if (is_key) {
            snprintf(key, sizeof key, "%.*s:%0*d", KEY_MAX - KEY_DIGITS - 2, word[i] + 1, KEY_DIGITS, 0);
            text = key;
        }
        add_text(load, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", strlen(text)));
        add_text(load, text, strlen(text));
        if (is_key) {
            load->digits_end = load->command_size;
        }
        add_text(load, "\r\n", 2);
    }
    load->pipeline = malloc(load->command_size * load->depth);
    if (load->pipeline == NULL) {
        fail("no memory");
    }
    for (uint64_t i = 0; i < load->depth; i++) {
        memcpy(load->pipeline + i * load->command_size, load->command, load->command_size);
    }
}

static void write_key(char *end, uint64_t key)
{
    for (int i = 0; i < KEY_DIGITS; i++) {
        *--end = (char)('0' + key % 10);
        key /= 10;
    }
}

static void send_pipeline(struct load *load, struct connection *connection, uint64_t now_ns)
{
    size_t size = load->command_size * load->depth;
    for (uint64_t i = 0; load->digits_end != 0 && i < load->depth; i++) {
        write_key(load->pipeline + i * load->command_size + load->digits_end,
                  measure_below(measure_mix(load->random++), load->keys));
    }
    connection->sent_ns = now_ns;
    connection->due = load->depth;
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(connection->fd, load->pipeline + at, size - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            fail("send");
        }
        at += (size_t)sent;
    }
}

/* ---- connections ---- */

static int connect_to(const char *target)
{
    int fd;
    int on = 1;
    if (target[0] == '/' || target[0] == '.') {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        if (strlen(target) >= sizeof address.sun_path) {
            fail("the path of the socket is too long");
        }
        memcpy(address.sun_path, target, strlen(target) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
            fail(target);
        }
    } else {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)atoi(target)),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
            fail(target);
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return fd;
}

/* Sends one command and learns from its reply what replies look like. */
static void learn_shape(struct load *load, int fd)
{
    struct timeval patience = { .tv_sec = SETUP_SECONDS };
    size_t size = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(fd, load->command, load->command_size, MSG_NOSIGNAL) != (ssize_t)load->command_size) {
        fail("send");
    }
    while ((load->shape.lines = replies_lines(load->in, size)) == 0) {
        ssize_t got = recv(fd, load->in + size, sizeof load->in - size, 0);
        if (got <= 0) {
            fail("no reply");
        }
        size += (size_t)got;
    }
    load->shape.type = load->in[0];
    if (load->shape.type == '-') {
        errno = 0;
        load->in[size - 2] = '\0';
        fail(load->in);
    }
}

static void read_replies(struct load *load, struct connection *connection)
{
    struct replies *replies = &connection->replies;
    struct replies_tally *tally = &load->tally;
    uint64_t before = tally->replies;

    memcpy(load->in, replies->carry, replies->carry_size);
    ssize_t got = recv(connection->fd, load->in + replies->carry_size, sizeof load->in - replies->carry_size,
                       MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) {
        fail("the server closed a connection");
    }
    errno = 0;
    if (!replies_scan(replies, &load->shape, load->in, replies->carry_size + (size_t)got, tally)) {
        fail("a reply differs from the first");
    }
    uint64_t replied = tally->replies - before;
    if (replied > connection->due) {
        fail("more replies than commands");
    }
    connection->due -= replied;
}

static void run(struct load *load, const char *target)
{
    int epoll = epoll_create1(0);
    load->connections = calloc(load->connection_count, sizeof *load->connections);
    if (epoll < 0 || load->connections == NULL) {
        fail("no memory");
    }
    for (uint64_t i = 0; i < load->connection_count; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &load->connections[i] };
        load->connections[i].fd = connect_to(target);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, load->connections[i].fd, &event) != 0) {
            fail("epoll_ctl");
        }
    }
    learn_shape(load, load->connections[0].fd);

    uint64_t begin_ns = measure_now_ns();
    uint64_t cpu_ns = measure_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t now_ns = begin_ns;
    for (uint64_t i = 0; i < load->connection_count; i++) {
        send_pipeline(load, &load->connections[i], measure_now_ns());
    }
    while (now_ns - begin_ns < load->duration_ns) {
        struct epoll_event events[128];
        int count = epoll_wait(epoll, events, 128, SETUP_SECONDS * 1000);
        if (count == 0) {
            fail("no reply");
        }
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            read_replies(load, connection);
            if (connection->due == 0) {
                now_ns = measure_now_ns();
                histogram_add(&load->latencies, now_ns - connection->sent_ns);
                send_pipeline(load, connection, now_ns);
            }
        }
    }
    double elapsed = (double)(now_ns - begin_ns);
    printf("rate %.6g p50_us %.4g p99_us %.4g p999_us %.4g admitted %" PRIu64 " refused %" PRIu64 " cpu %.3f\n",
           (double)load->tally.replies * 1e9 / elapsed, (double)histogram_percentile(&load->latencies, 5000) / 1e3,
           (double)histogram_percentile(&load->latencies, 9900) / 1e3,
           (double)histogram_percentile(&load->latencies, 9990) / 1e3, load->tally.admitted, load->tally.refused,
           (double)(measure_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / elapsed);
}

int main(int argc, char **argv)
{
    static struct load load;
    if (argc < 8) {
        fputs("usage: bench_load PORT|PATH CONNECTIONS DEPTH MILLISECONDS KEYS VERDICT COMMAND...\n"
              "  VERDICT  first-0, first-1 or none; @word in COMMAND becomes a random key, word:0123456789\n",
              stderr);
        return 2;
    }
    load.connection_count = measure_argument(argc, argv, 2, 1, CONNECTIONS_MAX, "CONNECTIONS");
    load.depth = measure_argument(argc, argv, 3, 1, DEPTH_MAX, "DEPTH");
    load.duration_ns = measure_argument(argc, argv, 4, 1, 600000, "MILLISECONDS") * 1000000;
    load.keys = measure_argument(argc, argv, 5, 1, UINT64_C(10000000000), "KEYS");
    load.random = measure_mix(measure_now_ns());
    bool none = strcmp(argv[6], "none") == 0;
    if (!none && strcmp(argv[6], "first-0") != 0 && strcmp(argv[6], "first-1") != 0) {
        fputs("VERDICT: must be first-0, first-1 or none\n", stderr);
        return 2;
    }
    load.shape.verdict_line = none ? UINT32_MAX : 1;
    load.shape.admitted = argv[6][strlen(argv[6]) - 1];
    build_command(&load, argc - 7, argv + 7);
    run(&load, argv[1]);
    return 0;
}
