/* SPDX-License-Identifier: Apache-2.0
 *
 * native SEED PARTS OPERATIONS: runs the stream natively; a digest per line after each part, then the counts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "stream.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: native SEED PARTS OPERATIONS\n");
        return 2;
    }
    struct weir_stream *stream = malloc(sizeof *stream);
    if (!stream)
        return 1;
    weir_stream_init(stream, strtoull(argv[1], NULL, 10));
    uint64_t parts = strtoull(argv[2], NULL, 10), operations = strtoull(argv[3], NULL, 10);
    for (uint64_t i = 0; i < parts; i++)
        printf("%" PRIu64 "\n", weir_stream_run(stream, operations));
    for (size_t i = 0; i < STREAM_COUNTS; i++)
        printf("%" PRIu64 "%c", stream->counts[i], i + 1 < STREAM_COUNTS ? ' ' : '\n');
    free(stream);
    return 0;
}
