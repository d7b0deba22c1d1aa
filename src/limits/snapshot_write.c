/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a limiter's keys into a file, a few lines of the table at a time (weir/snapshot.h), while others decide. Each
 * step has the limiter's background work to itself, so no limits are replaced within one. What is replaced between two
 * begins the writing anew: an entry may have moved by then to where the reading has been. The bytes are
 * wire/snapshot.c's; restoring is snapshot_restore.c. Called by serve/saver.c and by who embeds libweir. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/folder.h"
#include "base/whole.h"
#include "limits/snapshot_fd.h"
#include "limits/snapshot_inside.h"

/* A reading that takes longer compares times across too wide a gap. (A clock that jumped.) */
#define READING_MAX_NS (3600 * WEIR_NS_PER_SECOND)

struct weir_snapshot_writer {
    struct weir_limiter *limiter;
    char path[WEIR_SNAPSHOT_PATH_MAX + 1],
        beside[WEIR_SNAPSHOT_PATH_MAX + 8]; /* where it will be, and where it is written */
    int fd;
    struct weir_snapshot_head head;
    struct weir_moment moment; /* of this step */
    struct weir_sip_key key;
    uint64_t cursor;
    bool reading; /* a reading has begun, */
    bool rewinds; /* and the file not yet; */
    bool defines; /* not all definitions are in it */
    uint64_t generation, widenings;
    uint64_t place;       /* of the next block */
    uint64_t definitions; /* so many have been put */
    struct weir_snapshot_stats stats;
    int error;         /* errno of a write that failed; 0 */
    uint32_t *numbers; /* by a limit's number in the table: its number in the file; 0: it has none */
    struct weir_snapshot_block block;
    uint64_t *ring; /* for a log that is carried over: WEIR_SNAPSHOT_WORDS_MAX words */
};

/* ---- the file ---- */

static void write_all(struct weir_snapshot_writer *writer, const uint8_t *bytes, size_t size)
{
    if (writer->error == 0 && !weir_whole_write(writer->fd, bytes, size))
        writer->error = errno;
    writer->stats.bytes += size;
}

static void flush(struct weir_snapshot_writer *writer, enum weir_snapshot_kind kind)
{
    if (writer->block.size == 0)
        return;
    size_t size = weir_snapshot_seal(&writer->block, kind, writer->place++, &writer->key);
    write_all(writer, writer->block.bytes, size);
    writer->block.size = 0;
}

/* Where there is no path the descriptor is the caller's: from its beginning. */
static int put_in_place(struct weir_snapshot_writer *writer, struct weir_fault *ret_fault)
{
    if (writer->error == 0 && !writer->path[0]) {
        writer->error = lseek(writer->fd, 0, SEEK_SET) == 0 ? 0 : errno;
        return writer->error ? weir_snapshot_io_fault("write", "memory", writer->error, ret_fault) : 0;
    }
    if (writer->error == 0 && fsync(writer->fd))
        writer->error = errno;
    if (writer->error == 0 && rename(writer->beside, writer->path))
        writer->error = errno;
    if (writer->error)
        return weir_snapshot_io_fault("write", writer->path, writer->error, ret_fault);
    close(writer->fd);
    writer->fd = -1;
    writer->error = weir_folder_sync(writer->path);
    return writer->error ? weir_snapshot_io_fault("sync the folder of", writer->path, writer->error, ret_fault) : 0;
}

/* ---- what is written ---- */

/* The secret, from the key that was made of it. */
static void store_secret(const struct weir_sip_key *key, uint8_t ret_secret[WEIR_SNAPSHOT_SECRET_BYTES])
{
    weir_little_put(weir_little_put(ret_secret, key->k0, 8), key->k1, 8);
}

static void number_definitions(struct weir_snapshot_writer *writer)
{
    const struct weir_limiter *limiter = writer->limiter;
    memset(writer->numbers, 0, (WEIR_SLOT_LIMIT_MAX + 1) * sizeof *writer->numbers);
    for (uint32_t i = 0; i < WEIR_RAW_COUNT; i++)
        writer->numbers[WEIR_RAW_FIRST + i] = WEIR_RAW_FIRST + i;
    for (size_t i = 0; i < limiter->current_count; i++)
        writer->numbers[weir_id_number(limiter->current[i]->terms.id)] = WEIR_SNAPSHOT_FIRST + (uint32_t)i;
}

/* From the beginning: what is in the file goes. */
static void begin_reading(struct weir_snapshot_writer *writer)
{
    struct weir_limiter *limiter = writer->limiter;
    weir_table_read_end(&limiter->table, &writer->cursor);
    writer->stats = (struct weir_snapshot_stats){ 0 };
    writer->place = writer->definitions = 0;
    writer->block.size = 0;
    writer->generation = limiter->generation;
    /* What has begun and is not done may move past us as well: the next step finds it, and begins anew. */
    writer->widenings = __atomic_load_n(&limiter->widenings_done, __ATOMIC_SEQ_CST);
    writer->head.moment = writer->moment;
    writer->head.fallen_from_ns = __atomic_load_n(&limiter->wall.fallen_from_ns, __ATOMIC_ACQUIRE);
    writer->head.fallen_at_ns = __atomic_load_n(&limiter->wall.fallen_at_ns, __ATOMIC_ACQUIRE);
    writer->head.wall_high_ns = __atomic_load_n(&limiter->wall.high_ns, __ATOMIC_ACQUIRE);
    writer->head.permits = __atomic_load_n(&limiter->permits, __ATOMIC_RELAXED);
    writer->head.shard_bits = limiter->table.shard_bits;
    number_definitions(writer);
    writer->reading = writer->rewinds = true;
}

static bool is_full(const struct weir_snapshot_writer *writer)
{
    return writer->block.size >= WEIR_SNAPSHOT_BLOCK_FULL;
}

/* False: all of them are in a block. */
static bool put_definitions(struct weir_snapshot_writer *writer)
{
    const struct weir_limiter *limiter = writer->limiter;
    for (; writer->definitions < limiter->current_count && !is_full(writer); writer->definitions++) {
        const struct weir_record *record = limiter->current[writer->definitions];
        struct weir_snapshot_definition definition = {
            .def = { record->name, record->variant, record->spec },
            .debt_units = record->terms.limit.debt_units,
            .debt_until_ns = record->terms.limit.debt_until_ns,
        };
        definition.def.spec.tz = record->tz;
        weir_snapshot_put_definition(&writer->block, &definition);
    }
    return writer->definitions < limiter->current_count;
}

/* Whether an entry may have moved to where the reading has been, or gone to another limit. */
static bool is_spoilt(const struct weir_snapshot_writer *writer, uint64_t now_ns)
{
    const struct weir_limiter *limiter = writer->limiter;
    uint64_t begun_ns = writer->head.moment.now_ns;
    return writer->generation != limiter->generation ||
           writer->widenings != __atomic_load_n(&limiter->widenings_begun, __ATOMIC_SEQ_CST) ||
           (now_ns > begun_ns ? now_ns - begun_ns : begun_ns - now_ns) > READING_MAX_NS;
}

/* The state of an entry of a limit that was replaced, and that found no room under the new one yet, as if it had. Its
 * log is a copy. False: nothing of it is carried over. */
static bool carry_over(struct weir_snapshot_writer *writer, const struct weir_record *from,
                       const struct weir_record *to, struct weir_state *state)
{
    static const struct weir_key no_key = { 0 };
    const struct weir_time time = { writer->moment.now_ns, writer->moment.wall_ns };
    const struct weir_limit *limit = &to->terms.limit;
    const struct weir_event event = weir_event_make(writer->limiter, &to->terms, &no_key, 0, &time);
    const enum weir_on_change on_change = (enum weir_on_change)to->terms.on_change;
    if (on_change == WEIR_ON_CHANGE_RESET)
        return false;
    if (weir_limit_keeps_log(&from->terms.limit) || weir_limit_keeps_log(limit)) {
        uint64_t units = weir_limit_carried(&from->terms.limit, limit, on_change, state, &event);
        uint64_t room = weir_max_u64(weir_limit_room_carried(limit, state, &event, units),
                                     weir_max_u64(state->log.room, 1));
        weir_assert(room <= WEIR_SNAPSHOT_WORDS_MAX);
        weir_log_move(&state->log, writer->ring, (uint32_t)room);
    }
    weir_limit_convert(&from->terms.limit, limit, on_change, state, &event);
    return true;
}

static void put_state(struct weir_snapshot_writer *writer, const struct weir_limit *limit,
                      const struct weir_state *state, struct weir_snapshot_entry *entry)
{
    const struct weir_log *log = &state->log;
    entry->fresh_at = state->fresh_at;
    entry->a = limit->algorithm == WEIR_FIXED_WINDOW ? state->window : state->previous;
    entry->b = state->count;
    entry->words_count = log->used;
    entry->shape = weir_limit_is_bucket(limit)   ? WEIR_SNAPSHOT_NARROW
                   : weir_limit_keeps_log(limit) ? WEIR_SNAPSHOT_LOG
                                                 : WEIR_SNAPSHOT_WIDE;
    if (entry->shape == WEIR_SNAPSHOT_LOG)
        weir_snapshot_put_log(&writer->block, entry, log->times, log->room, log->head);
    else
        weir_snapshot_put_entry(&writer->block, entry);
    writer->stats.keys++;
}

/* Only copies: the entry is held meanwhile. */
static bool on_entry(void *context, uint64_t hash, const struct weir_held *seen)
{
    static const struct weir_limit raw = { .algorithm = WEIR_TOKEN_BUCKET };
    struct weir_snapshot_writer *writer = context;
    const struct weir_record *record = weir_record_at(writer->limiter, weir_pair_limit(seen->pair));
    const struct weir_record *now = record ? weir_record_now(writer->limiter, record) : NULL;
    uint32_t number = now ? weir_id_number(now->terms.id) : weir_pair_limit(seen->pair);
    struct weir_snapshot_entry entry = { .number = writer->numbers[number], .hash = hash };
    struct weir_entry stands = { .held = *seen };
    const struct weir_limit *limit = record ? &record->terms.limit : &raw;
    if (entry.number == 0) /* of a limit that was removed */
        return true;
    weir_entry_unpack(writer->limiter, limit, &stands);
    if (now == record || carry_over(writer, record, now, &stands.state))
        put_state(writer, now ? &now->terms.limit : limit, &stands.state, &entry);
    return !is_full(writer);
}

/* ---- one after the other ---- */

/* Without a file yet. */
static int begin(struct weir_limiter *limiter, const void *note, size_t note_size,
                 struct weir_snapshot_writer **ret_writer, struct weir_fault *ret_fault)
{
    if (note_size > WEIR_SNAPSHOT_NOTE_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "note", "must be at most 64 bytes");
    struct weir_snapshot_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    writer->limiter = limiter;
    writer->numbers = calloc(WEIR_SLOT_LIMIT_MAX + 1, sizeof *writer->numbers);
    writer->block.bytes = malloc(WEIR_SNAPSHOT_FRAME_BYTES + WEIR_SNAPSHOT_BLOCK_MAX + WEIR_SNAPSHOT_DIGEST_BYTES);
    writer->ring = malloc(WEIR_SNAPSHOT_WORDS_MAX * sizeof *writer->ring);
    if (!writer->numbers || !writer->block.bytes || !writer->ring) {
        weir_snapshot_end(writer);
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    }
    store_secret(&limiter->key, writer->head.secret);
    writer->key = limiter->key;
    if (note_size > 0)
        memcpy(writer->head.note, note, note_size);
    *ret_writer = writer;
    return 0;
}

int weir_snapshot_begin(struct weir_limiter *limiter, const char *path, const void *note, size_t note_size,
                        struct weir_snapshot_writer **ret_writer, struct weir_fault *ret_fault)
{
    struct weir_snapshot_writer *writer = NULL;
    size_t length = strlen(path);
    if (length == 0 || length > WEIR_SNAPSHOT_PATH_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "path", "must be 1 to 4000 bytes");
    int error = begin(limiter, note, note_size, &writer, ret_fault);
    if (error || !writer)
        return error;
    (void)snprintf(writer->path, sizeof writer->path, "%s", path);
    (void)snprintf(writer->beside, sizeof writer->beside, "%s.new", path);
    (void)unlink(writer->beside); /* of one that was killed; and never through a link of somebody's */
    writer->fd = open(writer->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (writer->fd < 0) {
        error = weir_snapshot_io_fault("make", writer->beside, errno, ret_fault);
        weir_snapshot_end(writer);
        return error;
    }
    *ret_writer = writer;
    return 0;
}

int weir_snapshot_begin_fd(struct weir_limiter *limiter, int fd, const void *note, size_t note_size,
                           struct weir_snapshot_writer **ret_writer, struct weir_fault *ret_fault)
{
    int error = begin(limiter, note, note_size, ret_writer, ret_fault);
    if (!error)
        (*ret_writer)->fd = fd;
    return error;
}

/* Reads on, and writes nothing: a disk may be slow, and meanwhile no entry is held and no reload waits. ret_kind: of
 * what is in the block. True while there is more. */
static bool read_on(struct weir_snapshot_writer *writer, size_t lines_max, enum weir_snapshot_kind *ret_kind)
{
    struct weir_limiter *limiter = writer->limiter;
    const struct weir_time time = { writer->moment.now_ns, writer->moment.wall_ns };
    bool more = true;
    *ret_kind = WEIR_SNAPSHOT_ENTRIES;
    if (!weir_table_in_reach(&limiter->table, time.now_ns))
        weir_limiter_reach(limiter, time.now_ns);
    pthread_mutex_lock(&limiter->background);
    if (writer->reading && is_spoilt(writer, time.now_ns))
        writer->reading = false;
    if (!writer->reading && limiter->walk_due) { /* the keys of the limits before are carried over first */
        weir_limiter_walk_on(limiter, &time, lines_max);
    } else if (!writer->reading) {
        begin_reading(writer);
        writer->defines = put_definitions(writer);
        *ret_kind = WEIR_SNAPSHOT_DEFINITIONS;
    } else if (writer->defines) {
        writer->defines = put_definitions(writer);
        *ret_kind = WEIR_SNAPSHOT_DEFINITIONS;
    } else {
        more = weir_table_read(&limiter->table, &writer->cursor, lines_max, on_entry, writer);
    }
    if (!more && is_spoilt(writer, time.now_ns)) {
        writer->reading = false;
        more = true;
    }
    pthread_mutex_unlock(&limiter->background);
    return more;
}

/* Back to the beginning of the file. */
static void rewind_file(struct weir_snapshot_writer *writer)
{
    uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES];
    if (ftruncate(writer->fd, 0) || lseek(writer->fd, 0, SEEK_SET) != 0)
        writer->error = errno;
    weir_snapshot_head_write(&writer->head, bytes);
    write_all(writer, bytes, sizeof bytes);
    writer->rewinds = false;
}

int weir_snapshot_step(struct weir_snapshot_writer *writer, size_t lines_max, const struct weir_moment *moment,
                       struct weir_snapshot_stats *ret_stats, struct weir_fault *ret_fault)
{
    enum weir_snapshot_kind kind;
    writer->moment = *moment;
    bool more = read_on(writer, lines_max, &kind);
    if (writer->rewinds)
        rewind_file(writer);
    if (kind == WEIR_SNAPSHOT_DEFINITIONS || is_full(writer))
        flush(writer, kind);
    if (writer->error)
        return weir_snapshot_io_fault("write", writer->path[0] ? writer->beside : "memory", writer->error, ret_fault);
    if (more)
        return WEIR_EAGAIN;
    flush(writer, WEIR_SNAPSHOT_ENTRIES);
    weir_snapshot_put_end(&writer->block, writer->definitions, writer->stats.keys);
    flush(writer, WEIR_SNAPSHOT_END);
    int error = put_in_place(writer, ret_fault);
    if (error)
        return error;
    *ret_stats = writer->stats;
    return 0;
}

void weir_snapshot_end(struct weir_snapshot_writer *writer)
{
    if (!writer)
        return;
    weir_table_read_end(&writer->limiter->table, &writer->cursor);
    if (writer->fd >= 0 && writer->path[0]) {
        close(writer->fd);
        (void)unlink(writer->beside);
    }
    free(writer->numbers);
    free(writer->block.bytes);
    free(writer->ring);
    free(writer);
}
