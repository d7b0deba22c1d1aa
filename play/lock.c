/* SPDX-License-Identifier: Apache-2.0
 *
 * The service grants and renews by core/lease/holders, clients know their deadline by core/lease/deadline, and the
 * resource checks tokens by weir_mark_install and weir_mark_check (weir/fence.h). Which step comes when, and who is
 * paused, is the visitor's choice. Called by the page. */
#include "play/lock.h"

#include "base/checked.h"
#include "core/lease/deadline.h"
#include "core/lease/holders.h"
#include "weir/error.h"
#include "weir/fence.h"

#define START_NS (1000 * UINT64_C(1000000000))
#define START_VALUE 100

struct client {
    struct weir_token token;
    struct weir_deadline deadline;
    int64_t shown; /* -1: nothing */
    bool paused, installed, looked;
};

static struct {
    bool checked, late;
    uint64_t now_ns, lease_ns, next_number;
    struct weir_lease_holder out[1];
    struct weir_holders holders;
    struct weir_token mark;
    int64_t value, acknowledged;
    struct client clients[PLAY_CLIENTS];
} world;

static const int64_t adds[PLAY_CLIENTS] = { 10, 5, 1 };

static void forget(struct client *client)
{
    *client = (struct client){ .shown = -1 };
}

void play_lock_begin(bool checked, bool late, double lease_ns)
{
    world.checked = checked;
    world.late = late;
    world.now_ns = START_NS;
    world.lease_ns = (uint64_t)lease_ns;
    world.next_number = 1;
    world.holders = (struct weir_holders){ .out = world.out, .max = 1 };
    world.mark = (struct weir_token){ 0, 0 };
    world.value = START_VALUE;
    world.acknowledged = 0;
    for (uint32_t i = 0; i < PLAY_CLIENTS; i++)
        forget(&world.clients[i]);
}

bool play_lock_may(uint32_t client, uint32_t act)
{
    if (client >= PLAY_CLIENTS)
        return false;
    const struct client *self = &world.clients[client];
    bool has = self->token.number > 0;
    if (self->paused)
        return act == PLAY_WAKE;
    switch ((enum play_act)act) {
    case PLAY_ACQUIRE:
        return !has;
    case PLAY_INSTALL:
        return has && !self->installed && (!world.late || self->shown >= 0);
    case PLAY_READ:
        return has && (world.late || self->installed);
    case PLAY_LOOK:
        return self->shown >= 0;
    case PLAY_WRITE:
        return self->looked;
    case PLAY_RENEW:
    case PLAY_RELEASE:
        return has;
    case PLAY_PAUSE:
        return true;
    case PLAY_WAKE:
    case PLAY_ACTS:
        break;
    }
    return false;
}

/* ---- at the service ---- */

static int acquire(struct client *client, uint64_t id)
{
    struct weir_lease_holder holder;
    enum weir_holders_answer answer = weir_holders_take(&world.holders, id, world.next_number, world.lease_ns,
                                                        world.now_ns, &holder);
    if (answer == WEIR_HOLDERS_HELD)
        return WEIR_EHELD;
    world.next_number += answer == WEIR_HOLDERS_GRANTED;
    forget(client);
    client->token = (struct weir_token){ 1, holder.number };
    weir_deadline_begin(&client->deadline, world.now_ns, world.lease_ns);
    return 0;
}

static int renew(struct client *client, uint64_t id)
{
    struct weir_lease_holder holder;
    if (!weir_holders_renew(&world.holders, id, world.lease_ns, world.now_ns, &holder) ||
        holder.number != client->token.number ||
        !weir_deadline_extend(&client->deadline, world.now_ns, world.lease_ns, world.now_ns)) {
        forget(client);
        return WEIR_ELOST;
    }
    return 0;
}

static int release(struct client *client, uint64_t id)
{
    weir_holders_expire(&world.holders, world.now_ns);
    const struct weir_lease_holder *holder = weir_holders_of(&world.holders, id);
    if (holder && holder->number == client->token.number)
        (void)weir_holders_release(&world.holders, id, world.now_ns);
    forget(client);
    return 0;
}

/* ---- at the resource ---- */

/* Without the check nobody looks at tokens there. A client that is told it was replaced ends. */
static int fenced(struct client *client, int error)
{
    if (error == WEIR_EFENCED)
        forget(client);
    return error;
}

static int install(struct client *client)
{
    int error = world.checked ? weir_mark_install(&world.mark, client->token) : 0;
    client->installed = error == 0;
    return fenced(client, error);
}

static int write_back(struct client *client, int64_t add)
{
    int error = world.checked ? weir_mark_check(&world.mark, client->token) : 0;
    if (error != 0)
        return fenced(client, error);
    world.value = client->shown + add;
    world.acknowledged += add;
    client->shown = -1;
    client->looked = false;
    return 0;
}

/* ---- at the client ---- */

static int look(struct client *client)
{
    client->looked = weir_deadline_mine(&client->deadline, world.now_ns);
    if (!client->looked)
        forget(client);
    return client->token.number > 0 ? 0 : WEIR_ELOST;
}

int play_lock_do(uint32_t client, uint32_t act)
{
    if (!play_lock_may(client, act))
        return PLAY_NOT_NOW;
    struct client *self = &world.clients[client];
    switch ((enum play_act)act) {
    case PLAY_ACQUIRE:
        return acquire(self, client + 1);
    case PLAY_INSTALL:
        return install(self);
    case PLAY_READ:
        self->shown = world.value;
        self->looked = false;
        return 0;
    case PLAY_LOOK:
        return look(self);
    case PLAY_WRITE:
        return write_back(self, adds[client]);
    case PLAY_RENEW:
        return renew(self, client + 1);
    case PLAY_RELEASE:
        return release(self, client + 1);
    case PLAY_PAUSE:
    case PLAY_WAKE:
        self->paused = act == PLAY_PAUSE;
        return 0;
    case PLAY_ACTS:
        break;
    }
    return PLAY_NOT_NOW;
}

void play_lock_wait(double ns)
{
    world.now_ns += (uint64_t)ns;
}

double play_lock_world(uint32_t what)
{
    weir_holders_expire(&world.holders, world.now_ns);
    bool held = world.holders.count > 0;
    const double numbers[PLAY_WORLDS] = {
        [PLAY_WORLD_NOW_NS] = (double)(world.now_ns - START_NS),
        [PLAY_WORLD_VALUE] = (double)world.value,
        [PLAY_WORLD_ACKNOWLEDGED] = (double)world.acknowledged,
        [PLAY_WORLD_LOST] = (double)(START_VALUE + world.acknowledged - world.value),
        [PLAY_WORLD_MARK] = (double)world.mark.number,
        [PLAY_WORLD_HOLDER] = held ? (double)world.out[0].id : 0,
        [PLAY_WORLD_LEASE_NS] = held ? (double)(world.out[0].end_ns - world.now_ns) : 0,
    };
    return what < PLAY_WORLDS ? numbers[what] : 0;
}

double play_lock_client(uint32_t client, uint32_t what)
{
    const struct client *self = &world.clients[client % PLAY_CLIENTS];
    const double numbers[PLAY_OF_CLIENTS] = {
        [PLAY_CLIENT_TOKEN] = (double)self->token.number,
        [PLAY_CLIENT_PAUSED] = self->paused,
        [PLAY_CLIENT_SHOWN] = (double)self->shown,
        [PLAY_CLIENT_INSTALLED] = self->installed,
        [PLAY_CLIENT_LOOKED] = self->looked,
        [PLAY_CLIENT_LEFT_NS] = self->token.number > 0 ? (double)weir_deadline_left_ns(&self->deadline, world.now_ns)
                                                       : 0,
        [PLAY_CLIENT_ADDS] = (double)adds[client % PLAY_CLIENTS],
    };
    return what < PLAY_OF_CLIENTS ? numbers[what] : 0;
}

const char *play_error(int error)
{
    return weir_error_text(error);
}
