/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the witness file of a store of locks: what is read is what would be written, or it is not ours. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "locks/witness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct weir_witness witness = { 0 };
    int fd = memfd_create("witness", MFD_CLOEXEC);
    weir_assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int error = weir_witness_load(path, &witness);
    close(fd);
    weir_assert(error == 0 || error == WEIR_ECORRUPT);
    if (error)
        return 0;
    /* Ours: a line of its own, numbers as we write them. */
    char head[160];
    int used = snprintf(head, sizeof(head), "weir-witness 1 %llu %llu %llu %llu ", (unsigned long long)witness.system,
                        (unsigned long long)witness.timeline, (unsigned long long)witness.position,
                        (unsigned long long)witness.incarnation);
    weir_assert((size_t)used + 17 == size && memcmp(data, head, (size_t)used) == 0 && data[size - 1] == '\n');
    return 0;
}
