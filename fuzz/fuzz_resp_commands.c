/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to a connection that may do everything: the commands stay inside their memory and bounds. */
#include "serve/resp.h"
#include "serve_alone.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config_text[] = "limits:\n"
                                  "  - { name: a, key: [user], rate: 10/s }\n"
                                  "  - { name: b, key: [user], rate: 5/min, algorithm: sliding_log }\n"
                                  "  - { name: c, match: { site: 'x*' }, rate: 3/hour, algorithm: fixed_window }\n"
                                  "  - { name: d, key: [job], rate: 2, algorithm: concurrency }\n";

static struct serve_alone alone;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    serve_alone_init(&alone, &weir_resp_protocol, config_text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        serve_alone_run(&alone, &weir_resp_protocol, data, size);
    return 0;
}
