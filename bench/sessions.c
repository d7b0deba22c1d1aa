/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_sessions: what a session's read costs before anything is sent: choosing among 3 and 16 servers by the token,
 * alone and with reading, verifying, moving and writing a signed token. Prints the median of some samples, and leaves
 * with 1 where a figure is above the one that docs/reads.md names. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/session/route.h"
#include "sessions/signer.h"

#define CHUNK 4096
#define SERVERS_MAX 16
#define SAMPLES 9
#define SAMPLE_NS (100 * UINT64_C(1000000))
#define CHOOSE_NS_MAX 1000
#define SIGNED_NS_MAX 5000
#define SYSTEM UINT64_C(7570000000000000000)
#define POSITION UINT64_C(0x16B374D848)

/* A primary and standbys, one of them too far behind; a failover has been, and its history is known. */
struct subject {
    struct weir_route_server servers[SERVERS_MAX];
    unsigned count;
    struct weir_known known;
    struct weir_session_token token;
    const struct weir_session_signer *signer;
    char text[WEIR_SESSION_TOKEN_MAX];
    size_t text_size;
};

static void check(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, weir_error_text(error));
        exit(1);
    }
}

/* timeline: of the token. 1: the history has to be looked at for each server. */
static void set_up(struct subject *subject, unsigned count, uint32_t timeline, const struct weir_signer *signer)
{
    const struct weir_history history = { .timeline = 2, .count = 1, .ancestors = { { 1, POSITION + 8 } } };
    const struct weir_place place = { .system = SYSTEM, .position = POSITION, .timeline = timeline };
    *subject = (struct subject){ .count = count, .signer = weir_signer_of(signer) };
    weir_known_history(&subject->known, SYSTEM, &history);
    for (unsigned i = 0; i < count; i++)
        subject->servers[i] = (struct weir_route_server){
            .id = measure_mix(i + 1),
            .usable = true,
            .asked_ns = 1,
            .shown = { .system = SYSTEM,
                       .position = POSITION + 4096 - (i == 1 ? 8192 : 0),
                       .run = 1,
                       .timeline = 2,
                       .primary = i == 0 },
        };
    check(weir_session_token_add(&subject->token, &place, &subject->known), "add");
    check(weir_session_token_write(&subject->token, subject->signer, subject->text, &subject->text_size), "write");
}

static uint32_t choose(const struct subject *subject, const struct weir_session_token *token, uint64_t session)
{
    const struct weir_route_request request = { .token = token,
                                                .known = &subject->known,
                                                .servers = subject->servers,
                                                .server_count = subject->count,
                                                .session = session,
                                                .stay = WEIR_ROUTE_NONE };
    struct weir_route route = weir_route_choose(&request);
    if (route.server == WEIR_ROUTE_NONE || route.wait || route.leader)
        check(WEIR_EINVAL, "no standby chosen");
    return route.server;
}

static uint64_t alone(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++)
        measure_keep(choose(subject, &subject->token, (*state)++));
    return CHUNK;
}

/* The token as it came, and as it goes: moved to what the server shows. */
static uint64_t with_token(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    char text[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    for (int i = 0; i < CHUNK; i++) {
        struct weir_session_token token;
        struct weir_place place;
        check(weir_session_token_read(subject->text, subject->text_size, subject->signer, &token), "read");
        uint32_t server = choose(subject, &token, (*state)++);
        check(weir_place_seen(&subject->servers[server].shown, &place), "seen");
        check(weir_session_token_add(&token, &place, &subject->known), "add");
        check(weir_session_token_write(&token, subject->signer, text, &size), "write");
        measure_keep((uint64_t)text[0] + size);
    }
    return CHUNK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In time of the processor, so that others on the machine do not count. */
static double sample(measure_chunk *chunk, struct subject *subject, uint64_t *state)
{
    uint64_t begin = measure_clock_ns(CLOCK_THREAD_CPUTIME_ID), now = begin, operations = 0;
    while (now - begin < SAMPLE_NS) {
        operations += chunk(subject, state);
        now = measure_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now - begin) / (double)operations;
}

static double median(measure_chunk *chunk, struct subject *subject)
{
    double samples[SAMPLES];
    uint64_t state = 1;
    for (unsigned i = 0; i < SAMPLES; i++)
        samples[i] = sample(chunk, subject, &state);
    qsort(samples, SAMPLES, sizeof samples[0], by_size);
    return samples[SAMPLES / 2];
}

int main(void)
{
    static const uint8_t secret[32] = "for measuring only, of 32 bytes";
    static struct subject subject;
    struct weir_signer *signer;
    bool slow = false;
    check(weir_signer_create(&(struct weir_session_key){ 1, secret, sizeof secret }, 1, &signer, NULL), "signer");
    printf("| Choosing by the token, ns | 3 servers | 16 servers | asked |\n|---|---|---|---|\n");
    for (unsigned row = 0; row < 4; row++) {
        static const char *const names[] = { "one timeline", "across a failover", "one timeline, signed token",
                                             "across a failover, signed token" };
        double of[2], most = row < 2 ? CHOOSE_NS_MAX : SIGNED_NS_MAX;
        for (unsigned column = 0; column < 2; column++) {
            set_up(&subject, column == 0 ? 3 : SERVERS_MAX, row % 2 ? 1 : 2, signer);
            of[column] = median(row < 2 ? alone : with_token, &subject);
            slow |= of[column] >= most;
        }
        printf("| %s | %.0f | %.0f | < %.0f |\n", names[row], of[0], of[1], most);
    }
    weir_signer_destroy(signer);
    return slow;
}
