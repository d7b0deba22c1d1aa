/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the redis engine for tests: reads commands from stdin, one a line, and answers each with a line when it is
 * done. `redis_drive NAME=VALUE …`, see set_option.
 *
 *     limit NAME COUNT PERIOD_MS BURST            a token bucket
 *     decide|peek|refund|forget ID DEADLINE_MS LIMIT:KEY:UNITS …
 *                                                 ID STATUS ADMITTED ENGINE_NS {UNITS or REMAINING} …
 *     load LIMIT KEYS PER_MS MS DEADLINE_MS OPS   PER_MS requests each millisecond, each of OPS keys;
 *                                                 longest_ticks: how often a timer of 1 ms on the same loop
 *                                                 fired while one was under way
 *     stats | servers | warning | ready | close             what remote.h says, as NAME=VALUE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "limits/redis/redis.h"

#define LIMITS_MAX 8
#define SERVERS_MAX 16
#define WORDS_MAX 80
#define KEYS_MAX 10000

struct driver {
    uv_loop_t loop;
    uv_pipe_t input;
    uv_timer_t timer;
    struct weir_remote *remote;
    struct weir_redis_options options;
    struct weir_redis_address servers[SERVERS_MAX];
    struct weir_remote_limit limits[LIMITS_MAX];
    size_t limits_count;
    char line[4096];
    size_t line_size;
    /* load */
    const struct weir_remote_limit *limit;
    unsigned keys, per_ms, ops, left_ms, under_way;
    uint64_t deadline_ms, next_key, started_ns, ticks;
    uint64_t told, admitted, refused, statuses[16], longest_ticks;
    uint32_t of_key[KEYS_MAX];
};

struct ask {
    struct weir_remote_request request; /* first */
    struct driver *driver;
    char id[32];
    bool load;
    uint64_t begun_ticks;
    unsigned keys[8];
    struct weir_remote_op ops[];
};

static void on_done(struct weir_remote_request *request);

static struct ask *make_ask(struct driver *driver, size_t count, uint64_t deadline_ms)
{
    struct ask *ask = calloc(1, sizeof *ask + count * sizeof ask->ops[0]);
    weir_assert(ask);
    ask->driver = driver;
    ask->begun_ticks = driver->ticks;
    ask->request = (struct weir_remote_request){
        .ops = ask->ops, .count = count, .deadline_ns = uv_hrtime() + deadline_ms * 1000000, .done = on_done
    };
    return ask;
}

static void submit(struct ask *ask)
{
    int error = ask->driver->remote->ops->submit(ask->driver->remote, &ask->request);
    if (error) {
        ask->request.status = error;
        on_done(&ask->request);
    }
}

static const struct weir_remote_limit *find_limit(const struct driver *driver, const char *name)
{
    for (size_t i = 0; i < driver->limits_count; i++) {
        if (strcmp(driver->limits[i].name, name) == 0)
            return &driver->limits[i];
    }
    fprintf(stderr, "no limit %s\n", name);
    exit(2);
}

static void set_key(struct weir_remote_op *op, const struct weir_remote_limit *limit, const char *key, uint64_t units)
{
    struct weir_slice value = { key, strlen(key) };
    int error = weir_remote_key_init(NULL, limit->name, &value, 1, &op->key);
    weir_assert(error == 0);
    op->limit = limit;
    op->units = units;
}

/* ---- one request ---- */

static void print_done(const struct ask *ask)
{
    const struct weir_remote_request *request = &ask->request;
    printf("%s %s %d %" PRIu64, ask->id, weir_error_name(request->status), request->decision.admitted,
           request->engine_now_ns);
    for (size_t i = 0; i < request->count; i++)
        printf(" %" PRIu64, request->verb == WEIR_REMOTE_REFUND ? ask->ops[i].units : ask->ops[i].verdict.remaining);
    printf("\n");
}

static void count_done(struct ask *ask)
{
    struct driver *driver = ask->driver;
    uint64_t ticks = driver->ticks - ask->begun_ticks;
    driver->under_way--;
    driver->told++;
    driver->statuses[-ask->request.status & 15]++;
    if (ticks > driver->longest_ticks)
        driver->longest_ticks = ticks;
    if (ask->request.status)
        return;
    if (!ask->request.decision.admitted) {
        driver->refused++;
        return;
    }
    driver->admitted++;
    for (size_t i = 0; i < ask->request.count; i++)
        driver->of_key[ask->keys[i]]++;
}

static void on_done(struct weir_remote_request *request)
{
    struct ask *ask = (struct ask *)request;
    if (ask->load)
        count_done(ask);
    else
        print_done(ask);
    free(ask);
}

static void ask_once(struct driver *driver, char **words, size_t count)
{
    static const char *const verbs[] = { "decide", "peek", "refund", "forget" };
    struct ask *ask = make_ask(driver, count - 3, strtoull(words[2], NULL, 10));
    snprintf(ask->id, sizeof ask->id, "%s", words[1]);
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(words[0], verbs[i]) == 0)
            ask->request.verb = (enum weir_remote_verb)i;
    }
    for (size_t i = 3; i < count; i++) {
        char *rest = NULL;
        const char *limit = strtok_r(words[i], ":", &rest), *key = strtok_r(NULL, ":", &rest);
        const char *units = strtok_r(NULL, ":", &rest);
        set_key(&ask->ops[i - 3], find_limit(driver, limit), key, strtoull(units, NULL, 10));
    }
    submit(ask);
}

/* ---- load ---- */

static void ask_some(struct driver *driver)
{
    struct ask *ask = make_ask(driver, driver->ops, driver->deadline_ms);
    ask->load = true;
    for (unsigned i = 0; i < driver->ops; i++) {
        char key[32];
        ask->keys[i] = (unsigned)(driver->next_key++ % driver->keys);
        snprintf(key, sizeof key, "key-%u", ask->keys[i]);
        set_key(&ask->ops[i], driver->limit, key, 1);
    }
    driver->under_way++;
    submit(ask);
}

static void on_load(uv_timer_t *timer)
{
    struct driver *driver = timer->data;
    driver->ticks++; /* after a pause once, not once for each millisecond of it */
    if (driver->left_ms > 0) {
        driver->left_ms--;
        for (unsigned i = 0; i < driver->per_ms; i++)
            ask_some(driver);
        return;
    }
    if (driver->under_way > 0)
        return;
    uint32_t most = 0;
    for (size_t i = 0; i < KEYS_MAX; i++)
        most = driver->of_key[i] > most ? driver->of_key[i] : most;
    printf("load told=%" PRIu64 " admitted=%" PRIu64 " refused=%" PRIu64 " down=%" PRIu64 " unknown=%" PRIu64
           " corrupt=%" PRIu64 " longest_ticks=%" PRIu64 " most=%" PRIu32 " ms=%" PRIu64 "\n",
           driver->told, driver->admitted, driver->refused, driver->statuses[11], driver->statuses[12],
           driver->statuses[13], driver->longest_ticks, most, (uv_hrtime() - driver->started_ns) / 1000000);
    uv_timer_stop(timer);
}

static void start_load(struct driver *driver, char **words)
{
    driver->limit = find_limit(driver, words[1]);
    driver->keys = (unsigned)atoi(words[2]);
    driver->per_ms = (unsigned)atoi(words[3]);
    driver->left_ms = (unsigned)atoi(words[4]);
    driver->deadline_ms = (uint64_t)atoi(words[5]);
    driver->ops = (unsigned)atoi(words[6]);
    weir_assert(driver->keys <= KEYS_MAX && driver->ops <= 8);
    driver->told = driver->admitted = driver->refused = driver->longest_ticks = 0;
    memset(driver->statuses, 0, sizeof driver->statuses);
    memset(driver->of_key, 0, sizeof driver->of_key);
    driver->started_ns = uv_hrtime();
    uv_timer_start(&driver->timer, on_load, 0, 1);
}

/* ---- commands ---- */

static void add_limit(struct driver *driver, char **words)
{
    struct weir_limit_spec spec = { .algorithm = WEIR_TOKEN_BUCKET,
                                    .count = strtoull(words[2], NULL, 10),
                                    .period_ns = strtoull(words[3], NULL, 10) * 1000000,
                                    .burst = strtoull(words[4], NULL, 10) };
    struct weir_fault fault;
    weir_assert(driver->limits_count < LIMITS_MAX);
    int error = weir_remote_limit_init(&driver->limits[driver->limits_count++], words[1], &spec, &fault);
    printf("limit %s %s\n", weir_error_name(error), error ? fault.text : "");
}

static void print_stats(struct driver *driver)
{
    struct weir_remote_stats s;
    driver->remote->ops->stats(driver->remote, &s);
    printf("stats asked=%" PRIu64 " answered=%" PRIu64 " refused=%" PRIu64 " unknown=%" PRIu64 " shed=%" PRIu64
           " losses=%" PRIu64 " corrupt=%" PRIu64 " given_back=%" PRIu64 " given_back_lost=%" PRIu64
           " reconnects=%" PRIu64 " scripts_loaded=%" PRIu64 " redirects=%" PRIu64 " primary_changes=%" PRIu64
           " evicted=%" PRIu64 " last_error=%s\n",
           s.asked, s.answered, s.refused, s.unknown, s.shed, s.losses, s.corrupt, s.given_back, s.given_back_lost,
           s.reconnects, s.scripts_loaded, s.redirects, s.primary_changes, s.evicted, s.last_error);
}

static void print_servers(struct driver *driver)
{
    struct weir_remote_server servers[64];
    size_t count = driver->remote->ops->servers(driver->remote, servers, 64);
    printf("servers");
    for (size_t i = 0; i < count; i++)
        printf(" %s,%s,%s,%s", servers[i].address, servers[i].role, servers[i].state,
               weir_breaker_name(servers[i].breaker));
    printf("\n");
}

static void print_warning(struct driver *driver)
{
    struct weir_remote_server servers[64];
    size_t count = driver->remote->ops->servers(driver->remote, servers, 64), i = 0;
    while (i < count && !servers[i].warning[0])
        i++;
    printf("warning %s\n", i < count ? servers[i].warning : "");
}

static void close_all(struct driver *driver)
{
    driver->remote->ops->close(driver->remote);
    uv_close((uv_handle_t *)&driver->input, NULL);
    uv_close((uv_handle_t *)&driver->timer, NULL);
}

static void command(struct driver *driver, char *line)
{
    char *words[WORDS_MAX], *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " ", &rest); word && count < WORDS_MAX; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    if (count == 0)
        return;
    if (strcmp(words[0], "limit") == 0 && count == 5)
        add_limit(driver, words);
    else if (strcmp(words[0], "load") == 0 && count == 7)
        start_load(driver, words);
    else if (strcmp(words[0], "stats") == 0)
        print_stats(driver);
    else if (strcmp(words[0], "servers") == 0)
        print_servers(driver);
    else if (strcmp(words[0], "warning") == 0)
        print_warning(driver);
    else if (strcmp(words[0], "ready") == 0)
        printf("ready %d\n", driver->remote->ops->ready(driver->remote));
    else if (strcmp(words[0], "close") == 0)
        close_all(driver);
    else if (count >= 4)
        ask_once(driver, words, count);
    else
        printf("what?\n");
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buffer)
{
    struct driver *driver = handle->data;
    (void)size;
    *ret_buffer = uv_buf_init(driver->line + driver->line_size, (unsigned)(sizeof driver->line - driver->line_size));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct driver *driver = stream->data;
    (void)buffer;
    if (got < 0) {
        close_all(driver);
        return;
    }
    driver->line_size += (size_t)got;
    for (;;) {
        char *end = memchr(driver->line, '\n', driver->line_size);
        if (!end || uv_is_closing((uv_handle_t *)stream))
            return;
        char line[sizeof driver->line];
        size_t size = (size_t)(end - driver->line);
        memcpy(line, driver->line, size);
        line[size] = '\0';
        driver->line_size -= size + 1;
        memmove(driver->line, end + 1, driver->line_size);
        command(driver, line);
    }
}

/* ---- the start ---- */

static void set_server(struct driver *driver, char *value)
{
    weir_assert(driver->options.servers_count < SERVERS_MAX);
    struct weir_redis_address *server = &driver->servers[driver->options.servers_count++];
    char *colon = strrchr(value, ':');
    if (value[0] == '/') {
        server->path = value;
        return;
    }
    weir_assert(colon);
    *colon = '\0';
    server->host = value;
    server->port = (uint16_t)atoi(colon + 1);
}

static void set_option(struct driver *driver, const char *name, char *value)
{
    struct weir_redis_options *options = &driver->options;
    if (strcmp(name, "server") == 0) {
        set_server(driver, value);
    } else if (strcmp(name, "cluster") == 0) {
        options->topology = WEIR_REDIS_CLUSTER;
    } else if (strcmp(name, "sentinel") == 0) {
        options->topology = WEIR_REDIS_SENTINEL;
        options->sentinel_name = value;
    } else if (strcmp(name, "username") == 0) {
        options->username = value;
    } else if (strcmp(name, "password") == 0) {
        options->password = (struct weir_slice){ value, strlen(value) };
    } else if (strcmp(name, "sentinel_password") == 0) {
        options->sentinel_password = (struct weir_slice){ value, strlen(value) };
    } else if (strcmp(name, "tls_ca_file") == 0) {
        options->tls = true;
        options->tls_ca_file = value;
    } else if (strcmp(name, "tls_name") == 0) {
        options->tls_name = value;
    } else if (strcmp(name, "prefix") == 0) {
        options->prefix = value;
    } else if (strcmp(name, "connect_timeout_ms") == 0) {
        options->connect_timeout_ns = (uint64_t)atoi(value) * 1000000;
    } else {
        fprintf(stderr, "no option %s\n", name);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct driver driver;
    struct weir_fault fault = { "", "" };
    driver.options = (struct weir_redis_options){ .servers = driver.servers, .seed = uv_hrtime() };
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        weir_assert(value);
        *value = '\0';
        set_option(&driver, argv[i], value + 1);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&driver.loop);
    int error = weir_redis_create(&driver.loop, &driver.options, &driver.remote, &fault);
    if (error) {
        printf("create %s %s %s\n", weir_error_name(error), fault.field, fault.text);
        uv_run(&driver.loop, UV_RUN_DEFAULT);
        return 1;
    }
    uv_pipe_init(&driver.loop, &driver.input, 0);
    uv_timer_init(&driver.loop, &driver.timer);
    driver.input.data = driver.timer.data = &driver;
    uv_pipe_open(&driver.input, 0);
    uv_read_start((uv_stream_t *)&driver.input, on_alloc, on_read);
    uv_run(&driver.loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < driver.limits_count; i++)
        weir_remote_limit_deinit(&driver.limits[i]);
    error = uv_loop_close(&driver.loop);
    printf("end %d\n", error);
    return error != 0;
}
