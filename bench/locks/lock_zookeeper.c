/* SPDX-License-Identifier: Apache-2.0
 *
 * ZooKeeper by its C client: an acquire creates an ephemeral node, a release deletes it. The session is kept. */
#include "lock_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

struct lock_client {
    zhandle_t *handle;
    char path[32];
};

static void watch(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)type, (void)state, (void)path, (void)context;
}

struct lock_client *lock_client_open(const char *address, unsigned number)
{
    struct lock_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    client->handle = zookeeper_init(address, watch, 15000, NULL, NULL, 0);
    snprintf(client->path, sizeof client->path, "/bench%03u", number);
    for (int i = 0; client->handle && zoo_state(client->handle) != ZOO_CONNECTED_STATE; i++) {
        if (i == 5000) {
            fprintf(stderr, "%s: no connection\n", address);
            zookeeper_close(client->handle);
            client->handle = NULL;
        }
        usleep(1000);
    }
    if (!client->handle) {
        free(client);
        return NULL;
    }
    return client;
}

static bool said(const char *what, int error)
{
    if (error != ZOK)
        fprintf(stderr, "%s: %s\n", what, zerror(error));
    return error == ZOK;
}

bool lock_client_acquire(struct lock_client *client)
{
    return said("create",
                zoo_create(client->handle, client->path, "owner", 5, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
}

bool lock_client_release(struct lock_client *client)
{
    return said("delete", zoo_delete(client->handle, client->path, -1));
}

void lock_client_close(struct lock_client *client)
{
    zookeeper_close(client->handle);
    free(client);
}
