/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory store: shards by hash, each with a lock, a table of fixed slots with chains, and the order in which its
 * users were heard of. A user is known by 128 bits of two keyed hashes of its name: two that share them would share a
 * token that is right for both. A token of one place stands in the slot, one of several in memory of its own.
 *
 * Locks: a shard's, then the floor's. Nothing is asked under either. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/siphash.h"
#include "sessions/users_inside.h"

#define SHARDS_MAX 64
#define SHARD_USERS_MIN 1024 /* fewer users have fewer shards: an uneven spread evicts too early */

struct slot {
    uint64_t hash[2];
    uint64_t wrote_ns, stamp_ns, clock;
    union {
        struct {
            uint64_t system, position, run;
        } one;
        struct weir_place *many; /* of `count` places */
    } place;
    uint32_t timeline; /* of the one place */
    uint32_t branch;
    uint32_t next;         /* of its bucket, or of the free ones; 0 = none: slots[0] is not used */
    uint32_t older, newer; /* by when they were heard of */
    uint8_t count;
    bool standby;  /* of the one place */
    uint32_t owes; /* of the floor's: it was not found, and perhaps lost something that was kept then */
};

struct shard {
    pthread_mutex_t lock;
    struct slot *slots;
    uint32_t *buckets;
    uint32_t mask; /* buckets - 1 */
    uint32_t slots_max, slots_used;
    uint32_t newest, oldest, unused;
    uint32_t users;
    uint64_t evicted;
    uint64_t many_bytes;
};

struct memory {
    struct weir_users users; /* first */
    struct weir_sip_key keys[2];
    unsigned shard_count; /* a power of two */
    struct shard shards[];
};

struct who {
    uint64_t hash[2];
    struct shard *shard;
};

static struct who who_is(struct memory *memory, struct weir_users_name name)
{
    struct who who = { { weir_siphash(&memory->keys[0], name.data, name.size),
                         weir_siphash(&memory->keys[1], name.data, name.size) },
                       NULL };
    who.shard = &memory->shards[who.hash[1] & (memory->shard_count - 1)];
    return who;
}

/* ---- one slot ---- */

static void unpack(const struct slot *slot, struct weir_session_token *ret_token)
{
    *ret_token = (struct weir_session_token){
        .wrote_ns = slot->wrote_ns, .stamp_ns = slot->stamp_ns, .clock = slot->clock, .count = slot->count
    };
    if (slot->count > 1)
        memcpy(ret_token->places, slot->place.many, slot->count * sizeof(struct weir_place));
    else if (slot->count == 1)
        ret_token->places[0] = (struct weir_place){ .system = slot->place.one.system,
                                                    .position = slot->place.one.position,
                                                    .run = slot->place.one.run,
                                                    .timeline = slot->timeline,
                                                    .standby = slot->standby,
                                                    .branch = slot->branch };
}

static void places_free(struct shard *shard, struct slot *slot)
{
    if (slot->count > 1) {
        free(slot->place.many);
        shard->many_bytes -= slot->count * sizeof(struct weir_place);
    }
    slot->count = 0;
}

/* Memory for the places of a token, before anything is changed. False: there is none. */
static bool places_take(const struct weir_session_token *token, struct weir_place **ret_many)
{
    *ret_many = NULL;
    if (token->count < 2)
        return true;
    size_t size = token->count * sizeof(struct weir_place);
    *ret_many = malloc(size);
    if (*ret_many)
        memcpy(*ret_many, token->places, size);
    return *ret_many != NULL;
}

static void pack(struct shard *shard, struct slot *slot, const struct weir_session_token *token,
                 struct weir_place *many)
{
    places_free(shard, slot);
    slot->wrote_ns = token->wrote_ns;
    slot->stamp_ns = token->stamp_ns;
    slot->clock = token->clock;
    slot->count = (uint8_t)token->count;
    if (many) {
        slot->place.many = many;
        shard->many_bytes += token->count * sizeof(struct weir_place);
    } else if (token->count == 1) {
        const struct weir_place *place = &token->places[0];
        slot->place.one.system = place->system;
        slot->place.one.position = place->position;
        slot->place.one.run = place->run;
        slot->timeline = place->timeline;
        slot->standby = place->standby;
        slot->branch = place->branch;
    }
}

/* ---- one shard, under its lock ---- */

static uint32_t *bucket_of(struct shard *shard, const uint64_t hash[2])
{
    return &shard->buckets[hash[0] & shard->mask];
}

static uint32_t find(struct shard *shard, const struct who *who)
{
    uint32_t at = *bucket_of(shard, who->hash);
    while (at && (shard->slots[at].hash[0] != who->hash[0] || shard->slots[at].hash[1] != who->hash[1]))
        at = shard->slots[at].next;
    return at;
}

static void order_remove(struct shard *shard, uint32_t at)
{
    struct slot *slot = &shard->slots[at];
    *(slot->newer ? &shard->slots[slot->newer].older : &shard->newest) = slot->older;
    *(slot->older ? &shard->slots[slot->older].newer : &shard->oldest) = slot->newer;
}

static void order_first(struct shard *shard, uint32_t at)
{
    shard->slots[at].older = shard->newest;
    shard->slots[at].newer = 0;
    *(shard->newest ? &shard->slots[shard->newest].newer : &shard->oldest) = at;
    shard->newest = at;
}

static void heard_of(struct shard *shard, uint32_t at)
{
    if (shard->newest == at)
        return;
    order_remove(shard, at);
    order_first(shard, at);
}

/* The floor knows what it had seen before it is gone. */
static void evict(struct memory *memory, struct shard *shard, const struct weir_known *known)
{
    uint32_t at = shard->oldest;
    struct slot *slot = &shard->slots[at];
    struct weir_session_token token;
    unpack(slot, &token);
    weir_users_floor_keep(&memory->users.floor, &token, known);
    uint32_t *link = bucket_of(shard, slot->hash);
    while (*link != at)
        link = &shard->slots[*link].next;
    *link = slot->next;
    order_remove(shard, at);
    places_free(shard, slot);
    slot->next = shard->unused;
    shard->unused = at;
    shard->users--;
    shard->evicted++;
}

static uint32_t slot_take(struct memory *memory, struct shard *shard, const struct weir_known *known)
{
    if (!shard->unused && shard->slots_used == shard->slots_max)
        evict(memory, shard, known);
    if (!shard->unused)
        return ++shard->slots_used;
    uint32_t at = shard->unused;
    shard->unused = shard->slots[at].next;
    return at;
}

static int insert(struct memory *memory, const struct who *who, const struct weir_known *known,
                  const struct weir_session_token *token, uint32_t owes)
{
    struct shard *shard = who->shard;
    struct weir_place *many;
    if (!places_take(token, &many))
        return WEIR_ENOMEM;
    uint32_t at = slot_take(memory, shard, known);
    struct slot *slot = &shard->slots[at];
    memcpy(slot->hash, who->hash, sizeof slot->hash);
    uint32_t *bucket = bucket_of(shard, who->hash);
    slot->next = *bucket;
    *bucket = at;
    slot->count = 0;
    slot->owes = owes;
    pack(shard, slot, token, many);
    order_first(shard, at);
    shard->users++;
    return 0;
}

static int replace(struct shard *shard, uint32_t at, const struct weir_session_token *token)
{
    struct weir_place *many;
    if (!places_take(token, &many))
        return WEIR_ENOMEM;
    pack(shard, &shard->slots[at], token, many);
    heard_of(shard, at);
    return 0;
}

/* ---- what users.h says ---- */

static struct memory *memory_of(struct weir_users *users)
{
    return (struct memory *)(void *)users;
}

static int memory_get(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
                      struct weir_session_token *ret_token)
{
    struct memory *memory = memory_of(users);
    struct who who = who_is(memory, name);
    struct weir_session_token token = { 0 };
    uint64_t deadline_ns = weir_users_now_ns() + users->timeout_ns;
    uint32_t owes = 0;
    pthread_mutex_lock(&who.shard->lock);
    uint32_t at = find(who.shard, &who);
    if (at) {
        heard_of(who.shard, at);
        unpack(&who.shard->slots[at], &token);
        owes = who.shard->slots[at].owes;
    }
    pthread_mutex_unlock(&who.shard->lock);
    if (!at) {
        users->not_found++;
        weir_users_floor_tend(&users->floor, 0, deadline_ns);
        return weir_users_floor_get(&users->floor, 0, deadline_ns, known, ret_token);
    }
    users->found++;
    weir_users_floor_owe(&users->floor, owes, known, &token);
    *ret_token = token;
    return 0;
}

/* Under the shard's lock. WEIR_EAGAIN: a floor is needed, which must be asked for. */
static int merge_in(struct memory *memory, const struct who *who, const struct weir_known *known,
                    const struct weir_session_token *seen, struct weir_session_token *ret_token)
{
    struct weir_session_token token;
    uint32_t at = find(who->shard, who), owes = 0;
    if (at) {
        unpack(&who->shard->slots[at], &token);
        owes = who->shard->slots[at].owes;
    } else if (weir_users_floor_take(&memory->users.floor, known, &token, &owes) != 0) {
        return WEIR_EAGAIN;
    }
    int error = weir_session_token_merge(&token, seen, known);
    if (error)
        return error;
    error = at ? replace(who->shard, at, &token) : insert(memory, who, known, &token, owes);
    if (error)
        return error;
    if (at)
        memory->users.found++;
    else
        memory->users.not_found++;
    weir_users_floor_owe(&memory->users.floor, owes, known, &token);
    *ret_token = token;
    return 0;
}

static int memory_add(struct weir_users *users, struct weir_users_name name, const struct weir_known *known,
                      const struct weir_session_token *seen, struct weir_session_token *ret_token)
{
    struct memory *memory = memory_of(users);
    struct who who = who_is(memory, name);
    uint64_t deadline_ns = weir_users_now_ns() + users->timeout_ns;
    weir_users_floor_tend(&users->floor, 0, deadline_ns); /* a generation of the evicted may be over */
    for (;;) {
        pthread_mutex_lock(&who.shard->lock);
        int error = merge_in(memory, &who, known, seen, ret_token);
        pthread_mutex_unlock(&who.shard->lock);
        if (error != WEIR_EAGAIN)
            return error;
        struct weir_session_token floor;
        if (weir_users_floor_get(&users->floor, 0, deadline_ns, known, &floor) != 0)
            return WEIR_EDOWN;
    }
}

/* Under the shard's lock. `newest` NULL: not asked yet; WEIR_EAGAIN: it must be. */
static int put(struct memory *memory, const struct who *who, const struct weir_session_token *before,
               const struct weir_session_token *token, const struct weir_session_token *newest)
{
    uint32_t at = find(who->shard, who);
    if (at) {
        struct weir_session_token stored;
        unpack(&who->shard->slots[at], &stored);
        if (!weir_users_within(&stored, before))
            return WEIR_EBUSY;
        int error = replace(who->shard, at, token);
        if (error == 0)
            who->shard->slots[at].owes = 0;
        return error;
    }
    if (!newest)
        return WEIR_EAGAIN;
    struct weir_session_token merged = *token;
    int error = weir_session_token_merge(&merged, newest, NULL);
    return error ? error : insert(memory, who, NULL, &merged, 0);
}

static int memory_accept(struct weir_users *users, struct weir_users_name name, const struct weir_session_token *before,
                         const struct weir_session_token *token)
{
    struct memory *memory = memory_of(users);
    struct who who = who_is(memory, name);
    struct weir_session_token newest;
    pthread_mutex_lock(&who.shard->lock);
    int error = put(memory, &who, before, token, NULL);
    pthread_mutex_unlock(&who.shard->lock);
    if (error != WEIR_EAGAIN)
        return error;
    if (weir_users_floor_newest(&users->floor, weir_users_now_ns() + users->timeout_ns, &newest) != 0)
        return WEIR_EDOWN;
    pthread_mutex_lock(&who.shard->lock);
    error = put(memory, &who, before, token, &newest);
    pthread_mutex_unlock(&who.shard->lock);
    return error;
}

static void memory_stats(struct weir_users *users, struct weir_users_stats *stats)
{
    struct memory *memory = memory_of(users);
    stats->bytes = sizeof(struct memory) + memory->shard_count * sizeof(struct shard);
    for (unsigned i = 0; i < memory->shard_count; i++) {
        struct shard *shard = &memory->shards[i];
        pthread_mutex_lock(&shard->lock);
        stats->users += shard->users;
        stats->evicted += shard->evicted;
        stats->bytes += shard->many_bytes + (shard->slots_max + 1) * sizeof(struct slot) +
                        ((uint64_t)shard->mask + 1) * sizeof(uint32_t);
        pthread_mutex_unlock(&shard->lock);
    }
}

/* ---- its life ---- */

static void shard_deinit(struct shard *shard)
{
    for (uint32_t at = shard->slots ? shard->newest : 0; at; at = shard->slots[at].older)
        places_free(shard, &shard->slots[at]);
    free(shard->slots);
    free(shard->buckets);
    pthread_mutex_destroy(&shard->lock);
}

static void memory_close(struct weir_users *users)
{
    struct memory *memory = memory_of(users);
    for (unsigned i = 0; i < memory->shard_count; i++)
        shard_deinit(&memory->shards[i]);
    weir_users_deinit(users);
    free(memory);
}

static const struct weir_users_ops memory_ops = {
    .get = memory_get,
    .add = memory_add,
    .accept = memory_accept,
    .stats = memory_stats,
    .close = memory_close,
};

/* Zeroed by calloc: the system gives large pieces page by page, when they are used. */
static bool shard_init(struct shard *shard, uint32_t slots_max)
{
    uint32_t buckets = 1;
    while (buckets < slots_max)
        buckets *= 2;
    shard->slots_max = slots_max;
    shard->mask = buckets - 1;
    shard->slots = calloc((size_t)slots_max + 1, sizeof(struct slot));
    shard->buckets = calloc(buckets, sizeof(uint32_t));
    return pthread_mutex_init(&shard->lock, NULL) == 0 && shard->slots && shard->buckets;
}

int weir_users_memory_open(const struct weir_users_options *options, struct weir_users **ret_users)
{
    unsigned shards = 1;
    while (shards < SHARDS_MAX && options->users_max / (2 * (uint64_t)shards) >= SHARD_USERS_MIN)
        shards *= 2;
    struct memory *memory = calloc(1, sizeof(*memory) + shards * sizeof(struct shard));
    if (!memory)
        return WEIR_ENOMEM;
    uint8_t secret[32];
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret ||
        weir_users_init(&memory->users, &memory_ops, options) != 0) {
        free(memory);
        return WEIR_ENOMEM;
    }
    memory->keys[0] = weir_sip_key_load(secret);
    memory->keys[1] = weir_sip_key_load(secret + 16);
    bool made = true;
    for (unsigned i = 0; i < shards && made; i++, memory->shard_count++)
        made = shard_init(&memory->shards[i], (uint32_t)(options->users_max / shards));
    if (!made) {
        memory_close(&memory->users);
        return WEIR_ENOMEM;
    }
    memory->shard_count = shards;
    *ret_users = &memory->users;
    return 0;
}
