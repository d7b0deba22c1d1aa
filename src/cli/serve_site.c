/* SPDX-License-Identifier: Apache-2.0
 *
 * A build has it in the folder `site` beside the program, an installation in datadir/weir (base/beside.c). Looked for
 * is the list that `make site` writes: another folder of that name is not ours to show. Called by serve.c. */
#include "cli/serve_site.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/serve_warn.h"

static void *read_it(void *context)
{
    struct weir_serve_site *site = context;
    struct weir_fault fault = { 0 };
    struct weir_site *read = NULL;
    int error = weir_site_load(site->folder.path, &read, &fault);
    if (error) {
        weir_serve_warn(&site->shown, "no documentation at /docs: %s: %s: %s", site->folder.path, fault.field,
                        fault.text[0] ? fault.text : weir_error_text(error));
    } else {
        printf("weir: documentation at /docs/, from %s\n", site->folder.path);
        fflush(stdout);
    }
    atomic_store(&site->place.site, read);
    atomic_store(&site->place.is_read, true);
    return NULL;
}

void weir_serve_site_begin(struct weir_serve_site *site, const struct weir_config *config)
{
    sigset_t all, before;
    if (config->http.kind == WEIR_ADDRESS_OFF ||
        !weir_beside_find(WEIR_BESIDE_DATA, "site/" WEIR_SITE_LIST, &site->folder)) {
        atomic_store(&site->place.is_read, true);
        return;
    }
    *strrchr(site->folder.path, '/') = '\0';
    site->shown = (struct weir_config){ .log_format = config->log_format, .log_level = config->log_level };
    if (config->nodes_count > 0 && config->node_name) { /* the configuration may be another one by then */
        (void)snprintf(site->node_name, sizeof(site->node_name), "%s", config->node_name);
        site->shown.nodes_count = 1;
        site->shown.node_name = site->node_name;
    }
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    site->is_thread = pthread_create(&site->thread, NULL, read_it, site) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!site->is_thread)
        (void)read_it(site);
}

void weir_serve_site_end(struct weir_serve_site *site)
{
    if (site->is_thread)
        pthread_join(site->thread, NULL);
    weir_site_destroy(atomic_load(&site->place.site));
}
