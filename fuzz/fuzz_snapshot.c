/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a snapshot: refused, or restored into a limiter that then decides; and any bytes as records under a
 * digest that is right, as from somebody who knows the secret. The first byte chooses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "wire/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_MAX_FUZZED ((size_t)32 << 10)
#define FILE_MAX (SIZE_MAX_FUZZED + 4096)
#define NOW (UINT64_C(1000) * WEIR_NS_PER_SECOND)

/* The first part of `data` as definitions, the rest as entries. How many there are is counted as a reader would. */
static size_t forge(const uint8_t *data, size_t size, uint8_t *file)
{
    const struct weir_snapshot_head head = { .moment = { .now_ns = NOW, .wall_ns = NOW }, .shard_bits = 12 };
    const struct weir_sip_key key = weir_sip_key_load(head.secret);
    const size_t definitions_size = size > 2 ? (data[0] | (size_t)data[1] << 8) % (size - 1) : 0;
    const struct {
        const uint8_t *at;
        size_t size;
        enum weir_snapshot_kind kind;
    } parts[] = {
        { data + 2, definitions_size, WEIR_SNAPSHOT_DEFINITIONS },
        { data + 2 + definitions_size, size - 2 - definitions_size, WEIR_SNAPSHOT_ENTRIES },
    };
    uint64_t place = 0, counts[2] = { 0, 0 };
    size_t at = WEIR_SNAPSHOT_HEAD_BYTES;
    struct weir_snapshot_block block;
    weir_snapshot_head_write(&head, file);
    for (int i = 0; i < 2; i++) {
        if (parts[i].size == 0)
            continue;
        struct weir_snapshot_rest rest = { parts[i].at, parts[i].size };
        struct weir_snapshot_definition definition;
        struct weir_snapshot_entry entry;
        while ((i == 0 ? weir_snapshot_take_definition(&rest, &definition) : weir_snapshot_take_entry(&rest, &entry)) ==
               1)
            counts[i]++;
        block = (struct weir_snapshot_block){ file + at, parts[i].size };
        memcpy(file + at + WEIR_SNAPSHOT_FRAME_BYTES, parts[i].at, parts[i].size);
        at += weir_snapshot_seal(&block, parts[i].kind, place++, &key);
    }
    block = (struct weir_snapshot_block){ file + at, 0 };
    weir_snapshot_put_end(&block, counts[0], counts[1]);
    return at + weir_snapshot_seal(&block, WEIR_SNAPSHOT_END, place, &key);
}

static void decide(struct weir_limiter *limiter)
{
    const struct weir_limit_def def = { "0", "", { .algorithm = WEIR_SLIDING_LOG, .count = 5, .period_ns = NOW } };
    struct weir_time time = { NOW, NOW };
    struct weir_charge charge = { .cost = 1 };
    struct weir_fault fault;
    int error = weir_limiter_define(limiter, &def, 1, &time, &charge.limit, &fault); /* carries over what is of "0" */
    weir_assert(error == 0 || error == WEIR_ENOMEM);
    for (uint64_t i = 0; error == 0 && i < 8; i++, time.now_ns += NOW / 4) {
        charge.key.hash = i % 2;
        (void)weir_limiter_admit(limiter, &charge, &time);
        (void)weir_limiter_maintain(limiter, &time, 4096);
    }
}

static void restore(const char *path)
{
    const struct weir_moment moment = { .now_ns = NOW + 1, .wall_ns = NOW + 1 };
    struct weir_snapshot_reader *reader;
    struct weir_snapshot_stats stats;
    struct weir_limiter *limiter;
    struct weir_fault fault;
    if (weir_snapshot_open(path, &reader, &fault) != 0)
        return;
    const struct weir_limiter_options options = { .memory_max = 1 << 20, .secret = weir_snapshot_secret(reader) };
    int error = weir_limiter_create(&options, &limiter, &fault);
    weir_assert(error == 0);
    if (weir_snapshot_restore(reader, limiter, &moment, &stats, &fault) == 0)
        decide(limiter);
    weir_snapshot_close(reader);
    weir_limiter_destroy(limiter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[FILE_MAX];
    char path[64];
    if (size < 4 || size > SIZE_MAX_FUZZED)
        return 0;
    bool raw = data[0] & 1;
    size_t written = raw ? size - 1 : forge(data + 1, size - 1, file);
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    if (fd < 0 || write(fd, raw ? data + 1 : file, written) != (ssize_t)written)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    restore(path);
    close(fd);
    return 0;
}
