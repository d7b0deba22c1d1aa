/* SPDX-License-Identifier: Apache-2.0
 *
 * A build has it in the folder `site` beside the program, an installation in datadir/weir (base/beside.c). Looked for
 * is the list that `make site` writes: another folder of that name is not ours to show. Called by serve.c. */
#include "cli/serve_site.h"

#include <stdio.h>
#include <string.h>

#include "base/beside.h"
#include "cli/serve_warn.h"

struct weir_site *weir_serve_site_load(const struct weir_config *config)
{
    struct weir_beside beside;
    struct weir_fault fault = { 0 };
    struct weir_site *site = NULL;
    if (config->http.kind == WEIR_ADDRESS_OFF || !weir_beside_find(WEIR_BESIDE_DATA, "site/" WEIR_SITE_LIST, &beside))
        return NULL;
    *strrchr(beside.path, '/') = '\0';
    int error = weir_site_load(beside.path, &site, &fault);
    if (error)
        weir_serve_warn(config, "no documentation at /docs: %s: %s: %s", beside.path, fault.field,
                        fault.text[0] ? fault.text : weir_error_text(error));
    else
        printf("weir: documentation at /docs/, from %s\n", beside.path);
    return error ? NULL : site;
}
