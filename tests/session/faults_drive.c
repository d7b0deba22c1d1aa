/* SPDX-License-Identifier: Apache-2.0
 *
 *     faults_drive FOLDER NUMBER SEED ACTORS USERS KEYS POLL_MS FREEZE_MS TIMEOUT_MS < commands
 *
 * FOLDER/servers: a line for each, "NAME CONNINFO". The history goes to FOLDER/history-NUMBER, line by line.
 * Commands, a line each, answered with "done" when it is: add NAME CONNINFO, remove NAME, calm, busy, forge COUNT,
 * end. */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/session/token.h"
#include "faults.h"
#include "sessions/signer.h"
#include "weir/error.h"

#define SERVERS_MAX 16
#define ACTORS_MAX 64
#define LINE_SIZE 512

uint64_t drive_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void drive_record(struct drive *drive, const char *op, uint64_t start_ns, const char *format, ...)
{
    char said[600];
    va_list arguments;
    uint64_t end_ns = drive_now_ns();
    va_start(arguments, format);
    (void)vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&drive->mutex);
    fprintf(drive->history, "{\"op\":\"%s\",%s,\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64 "}\n", op, said, start_ns,
            end_ns);
    pthread_mutex_unlock(&drive->mutex);
}

static const struct weir_session_key signing[] = { { 7, "the run's keys are no secret", 28 },
                                                   { 3, "of before the rotation", 22 } };

const struct weir_session_key *drive_keys(unsigned *ret_count)
{
    *ret_count = sizeof signing / sizeof signing[0];
    return signing;
}

/* ---- forgeries ---- */

enum forgery { UNSIGNED, OTHER_KEY, DAMAGED, HIGHEST, FOREIGN, FORGERIES };

/* What the servers are of, and where they are: the place of a session that has seen the primary. */
static int honest_place(struct drive *drive, const struct weir_session_signer *signer, struct weir_session_token *ret)
{
    struct weir_session *session;
    PGconn *conn;
    char text[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    int error = weir_session_open(drive->replicas, &(struct weir_session_options){ .wait_ms = 1000 }, &session);
    if (error != 0)
        return error;
    error = weir_session_write(session, &conn);
    if (error == 0)
        error = weir_session_token(session, text, &size);
    if (error == 0)
        error = weir_session_token_read(text, size, signer, ret);
    weir_session_close(session);
    return error == 0 && ret->count == 0 ? WEIR_EAGAIN : error;
}

static int forge(enum forgery forgery, const struct weir_session_token *honest, const struct weir_session_signer *ours,
                 const struct weir_session_signer *strange, char *text, size_t *ret_size)
{
    struct weir_session_token token = *honest;
    token.count = 1;
    token.places[0].position = UINT64_MAX - 7;
    if (forgery == FOREIGN)
        token.places[0].system ^= 1;
    const struct weir_session_signer *signer = forgery == UNSIGNED ? NULL : forgery == OTHER_KEY ? strange : ours;
    int error = weir_session_token_write(&token, signer, text, ret_size);
    if (error == 0 && forgery == DAMAGED)
        text[*ret_size / 2] = text[*ret_size / 2] == 'A' ? 'B' : 'A';
    return error;
}

/* What the session was told, which is to be no connection. */
static int present(struct drive *drive, const char *text, size_t size)
{
    struct weir_session *session;
    struct weir_read read;
    PGconn *conn;
    int error = weir_session_open(drive->replicas, &(struct weir_session_options){ .behind = WEIR_BEHIND_LEADER },
                                  &session);
    if (error != 0)
        return error;
    error = weir_session_join(session, text, size);
    if (error == 0)
        error = weir_session_read(session, &read);
    if (error == WEIR_EBEHIND || error == WEIR_EDOWN) { /* of the servers, not of the token */
        int wrote = weir_session_write(session, &conn);
        error = wrote == 0 ? 0 : error;
    }
    weir_session_close(session);
    return error;
}

void drive_forge(struct drive *drive, unsigned count)
{
    static const struct weir_session_key strange_key = { 7, "not what the others have", 24 };
    static const int expected[FORGERIES] = { WEIR_EFORGED, WEIR_EFORGED, WEIR_EFORGED, WEIR_ECUTOFF, WEIR_EFOREIGN };
    struct weir_signer *ours = NULL, *strange = NULL;
    struct weir_session_token honest = { 0 };
    unsigned key_count, told[FORGERIES] = { 0 }, down = 0, wrong = 0;
    const struct weir_session_key *keys = drive_keys(&key_count);
    uint64_t start_ns = drive_now_ns();
    int last = 0;
    if (weir_signer_create(keys, key_count, &ours, NULL) != 0 ||
        weir_signer_create(&strange_key, 1, &strange, NULL) != 0)
        abort();
    int error = honest_place(drive, weir_signer_of(ours), &honest);
    for (unsigned i = 0; error == 0 && i < count; i++) {
        enum forgery forgery = (enum forgery)(i % FORGERIES);
        char text[WEIR_SESSION_TOKEN_MAX];
        size_t size;
        if (forge(forgery, &honest, weir_signer_of(ours), weir_signer_of(strange), text, &size) != 0)
            abort();
        int said = present(drive, text, size);
        if (said == expected[forgery] || (forgery == DAMAGED && said == WEIR_EPROTO))
            told[forgery]++;
        else if (said == WEIR_EBEHIND || said == WEIR_EDOWN || said == WEIR_ELIMIT)
            down++;
        else {
            wrong++;
            last = said;
        }
    }
    drive_record(drive, "forged", start_ns,
                 "\"refused\":[%u,%u,%u,%u,%u],\"down\":%u,\"wrong\":%u,\"last\":\"%s\",\"error\":\"%s\"", told[0],
                 told[1], told[2], told[3], told[4], down, wrong, weir_error_name(last), weir_error_name(error));
    weir_signer_destroy(ours);
    weir_signer_destroy(strange);
}

/* ---- servers ---- */

/* "NAME CONNINFO" */
static bool split(char *line, struct weir_replicas_server *ret_server)
{
    char *space = strchr(line, ' ');
    line[strcspn(line, "\n")] = '\0';
    if (!space)
        return false;
    *space = '\0';
    *ret_server = (struct weir_replicas_server){ line, space + 1 };
    return true;
}

static int open_replicas(struct drive *drive, char **argv)
{
    static char lines[SERVERS_MAX][LINE_SIZE]; /* read once, by one thread */
    struct weir_replicas_server servers[SERVERS_MAX];
    struct weir_fault fault = { 0 };
    unsigned count = 0, key_count;
    char path[256];
    (void)snprintf(path, sizeof path, "%s/servers", drive->folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return WEIR_EIO;
    while (count < SERVERS_MAX && fgets(lines[count], LINE_SIZE, file) && split(lines[count], &servers[count]))
        count++;
    fclose(file);
    const struct weir_replicas_options options = {
        .servers = servers,
        .server_count = count,
        .poll_ms = (unsigned)atoi(argv[0]),
        .freeze_ms = (unsigned)atoi(argv[1]),
        .timeout_ms = (unsigned)atoi(argv[2]),
        .keys = drive_keys(&key_count),
        .key_count = key_count,
    };
    int error = weir_replicas_open(&options, &drive->replicas, &fault);
    if (error != 0)
        fprintf(stderr, "%s: %s %s\n", weir_error_name(error), fault.field, fault.text);
    return error;
}

static void obey(struct drive *drive, char *line)
{
    struct weir_replicas_server server;
    int error = 0;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "add ", 4) == 0)
        error = split(line + 4, &server) ? weir_replicas_add(drive->replicas, &server, NULL) : WEIR_EINVAL;
    else if (strncmp(line, "remove ", 7) == 0)
        error = weir_replicas_remove(drive->replicas, line + 7);
    else if (strncmp(line, "forge ", 6) == 0)
        drive_forge(drive, (unsigned)atoi(line + 6));
    else if (strcmp(line, "end") == 0)
        atomic_store(&drive->over, true);
    else
        atomic_store(&drive->calm, strcmp(line, "calm") == 0);
    puts(error == 0 ? "done" : weir_error_name(error));
    fflush(stdout);
}

/* ---- the process ---- */

int main(int argc, char **argv)
{
    static struct actor actors[ACTORS_MAX];
    if (argc != 10) {
        fputs("Usage: faults_drive FOLDER NUMBER SEED ACTORS USERS KEYS POLL_MS FREEZE_MS TIMEOUT_MS\n", stderr);
        return 2;
    }
    struct drive drive = { .folder = argv[1],
                           .number = (unsigned)atoi(argv[2]),
                           .seed = strtoull(argv[3], NULL, 10),
                           .users = (unsigned)atoi(argv[5]),
                           .keys = (unsigned)atoi(argv[6]),
                           .mutex = PTHREAD_MUTEX_INITIALIZER };
    unsigned count = (unsigned)atoi(argv[4]);
    char path[256], line[LINE_SIZE];
    (void)snprintf(path, sizeof path, "%s/history-%u", drive.folder, drive.number);
    drive.history = fopen(path, "w");
    if (!drive.history || count > ACTORS_MAX || drive.keys > DRIVE_KEYS_MAX || open_replicas(&drive, argv + 7) != 0)
        return 2;
    setvbuf(drive.history, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < count; i++) {
        struct actor *actor = &actors[i];
        *actor = (struct actor){ .drive = &drive, .user = i % drive.users };
        actor->random.state = drive.seed * 1000003 + drive.number * 1009 + i;
        (void)snprintf(actor->name, sizeof actor->name, "p%us%u", drive.number, i);
        if (pthread_create(&actor->thread, NULL, actor_main, actor) != 0)
            return 2;
    }
    while (!atomic_load(&drive.over) && fgets(line, sizeof line, stdin))
        obey(&drive, line);
    atomic_store(&drive.over, true);
    for (unsigned i = 0; i < count; i++)
        pthread_join(actors[i].thread, NULL);
    weir_replicas_close(drive.replicas);
    return fclose(drive.history) == 0 ? 0 : 2;
}
