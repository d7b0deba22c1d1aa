/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a permit: none of ours; and any permit of ours comes back as it was, and with one byte changed not at
 * all. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/permit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct weir_permit_secret secret = { { 1, 2 }, { 3, 4 } };

static struct weir_permit_id id_of(const uint8_t *data, size_t size)
{
    struct weir_permit_id id = { .number = size, .count = size % WEIR_CHARGES_MAX + 1 };
    id.counting = (data[0] ^ size) % (id.count + 1);
    for (size_t i = 0; i < id.count; i++)
        memcpy(&id.keys[i].hash, data + i % (size - 7), sizeof(id.keys[i].hash));
    return id;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_permit_id read;
    char text[WEIR_PERMIT_TEXT_MAX];
    char *copy = malloc(size ? size : 1); /* exactly as many, so that ASan sees a look beyond them */
    memcpy(copy, data, size);
    bool ours = weir_permit_read(&secret, (struct weir_slice){ copy, size }, &read);
    free(copy);
    /* The fuzzer knows the secret and cannot sign: 64 bits guessed would be the only way. */
    if (ours) {
        size_t back = weir_permit_write(&secret, &read, text);
        weir_assert(back == size && memcmp(text, data, size) == 0);
    }
    if (size < 8)
        return 0;
    const struct weir_permit_id id = id_of(data, size);
    size_t written = weir_permit_write(&secret, &id, text);
    weir_assert(weir_permit_read(&secret, (struct weir_slice){ text, written }, &read));
    weir_assert(read.number == id.number && read.count == id.count && read.counting == id.counting);
    for (size_t i = 0; i < id.count; i++)
        weir_assert(read.keys[i].hash == id.keys[i].hash);
    text[data[1] % written] ^= (char)(data[2] ? data[2] : 1);
    weir_assert(!weir_permit_read(&secret, (struct weir_slice){ text, written }, &read));
    return 0;
}
