/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the sqlite engine: how a database comes into being, with its tables and its meta row. It knows nothing of
 * locks and of what the file is used for later. Called by sqlite_store.c, by whoever has claimed the path. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>

#define WEIR_SQLITE_APPLICATION_ID 0x77656972 /* "weir" */
#define WEIR_SQLITE_FORMAT 1

/* Fills an empty database in one transaction. A code of sqlite's. */
int weir_sqlite_new_fill(sqlite3 *db);

/* Where nothing is at `path`: puts a filled database there, durable, in write-ahead mode and for its owner alone.
 * Until it is whole it is called PATH.new, so that whoever dies on the way leaves either nothing at PATH or all of
 * it. False: that could not be done, or not be made sure of; sqlite opens what is there or makes it, and says what is
 * wrong. */
bool weir_sqlite_new_put(const char *path);
