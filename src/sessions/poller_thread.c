/* SPDX-License-Identifier: Apache-2.0
 *
 * When a poller asks: every poll_ns; every 2 ms while somebody waits for news; at once for who waits for this server;
 * more rarely where it does not answer. */
#include <string.h>

#include "base/checked.h"
#include "base/timing.h"
#include "sessions/servers_inside.h"

#define WAITED_NS UINT64_C(2000000)
#define HURRIED_NS UINT64_C(200000)
#define RETRY_MIN_NS UINT64_C(20000000)
#define RETRY_MAX_NS UINT64_C(500000000)

static uint64_t due_ns(const struct weir_poller *poller, uint64_t begun_ns)
{
    const struct weir_servers *servers = poller->servers;
    uint64_t poll_ns = servers->options.poll_ns;
    if (poller->hurry)
        return begun_ns + HURRIED_NS;
    if (poller->failures > 0) {
        unsigned doublings = poller->failures < 6 ? poller->failures - 1 : 5;
        return begun_ns +
               weir_min_u64(weir_max_u64(poll_ns, RETRY_MIN_NS) << doublings, weir_max_u64(poll_ns, RETRY_MAX_NS));
    }
    return begun_ns + (servers->waiting > 0 ? weir_min_u64(poll_ns, WAITED_NS) : poll_ns);
}

/* With the lock. */
static void sleep_until_due(struct weir_poller *poller, uint64_t begun_ns)
{
    struct weir_servers *servers = poller->servers;
    uint64_t until_ns;
    while (!poller->stop && (until_ns = due_ns(poller, begun_ns)) > weir_ask_now_ns())
        (void)weir_timing_wait(&servers->wake, &servers->lock, until_ns);
}

void *weir_poller_main(void *argument)
{
    struct weir_poller *poller = argument;
    struct weir_servers *servers = poller->servers;
    char fault[WEIR_ASK_TEXT_SIZE] = "";
    pthread_mutex_lock(&servers->lock);
    while (!poller->stop) {
        struct weir_known known = servers->health.known;
        bool waited = servers->waiting > 0 || poller->hurry;
        uint64_t begun_ns = weir_ask_now_ns();
        poller->hurry = false;
        if (!poller->generation)
            poller->generation = ++servers->generations;
        pthread_mutex_unlock(&servers->lock);
        struct weir_poll_result answer;
        int error = weir_poller_ask(poller, &known, waited, &answer, fault);
        pthread_mutex_lock(&servers->lock);
        if (poller->stop)
            break;
        if (error) {
            poller->failures++;
            weir_servers_fail(servers, poller, fault);
        } else {
            poller->failures = 0;
            if (!poller->generation)
                poller->generation = ++servers->generations;
            answer.remark.generation = poller->generation;
            weir_servers_store(servers, poller, &answer);
        }
        sleep_until_due(poller, begun_ns);
    }
    pthread_mutex_unlock(&servers->lock);
    weir_poller_drop(poller);
    return NULL;
}
