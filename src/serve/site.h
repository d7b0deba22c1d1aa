/* SPDX-License-Identifier: Apache-2.0
 *
 * The documentation as a site (`make site`), in memory: all files of a folder, read once. A request is compared with
 * their names and opens nothing, so it reaches nothing else, and no loop waits for a disk.
 *
 * Thread rule: immutable once loaded. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

/* More than this is not served at all. */
#define WEIR_SITE_BYTES_MAX ((size_t)32 << 20)
#define WEIR_SITE_FILES_MAX 1024
#define WEIR_SITE_DEPTH_MAX 8 /* folders within folders */
#define WEIR_SITE_HASHES_MAX 32

/* Of a folder that `make site` wrote: the hashes of the scripts that stand in its pages, a line each. */
#define WEIR_SITE_LIST "weir-site.txt"

/* At most so many bytes of header fields. */
#define WEIR_SITE_FIELDS_MAX (1024 + WEIR_SITE_HASHES_MAX * 64)

struct weir_site;

/* Where a site will be once it has been read, beside a server that serves already. */
struct weir_site_place {
    _Atomic(struct weir_site *) site; /* NULL: there is none (yet) */
    _Atomic bool is_read;             /* nothing comes any more */
};

struct weir_site_file {
    char *name; /* from the site's folder: "assets/x.css" */
    const char *type;
    uint8_t *bytes;
    size_t size;
};

/* Links and what is no regular file, and names with other bytes than [A-Za-z0-9._-] or with a dot in front, are passed
 * over. WEIR_ERANGE: there is more than may be; WEIR_EINVAL: the list is none; WEIR_EIO, WEIR_ENOMEM. The fault says
 * what. */
int weir_site_load(const char *folder, struct weir_site **ret_site, struct weir_fault *ret_fault);
void weir_site_destroy(struct weir_site *site); /* NULL is allowed */

size_t weir_site_count(const struct weir_site *site);

/* NULL: there is none of exactly that name. */
const struct weir_site_file *weir_site_find(const struct weir_site *site, struct weir_slice name);

/* The header fields of each answer: what its pages may load and run. Lives as long as the site. */
const char *weir_site_fields(const struct weir_site *site);
