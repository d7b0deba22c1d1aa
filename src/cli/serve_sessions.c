/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the servers only their number is printed, and of the users only where they are kept: a URL may hold a password.
 * For a reload every setting of the section goes into one hash. Called by serve.c and serve_config.c; the sessions
 * themselves are served by serve/sessions.c. */
#include "cli/serve_sessions.h"

#include <stdio.h>
#include <string.h>

#include "cli/serve_warn.h"

static const char *users_name(struct weir_slice users)
{
    bool redis = users.size > 5 && memcmp(users.data, "redis", 5) == 0;
    return users.size == 0 ? "memory" : redis ? "redis" : "postgresql";
}

void weir_cli_sessions_print(const struct weir_config *config)
{
    const struct weir_config_sessions *sessions = &config->sessions;
    if (sessions->servers_count == 0)
        return;
    printf("weir: sessions over %zu server%s, users in %s\n", sessions->servers_count,
           sessions->servers_count == 1 ? "" : "s", users_name(sessions->users));
    if (sessions->keys_count == 0)
        weir_serve_warn(config, "sessions: no keys: tokens are signed with a random one and end with this process, and "
                                "no other node takes them");
}

static void add_bytes(struct weir_siphash_state *state, const void *data, size_t size)
{
    weir_siphash_add(state, &size, sizeof(size));
    weir_siphash_add(state, data, size);
}

void weir_cli_sessions_add(struct weir_siphash_state *state, const struct weir_config_sessions *sessions)
{
    const uint64_t numbers[] = { sessions->users_max,  sessions->ttl_ns,    sessions->poll_ns,    sessions->freeze_ns,
                                 sessions->timeout_ns, sessions->window_ns, sessions->waiters_max };
    const char *table = sessions->branch_table ? sessions->branch_table : "";
    for (size_t i = 0; i < sessions->servers_count; i++) {
        add_bytes(state, sessions->servers[i].name, strlen(sessions->servers[i].name));
        add_bytes(state, sessions->servers[i].url.data, sessions->servers[i].url.size);
    }
    add_bytes(state, sessions->users.data, sessions->users.size);
    add_bytes(state, table, strlen(table));
    for (size_t i = 0; i < sessions->keys_count; i++) {
        weir_siphash_add(state, &sessions->keys[i].id, sizeof(sessions->keys[i].id));
        add_bytes(state, sessions->keys[i].key.data, sessions->keys[i].key.size);
    }
    weir_siphash_add(state, numbers, sizeof(numbers));
}
