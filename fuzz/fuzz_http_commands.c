/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to an HTTP connection that may do everything: every path of it stays inside its memory and
 * bounds, whatever the proxy's fields say. */
#include "serve/http.h"
#include "serve_alone.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config_text[] = "listen: { http: { address: 127.0.0.1:8080, forwarded: nginx } }\n"
                                  "limits:\n"
                                  "  - { name: a, key: [user], rate: 10/s }\n"
                                  "  - { name: b, key: [user], rate: 5/min, algorithm: sliding_log }\n"
                                  "  - { name: c, match: { site: 'x*' }, rate: 3/hour, algorithm: fixed_window }\n"
                                  "  - { name: d, key: [job], rate: 2, algorithm: concurrency }\n";

static struct serve_alone alone;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    serve_alone_init(&alone, &weir_http_protocol, config_text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        serve_alone_run(&alone, &weir_http_protocol, data, size);
    return 0;
}
