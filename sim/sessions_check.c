/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sessions were promised, from the records alone. */
#include "sim/sessions_inside.h"

#define LATE_NS (5 * SESSIONS_MS) /* the ticks of the simulation, and one question */

static void broken(struct sessions *sessions, const char *what)
{
    if (sessions->result->broken)
        return;
    sessions->result->broken = what;
    sessions->result->broken_ns = sessions->now_ns;
}

void sessions_check_read(struct sessions *sessions, const struct sessions_client *client, uint32_t record)
{
    for (uint32_t i = 0; i < client->seen_count; i++)
        if (!sessions_contains(sessions, record, client->seen[i]))
            broken(sessions, "a session went back: a read shows less than it has seen");
    for (uint32_t i = 0; i < client->saw_count; i++)
        if (!sessions_contains(sessions, record, client->saw[i]))
            broken(sessions, "a session went back on one connection");
}

void sessions_check_saw(struct sessions *sessions, struct sessions_client *client, uint32_t record)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < client->seen_count; i++)
        if (!sessions_contains(sessions, record, client->seen[i]))
            client->seen[kept++] = client->seen[i];
    weir_assert(kept < SESSIONS_SEEN_MAX);
    client->seen[kept++] = record;
    client->seen_count = kept;
}

void sessions_check_time(struct sessions *sessions, const struct sessions_client *client)
{
    if (sessions->now_ns > client->give_up_ns + LATE_NS)
        broken(sessions, "a request is under way beyond the time that it gave");
}

/* Where the primary was started anew above timeline 1, one weir may know its branch by a start that another never saw:
 * docs/reads-postgres.md, "Not kept". */
void sessions_check_lost(struct sessions *sessions, const struct sessions_client *client)
{
    sessions->result->told_lost++;
    if (sessions->result->calm)
        broken(sessions, "LOST is told where nothing can be lost");
    if (client->from_calm && !sessions->renamed)
        broken(sessions, "LOST is told of what was seen in the calm at the end");
}

void sessions_check_primary(struct sessions *sessions, const struct sessions_client *client)
{
    const struct sessions_weir *weir = &sessions->weirs[client->weir];
    const struct sessions_server *server = &sessions->servers[client->server];
    for (uint32_t i = 0; i < sessions->server_count && client->chosen.primary && server->primary; i++)
        if (weir->told[i].timeline > server->timeline && weir->told[i].since_ns < client->chosen_ns)
            broken(sessions, "a request goes to a former primary, whose successor has been heard of");
}

static bool is_lost(const struct sessions *sessions, const struct sessions_client *client)
{
    for (uint32_t i = 0; i < client->seen_count; i++)
        if (!sessions_contains(sessions, sessions->servers[sessions->leader].written, client->seen[i]))
            return true;
    return false;
}

void sessions_check_end(struct sessions *sessions)
{
    for (uint32_t i = 0; i < sessions->client_count; i++) {
        const struct sessions_client *client = &sessions->clients[i];
        if (client->calm_done > 0 && is_lost(sessions, client))
            broken(sessions, "in the calm at the end a session is not told that what it saw is lost");
        if (client->calm_done > 5 && client->calm_served == 0)
            broken(sessions, "in the calm at the end a session is served by nobody");
    }
}
