/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's folder is that of /proc/self/exe; the folders of `make install` are compiled in (base/meson.build),
 * each as a full path and as seen from the program's folder. Called by cli/apart.c for the programs behind `weir sim`,
 * `weir replay` and `weir reads`, by modules/module.c for modules, by cli/serve_site.c for the documentation. */
#include "base/beside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Of each kind: as seen from the program's folder, and by its full path. */
static const struct installed {
    const char *near, *full;
} installed[] = {
    [WEIR_BESIDE_PROGRAM] = { WEIR_PROGRAMS_NEAR, WEIR_PROGRAMS },
    [WEIR_BESIDE_MODULE] = { WEIR_MODULES_NEAR, WEIR_MODULES },
    [WEIR_BESIDE_DATA] = { WEIR_DATA_NEAR, WEIR_DATA },
};

/* Of a program that was replaced while it runs, the kernel says "/usr/bin/weir (deleted)": the folder is right. */
static bool own_folder(char ret_folder[PATH_MAX])
{
    ssize_t length = getauxval(AT_SECURE) ? -1 : readlink("/proc/self/exe", ret_folder, PATH_MAX - 1);
    if (length <= 0 || ret_folder[0] != '/')
        return false;
    ret_folder[length] = '\0';
    *strrchr(ret_folder, '/') = '\0';
    return true;
}

static bool look_in(const char *folder, const char *name, struct weir_beside *beside)
{
    size_t used = strlen(beside->folders);
    (void)snprintf(beside->folders + used, sizeof(beside->folders) - used, "%s%s", used > 0 ? " or " : "",
                   folder[0] ? folder : "/");
    int length = snprintf(beside->path, sizeof(beside->path), "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof(beside->path) &&
           (access(beside->path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR));
}

bool weir_beside_find(enum weir_beside_kind kind, const char *name, struct weir_beside *ret_beside)
{
    char folder[PATH_MAX];
    const struct installed *where = &installed[kind];
    ret_beside->folders[0] = '\0';
    if (!own_folder(folder))
        return look_in(where->full, name, ret_beside);
    if (look_in(folder, name, ret_beside))
        return true;
    size_t used = strlen(folder);
    bool absolute = where->near[0] == '/';
    int length = snprintf(folder + (absolute ? 0 : used), PATH_MAX - (absolute ? 0 : used), "%s%s", absolute ? "" : "/",
                          where->near);
    return length > 0 && (size_t)length < PATH_MAX - used && look_in(folder, name, ret_beside);
}
