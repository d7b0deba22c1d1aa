/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir fence file`, called by main.c. It reads the arguments, calls locks/fence_dir.c, and turns the
 * error into an exit code and a line on standard error. How files in a folder keep older holders out is explained in
 * fence_dir.h. No server is asked: the fencing token comes from --fence or from WEIR_FENCE, which lock_run.c sets for
 * its command. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/option.h"
#include "cli/verbs.h"
#include "locks/fence_dir.h"

#define EXIT_UNKNOWN 3

static const char help[] =
    "Usage: weir fence file install|write|read DIR [--fence INCARNATION.NUMBER]\n"
    "\n"
    "A value in a folder that only the newest holder of a lock can write (docs/fencing-files.md).\n"
    "\n"
    "  install DIR   fences all older holders; before the first read\n"
    "  read DIR      prints the value\n"
    "  write DIR     standard input becomes the value\n"
    "  --fence TOKEN of the grant; by default WEIR_FENCE, which weir lock sets\n"
    "\n"
    "Exit code: 0 done, 1 refused (a later token is installed, or this one is not), 2 error,\n"
    "3 unknown (write: another was installed at that moment; read: an install is under way).\n"
    "\n"
    "Example, a job that runs under `weir lock report -- ./job`:\n"
    "  weir fence file install /srv/report\n"
    "  weir fence file read /srv/report > before && ./compute before > after\n"
    "  weir fence file write /srv/report < after\n";

static int complain(const char *path, int error, struct weir_token mark)
{
    switch (error) {
    case 0:
        return WEIR_EXIT_OK;
    case WEIR_EFENCED:
        fprintf(stderr, "weir: %s: fenced, mark %" PRIu64 ".%" PRIu64 ": %s\n", path, mark.incarnation, mark.number,
                weir_error_text(error));
        return WEIR_EXIT_REFUSED;
    case WEIR_ENOTINSTALLED:
        fprintf(stderr, "weir: %s: %s\n", path, weir_error_text(error));
        return WEIR_EXIT_REFUSED;
    case WEIR_EUNKNOWN:
        fprintf(stderr,
                "weir: %s: unknown: a later token was installed at the same moment; its holder may have read "
                "this or not\n",
                path);
        return EXIT_UNKNOWN;
    case WEIR_EBUSY:
        fprintf(stderr, "weir: %s: an install is under way, or its process died: the next install ends that\n", path);
        return EXIT_UNKNOWN;
    default:
        fprintf(stderr, "weir: %s: %s\n", path, error == WEIR_EIO ? strerror(errno) : weir_error_text(error));
        return WEIR_EXIT_ERROR;
    }
}

static int print_value(const char *path)
{
    char buffer[65536];
    struct weir_token token;
    int file = -1;
    int error = weir_fence_dir_read(path, &file, &token);
    ssize_t got = 0;
    while (!error && file >= 0 && (got = read(file, buffer, sizeof(buffer))) > 0) {
        if (fwrite(buffer, 1, (size_t)got, stdout) != (size_t)got)
            error = WEIR_EIO; /* fflush would not say so: what was refused is not in its buffer any more */
    }
    if (got < 0 || (!error && fflush(stdout) != 0))
        error = WEIR_EIO;
    int code = complain(path, error, (struct weir_token){ 0, 0 });
    if (file >= 0)
        close(file);
    return code;
}

static int run(const char *what, const char *path, const char *fence)
{
    struct weir_token token, mark = { 0, 0 };
    bool installs = strcmp(what, "install") == 0;
    if (strcmp(what, "read") == 0)
        return print_value(path);
    if (!installs && strcmp(what, "write") != 0) {
        static const char *const words[] = { "install", "write", "read", NULL };
        weir_word_unknown("fence file", what, words);
        fputs("weir: fence file knows install, write and read\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    if (!fence || weir_token_parse(fence, strlen(fence), &token) != 0) {
        fprintf(stderr, "weir: %s: must be INCARNATION.NUMBER, as weir lock sets WEIR_FENCE\n",
                fence ? fence : "no --fence and no WEIR_FENCE");
        return WEIR_EXIT_ERROR;
    }
    int error = installs ? weir_fence_dir_install(path, token, &mark)
                         : weir_fence_dir_write(path, token, STDIN_FILENO, &mark);
    return complain(path, error, mark);
}

int weir_cli_fence(int argc, char **argv)
{
    const char *fence = getenv("WEIR_FENCE");
    const struct weir_option options[] = {
        { "fence", .text = &fence },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, NULL, help, "weir fence --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (argc - optind != 3 || strcmp(argv[optind], "file") != 0) {
        fputs("weir: try weir fence --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    return run(argv[optind + 1], argv[optind + 2], fence);
}
