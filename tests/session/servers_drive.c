/* SPDX-License-Identifier: Apache-2.0
 *
 * servers_drive POLL_MS FREEZE_MS TIMEOUT_MS [NAME CONNINFO]…: the pollers of these servers, and connections of the
 * test's own, driven by lines; each answer is one line of JSON.
 *
 *     look                     the latest snapshot
 *     news NUMBER MS           waits for a snapshot newer than that
 *     ask NAME MS              waits for an answer to a question that is sent now
 *     add NAME CONNINFO        remove NAME
 *     read NAME COUNT          so many reads are counted
 *     open C CONNINFO          connection C (0 to 9) of the test's own
 *     shown C                  how far its server is; after C: the same in brief; text C: by the plain statement
 *     settle C MS
 *     sql C TEXT               runs it, shows nothing of it
 *     place C P                what was shown last on C, as place P (0 to 9)
 *     compare P C              place P with what was shown last on C, by what the pollers know
 *     hasten COUNT THREADS     so many looks by each of so many threads: how long one took, in ns, and was any wrong */
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/postgres_ask.h"
#include "sessions/servers.h"
#include "sessions/shown.h"

#define MS_NS UINT64_C(1000000)
#define TIMEOUT_NS (2000 * MS_NS)
#define PLACES 10

struct link {
    PGconn *conn;
    struct weir_shown_fixed fixed;
    struct weir_shown shown;
};

struct drive {
    struct weir_servers *servers;
    struct link links[PLACES];
    struct weir_place places[PLACES];
};

static uint64_t number(const char *word)
{
    return word ? strtoull(word, NULL, 10) : 0;
}

static const char *error_name(int error)
{
    return error ? weir_error_name(error) + strlen("WEIR_") : "OK";
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('"');
}

static void print_shown(const struct weir_shown *shown)
{
    printf("\"system\":%" PRIu64 ",\"position\":%" PRIu64 ",\"received\":%" PRIu64 ",\"flushed\":%" PRIu64
           ",\"run\":%" PRIu64 ",\"timeline\":%u,\"primary\":%s,\"settled\":%s",
           shown->system, shown->position, shown->received, shown->flushed, shown->run, (unsigned)shown->timeline,
           shown->primary ? "true" : "false", shown->settled ? "true" : "false");
}

/* ---- the pollers ---- */

static void print_server(const struct weir_route_server *server, const struct weir_server_state *state)
{
    print_text(state->name);
    printf(":{");
    print_shown(&server->shown);
    printf(",\"lag_ms\":");
    if (server->lag_ns == UINT64_MAX)
        printf("null");
    else
        printf("%" PRIu64, server->lag_ns / MS_NS);
    printf(",\"id\":%" PRIu64 ",\"replayed_ns\":%" PRIu64 ",\"clock\":%" PRIu64 ",\"load\":%u,\"usable\":%s,"
           "\"frozen\":%s,\"generation\":%" PRIu64 ",\"begun_ns\":%" PRIu64 ",\"settled_ns\":%" PRIu64
           ",\"page_size\":%" PRIu64 ",\"segment_size\":%" PRIu64 ",\"fault\":",
           server->id, server->replayed_ns, server->clock, server->load, server->usable ? "true" : "false",
           state->frozen ? "true" : "false", state->generation, state->begun_ns, server->settled_ns, state->page_size,
           state->segment_size);
    print_text(state->fault);
    printf("}");
}

static void print_known(const struct weir_known *known)
{
    printf("\"runs\":[");
    for (unsigned i = 0; i < known->run_count; i++)
        printf("%s[%u,%" PRIu64 ",%" PRIu64 "]", i > 0 ? "," : "", (unsigned)known->runs[i].timeline,
               known->runs[i].run, known->runs[i].flushed);
    printf("],\"histories\":{");
    for (unsigned i = 0; i < known->history_count; i++) {
        const struct weir_history *history = &known->histories[i];
        printf("%s\"%u\":[", i > 0 ? "," : "", (unsigned)history->timeline);
        for (unsigned j = 0; j < history->count; j++)
            printf("%s[%u,%" PRIu64 "]", j > 0 ? "," : "", (unsigned)history->ancestors[j].timeline,
                   history->ancestors[j].end);
        printf("]");
    }
    printf("}");
}

static void look(struct drive *drive)
{
    const struct weir_snapshot *snapshot = weir_servers_look(drive->servers);
    uint32_t leader = weir_route_leader(snapshot->servers, snapshot->count);
    printf("{\"number\":%" PRIu64 ",\"taken_ns\":%" PRIu64 ",\"leader\":", snapshot->number, snapshot->taken_ns);
    print_text(leader == WEIR_ROUTE_NONE ? "" : snapshot->states[leader].name);
    printf(",");
    print_known(&snapshot->known);
    printf(",\"servers\":{");
    for (unsigned i = 0; i < snapshot->count; i++) {
        printf("%s", i > 0 ? "," : "");
        print_server(&snapshot->servers[i], &snapshot->states[i]);
    }
    printf("}}\n");
    weir_servers_release(drive->servers, snapshot);
}

static uint64_t id_of(struct drive *drive, const char *name)
{
    const struct weir_snapshot *snapshot = weir_servers_look(drive->servers);
    uint64_t id = 0;
    for (unsigned i = 0; i < snapshot->count; i++)
        if (name && strcmp(snapshot->states[i].name, name) == 0)
            id = snapshot->servers[i].id;
    weir_servers_release(drive->servers, snapshot);
    return id;
}

struct looker {
    struct weir_servers *servers;
    uint64_t count, numbers; /* how often it saw another one */
    bool backwards, torn;
};

static void *look_often(void *argument)
{
    struct looker *looker = argument;
    uint64_t number = 0;
    for (uint64_t i = 0; i < looker->count; i++) {
        const struct weir_snapshot *snapshot = weir_servers_look(looker->servers);
        looker->backwards |= snapshot->number < number;
        looker->numbers += snapshot->number != number;
        number = snapshot->number;
        for (unsigned j = 0; j < snapshot->count && i % 64 == 0; j++)
            looker->torn |= !snapshot->states[j].conninfo[0] || snapshot->servers[j].asked_ns > snapshot->taken_ns;
        if (i % 32768 == 0) /* while others come */
            nanosleep(&(struct timespec){ .tv_nsec = 5 * (long)MS_NS }, NULL);
        looker->torn |= snapshot->number != number;
        weir_servers_release(looker->servers, snapshot);
    }
    return NULL;
}

static void hasten(struct drive *drive, uint64_t count, unsigned threads)
{
    struct looker lookers[16] = { { .count = 0 } };
    pthread_t others[16];
    bool wrong = false;
    threads = threads < 1 ? 1 : threads > 16 ? 16 : threads;
    uint64_t began_ns = weir_ask_now_ns();
    for (unsigned i = 0; i < threads; i++) {
        lookers[i] = (struct looker){ .servers = drive->servers, .count = count };
        if (pthread_create(&others[i], NULL, look_often, &lookers[i]))
            abort();
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(others[i], NULL);
        wrong |= lookers[i].backwards || lookers[i].torn;
    }
    printf("{\"ns\":%.1f,\"numbers\":%" PRIu64 ",\"wrong\":%s}\n",
           (double)(weir_ask_now_ns() - began_ns) / (double)(count ? count : 1), lookers[0].numbers,
           wrong ? "true" : "false");
}

/* ---- connections of the test's own ---- */

static int open_link(struct link *link, const char *conninfo)
{
    char fault[WEIR_ASK_TEXT_SIZE];
    uint64_t deadline_ns = weir_ask_now_ns() + TIMEOUT_NS;
    PQfinish(link->conn);
    memset(link, 0, sizeof(*link));
    int error = weir_ask_connect(conninfo, NULL, deadline_ns, &link->conn, fault);
    if (!error)
        (void)PQsetnonblocking(link->conn, 0); /* as a program's own is */
    return error ? error : weir_shown_fixed(link->conn, deadline_ns, &link->fixed);
}

static int ask_text(struct link *link)
{
    PGresult *result = PQexec(link->conn, weir_shown_statement());
    int error = WEIR_EPROTO;
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        error = weir_shown_parse(PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), &link->shown);
    PQclear(result);
    return error;
}

static void answer_shown(const struct link *link, int error, uint64_t began_ns)
{
    printf("{\"error\":\"%s\",\"took_ms\":%" PRIu64 ",\"missing\":%u", error_name(error),
           (weir_ask_now_ns() - began_ns) / MS_NS, link->fixed.missing);
    if (!error) {
        printf(",");
        print_shown(&link->shown);
    }
    printf("}\n");
}

static void answer(int error)
{
    printf("{\"error\":\"%s\"}\n", error_name(error));
}

static void answer_place(struct drive *drive, struct link *link, uint64_t index)
{
    struct weir_place *place = &drive->places[index % PLACES];
    const struct weir_snapshot *snapshot = weir_servers_look(drive->servers);
    link->shown.branch = weir_snapshot_branch(snapshot, &link->shown);
    weir_servers_release(drive->servers, snapshot);
    int error = weir_place_seen(&link->shown, place);
    printf("{\"error\":\"%s\",\"position\":%" PRIu64 ",\"run\":%" PRIu64 ",\"timeline\":%u,\"standby\":%s}\n",
           error_name(error), place->position, place->run, (unsigned)place->timeline,
           place->standby ? "true" : "false");
}

static void compare(struct drive *drive, const struct weir_place *place, struct link *link)
{
    const struct weir_snapshot *snapshot = weir_servers_look(drive->servers);
    link->shown.branch = weir_snapshot_branch(snapshot, &link->shown);
    printf("{\"verdict\":\"%s\"}\n",
           weir_place_verdict_name(weir_place_compare(place, &link->shown, &snapshot->known)));
    weir_servers_release(drive->servers, snapshot);
}

/* ---- lines ---- */

static bool run_link(struct drive *drive, const char *verb, const char *first, char *rest)
{
    struct link *link = &drive->links[number(first) % PLACES];
    uint64_t began_ns = weir_ask_now_ns(), deadline_ns = began_ns + TIMEOUT_NS;
    if (strcmp(verb, "open") == 0)
        answer_shown(link, open_link(link, rest), began_ns);
    else if (strcmp(verb, "shown") == 0)
        answer_shown(link, weir_shown_ask(link->conn, &link->fixed, deadline_ns, &link->shown), began_ns);
    else if (strcmp(verb, "after") == 0)
        answer_shown(link, weir_shown_after(link->conn, &link->fixed, deadline_ns, &link->shown), began_ns);
    else if (strcmp(verb, "text") == 0)
        answer_shown(link, ask_text(link), began_ns);
    else if (strcmp(verb, "settle") == 0)
        answer_shown(link, weir_shown_settle(link->conn, began_ns + number(rest) * MS_NS), began_ns);
    else if (strcmp(verb, "place") == 0)
        answer_place(drive, link, number(rest));
    else if (strcmp(verb, "compare") == 0)
        compare(drive, &drive->places[number(first) % PLACES], &drive->links[number(rest) % PLACES]);
    else if (strcmp(verb, "sql") == 0) {
        PQclear(PQexec(link->conn, rest));
        answer(0);
    } else
        return false;
    return true;
}

static bool run_servers(struct drive *drive, const char *verb, const char *first, const char *rest)
{
    struct weir_replicas_server server = { first, rest };
    struct weir_fault fault = { { 0 }, { 0 } };
    uint64_t now_ns = weir_ask_now_ns();
    if (strcmp(verb, "look") == 0)
        look(drive);
    else if (strcmp(verb, "news") == 0)
        answer(weir_servers_wait(drive->servers, number(first), now_ns + number(rest) * MS_NS));
    else if (strcmp(verb, "ask") == 0)
        answer(weir_servers_ask(drive->servers, id_of(drive, first), now_ns + number(rest) * MS_NS));
    else if (strcmp(verb, "add") == 0)
        answer(weir_servers_add(drive->servers, &server, &fault));
    else if (strcmp(verb, "remove") == 0)
        answer(weir_servers_remove(drive->servers, first));
    else if (strcmp(verb, "hasten") == 0)
        hasten(drive, number(first), (unsigned)number(rest));
    else if (strcmp(verb, "read") == 0) {
        for (uint64_t i = number(rest); i > 0; i--)
            weir_servers_count(drive->servers, id_of(drive, first));
        answer(0);
    } else
        return false;
    return true;
}

static int run_lines(struct drive *drive)
{
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    while (status == 0 && getline(&line, &room, stdin) > 0) {
        char *rest = NULL;
        line[strcspn(line, "\n")] = '\0';
        const char *verb = strtok_r(line, " ", &rest), *first = strtok_r(NULL, " ", &rest);
        if (!verb ||
            (!run_servers(drive, verb, first ? first : "", rest) && !run_link(drive, verb, first ? first : "", rest)))
            status = 2;
        fflush(stdout);
    }
    free(line);
    return status;
}

int main(int argc, char **argv)
{
    static struct weir_replicas_server servers[WEIR_ROUTE_SERVERS_MAX];
    struct drive drive = { 0 };
    struct weir_fault fault = { { 0 }, { 0 } };
    if (argc < 6 || argc % 2 != 0 || (argc - 4) / 2 > WEIR_ROUTE_SERVERS_MAX) {
        fprintf(stderr, "usage: servers_drive POLL_MS FREEZE_MS TIMEOUT_MS NAME CONNINFO…\n");
        return 2;
    }
    for (int i = 4; i < argc; i += 2)
        servers[(i - 4) / 2] = (struct weir_replicas_server){ argv[i], argv[i + 1] };
    struct weir_servers_options options = {
        .servers = servers,
        .server_count = (unsigned)(argc - 4) / 2,
        .poll_ns = number(argv[1]) * MS_NS,
        .freeze_ns = number(argv[2]) * MS_NS,
        .timeout_ns = number(argv[3]) * MS_NS,
        .clock_query = getenv("CLOCK_QUERY"),
    };
    int error = weir_servers_open(&options, &drive.servers, &fault);
    if (error) {
        printf("{\"error\":\"%s\",\"field\":\"%s\"}\n", error_name(error), fault.field);
        return 1;
    }
    int status = run_lines(&drive);
    for (int i = 0; i < PLACES; i++)
        PQfinish(drive.links[i].conn);
    weir_servers_close(drive.servers);
    return status;
}
