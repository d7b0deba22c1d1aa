/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a module: base/beside.c finds the file and dlopen loads it. It is accepted if its symbol weir_module carries
 * the digest of this program's headers and the name that was asked for; else it is closed again. Called by late.c,
 * which hands calls on to the module, and by src/cli/serve_needs.c, which says what is missing before the server
 * starts. */
#include "modules/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/beside.h"
#include "modules/digest.h"

/* What a build has it with. */
static const char *library_of(const char *name)
{
    if (strcmp(name, WEIR_MODULE_POSTGRES) == 0)
        return "libpq";
    return strcmp(name, WEIR_MODULE_GRPC) == 0 ? "libnghttp2" : "libcurl";
}

int weir_module_load(const char *name, const struct weir_module **ret_module, char ret_said[WEIR_MODULE_SAID_SIZE])
{
    struct weir_beside beside;
    if (!weir_beside_find(WEIR_BESIDE_MODULE, name, &beside)) {
        (void)snprintf(ret_said, WEIR_MODULE_SAID_SIZE,
                       "%s, which is not in %s: a build has it where %s is, and make install puts it there", name,
                       beside.folders, library_of(name));
        return WEIR_ENOENT;
    }
    /* All symbols now: what is replaced while the process runs changes nothing in it. */
    void *handle = dlopen(beside.path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)snprintf(ret_said, WEIR_MODULE_SAID_SIZE, "%s, which cannot be loaded: %s", beside.path, dlerror());
        return WEIR_EINVAL;
    }
    const struct weir_module *module = dlsym(handle, "weir_module");
    if (!module || strcmp(module->digest, WEIR_MODULE_DIGEST) != 0 || strcmp(module->name, name) != 0) {
        (void)snprintf(ret_said, WEIR_MODULE_SAID_SIZE,
                       "%s, which is of another build of weir (%s; this one is %s): install both from one build, and "
                       "start it again",
                       beside.path, module ? module->digest : "not a module", WEIR_MODULE_DIGEST);
        (void)dlclose(handle);
        return WEIR_EINVAL;
    }
    *ret_module = module;
    return 0;
}
